# What ptxas -v says of each kernel and target, against a file's budgets. Usage:
#   awk -v source=FILE -f gates.awk STATED LOG
# Prints a line for each, and one that begins with "FAIL" for each thing that is wrong.

FNR == NR {
    if ($1 == "registers") budget[$2] = $3
    if ($1 == "stack") room[$2] = $3
    next
}

/Compiling entry function/ {
    split($0, part, "'")
    kernel = plain(part[2])
    target = part[4]
    seen[kernel] = 1
}

/bytes stack frame/ {
    stack = $1
    spills = 0
    for (i = 1; i <= NF; i++) if ($i == "spill") spills += $(i - 2)
}

/Used [0-9]+ registers/ {
    for (i = 1; i <= NF; i++) if ($i == "Used") used = $(i + 1)
    if (!(kernel in budget)) fail(kernel " has no budget of registers (" target " uses " used ")")
    else if (used > budget[kernel]) fail(kernel " uses " used " registers for " target ", not " budget[kernel])
    if (spills > 0) fail(kernel " spills " spills " bytes for " target)
    else if (stack > room[kernel] + 0) fail(kernel " has " stack " bytes of stack for " target ", not " room[kernel] + 0)
    printf "%-28s %-7s %3d of %3s registers\n", kernel, target, used, (kernel in budget) ? budget[kernel] : "?"
}

END {
    for (kernel in budget) if (!(kernel in seen)) fail("there is no kernel " kernel)
    for (kernel in room) if (!(kernel in seen)) fail("there is no kernel " kernel)
}

# The name in the source of a mangled one: the last of its parts, each with its length before it (Itanium C++
# ABI, 5.1.2). Part of another is the name of a file, which need not be the same tomorrow.
function plain(name,    size, last) {
    if (!sub(/^_ZN?/, "", name)) return name
    while (match(name, /^[0-9]+/)) {
        size = substr(name, 1, RLENGTH) + 0
        last = substr(name, RLENGTH + 1, size)
        name = substr(name, RLENGTH + size + 1)
    }
    return last
}

function fail(text) {
    print "FAIL " source ": " text
}
