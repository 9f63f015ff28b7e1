# Fails on an #include that layers.txt does not allow. Usage:
#   awk -f tests/layers.awk tests/layers.txt FILE...
# Each file's folder is tried, then its parents, then `*`.

FNR == NR {
    if (NF == 2 && $1 !~ /^#/) allowed[$1, $2] = 1
    next
}

/^[ \t]*#[ \t]*include[ \t]*["<]/ {
    header = $0
    sub(/^[^"<]*["<]/, "", header)
    sub(/[">].*$/, "", header)
    if (!may_include(FILENAME, header)) {
        printf "%s:%d: may not include %s\n", FILENAME, FNR, header
        failed = 1
    }
}

END { exit failed }

function may_include(file, header,    folder, dependency) {
    folder = file
    while (folder != "*") {
        if (!sub(/\/[^\/]*$/, "", folder)) folder = "*"
        for (dependency = header; ; ) {
            if ((folder, dependency) in allowed) return 1
            if (!sub(/\/[^\/]*$/, "", dependency)) break
        }
    }
    return 0
}
