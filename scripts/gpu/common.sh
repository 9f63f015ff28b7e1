# shellcheck shell=bash
# What floors.sh and peers.sh share, to be sourced from the root of the tree: options, the toolkit, builds,
# parts with a bound each, lines of JSON. Nothing here changes a setting of the card.
#
# The caller sets USAGE, and DEFAULT_ARCHS for --build-only. results: the file of JSON lines.

# What a caller can tell apart: 0 is all measured, 1 a part or case that failed.
EXIT_USAGE=2
EXIT_NO_GPU=3
EXIT_BUILD=4

build_only=0
results_name=
archs=
only=
out=build/gpu/results
programs=build/gpu

# take_options ARGUMENT...
take_options() {
    while [ $# -gt 0 ]; do
        case $1 in
        --build-only) build_only=1 ;;
        --arch | --build | --name | --only | --out)
            if [ $# -lt 2 ]; then
                echo "$0: $1 wants a value" >&2
                exit $EXIT_USAGE
            fi
            case $1 in
            --arch) archs=${2//,/ } ;;
            --build) programs=$2 ;;
            --name) results_name=$2 ;;
            --only) only=,$2, ;;
            --out) out=$2 ;;
            esac
            shift
            ;;
        --help)
            echo "$USAGE"
            exit 0
            ;;
        *)
            echo "$0: unknown option $1" >&2
            echo "$USAGE" >&2
            exit $EXIT_USAGE
            ;;
        esac
        shift
    done
}

# Says whether a part was asked for.
is_wanted() {
    [ -z "$only" ] || [[ $only == *,$1,* ]]
}

want_gpu() {
    if [ -z "$(nvidia-smi -L 2>/dev/null)" ] && [ ! -e /dev/nvidia0 ]; then
        echo "$0: no NVIDIA GPU on this machine: nothing measured (--build-only builds without one)" >&2
        exit $EXIT_NO_GPU
    fi
}

# Sets nvcc and toolkit.
want_nvcc() {
    local folder
    nvcc=$(command -v nvcc)
    for folder in "${CUDA_HOME:-}" /usr/local/cuda; do
        if [ -z "$nvcc" ] && [ -x "$folder/bin/nvcc" ]; then
            nvcc=$folder/bin/nvcc
        fi
    done
    if [ -z "$nvcc" ]; then
        echo "$0: no nvcc in PATH, CUDA_HOME or /usr/local/cuda" >&2
        exit $EXIT_BUILD
    fi
    toolkit=$(cd "$(dirname "$(readlink -f "$nvcc")")/.." && pwd)
}

# What to build for: as asked, as the card is (with `a`, Hopper's own instructions), or all that are known.
choose_archs() {
    local capability=
    if [ -z "$archs" ] && [ "$build_only" -eq 0 ]; then
        capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
            sed -n '1s/[^0-9]//gp')
        archs=${capability:-90}
        if [ "$archs" -ge 90 ]; then
            archs=${archs}a
        fi
    fi
    archs=${archs:-$DEFAULT_ARCHS}
}

# compile NAME [nvcc's further arguments]: bench/gpu/NAME.cu into a program named after its targets too, if
# the one that is there is older than what it is made of.
compile() {
    local name=$1 arch code=() strict=()
    shift
    local program="$programs/$name-${archs// /-}" source=bench/gpu/$name.cu
    if [ -z "$(find "$source" bench/gpu/*.cuh scripts/gpu/common.sh -newer "$program" 2>&1)" ]; then
        return 0
    fi
    for arch in $archs; do
        code+=(-gencode "arch=compute_$arch,code=sm_$arch")
    done
    # Where it is to run, another compiler's warning shall not be in the way.
    [ "$build_only" -eq 0 ] || strict=(-Werror all-warnings)
    "$nvcc" -std=c++17 -O3 -lineinfo -I. --default-stream per-thread "${code[@]}" \
        ${strict[@]+"${strict[@]}"} -Xcompiler -Wall,-Wextra -o "$program.new" "$source" "$@" &&
        mv "$program.new" "$program"
}

# build NAMES [nvcc's further arguments]: all of the list, as many at once as there are CPUs (or JOBS); two
# minutes at most.
build() {
    local names=$1
    shift
    mkdir -p "$programs"
    export -f compile
    export nvcc archs programs build_only
    # shellcheck disable=SC2016,SC2086 # the inner shell expands; names are words
    if ! printf '%s\n' $names | timeout 120 xargs -P "${JOBS:-$(nproc)}" -I{} \
        bash -c 'compile "$@"' compile {} "$@"; then
        echo "$0: not all was built" >&2
        exit $EXIT_BUILD
    fi
}

# json NAME VALUE...: the members of an object, strings.
json() {
    local text=
    while [ $# -gt 1 ]; do
        local value=${2//\\/\\\\}
        value=${value//\"/\\\"}
        text+=${text:+,}\"$1\":\"${value//[[:cntrl:]]/ }\"
        shift 2
    done
    printf '%s' "$text"
}

# first COMMAND...: the first line that it prints, or "unknown".
first() {
    local line
    line=$("$@" 2>/dev/null | head -n 1)
    printf '%s' "${line:-unknown}"
}

# timed SECONDS COMMAND...: waits so long at most, and may be interrupted meanwhile (end_running).
running=
timed() {
    timeout -k 2 "$@" &
    running=$!
    wait "$running"
    local status=$?
    running=
    return $status
}

# Told to end: ends first what runs. A program of the card's must not outlive its script; `timeout` has it, and all
# that it has started, in a group of its own, hands the signal on, and kills what does not listen.
end_running() {
    if [ -n "$running" ]; then
        kill -TERM "$running"
        wait "$running"
        printf '\n{"part":"%s","case":"all of it",%s}\n' "$running_part" \
            "$(json status failed reason 'told to end')" >>"$results"
    fi
    exit 143
}

# Starts the file of results with what they must be kept with. Kernels load before anything is timed.
begin_results() {
    local changed
    trap end_running HUP INT TERM
    changed=$(git status --porcelain --untracked-files=no 2>/dev/null | head -n 1)
    mkdir -p "$out"
    local name=${results_name:-$1}
    results=$out/$name.jsonl
    failed=0
    export CUDA_MODULE_LOADING=EAGER
    : >"$out/$name.err"
    printf '{"part":"machine",%s}\n' "$(json \
        commit "${COMMIT:-$(first git rev-parse --short HEAD)${changed:+, changed}}" \
        date "$(date -u '+%F %H:%M UTC')" \
        gpu "$(first nvidia-smi --query-gpu=name --format=csv,noheader)" \
        driver "$(first nvidia-smi --query-gpu=driver_version --format=csv,noheader)" \
        pcie "$(first nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current \
            --format=csv,noheader)" \
        toolkit "$(first sed -n 's/.*"version" *: *"\([0-9.]*\)".*/\1/p' "$toolkit/version.json")" \
        nvcc "$("$nvcc" --version | sed -n 's/.*release [^,]*, //p')" \
        cpu "$(first sed -n 's/^model name[^:]*: //p' /proc/cpuinfo)" \
        cpus "$(nproc)" kernel "$(uname -r)" archs "$archs")" >"$results"
    clocks start
}

# A line of what the card's sensors say now.
clocks() {
    local fields=clocks.sm,clocks.mem,temperature.gpu,power.draw,pstate line sm memory celsius watts state
    line=$(first nvidia-smi --query-gpu=$fields --format=csv,noheader,nounits)
    IFS=', ' read -r sm memory celsius watts state <<<"$line"
    printf '{"part":"clocks",%s}\n' "$(json after "$1" sm_mhz "$sm" memory_mhz "${memory:-}" \
        temperature_c "${celsius:-}" power_w "${watts:-}" pstate "${state:-}")" >>"$results"
}

# part NAME SECONDS COMMAND...: adds what it prints to the results. What ends it early, or fails it without
# a failed case, is a line there too; either makes `failed` 1.
part() {
    local name=$1 seconds=$2 status reason lines errors=$programs/$1.err
    shift 2
    is_wanted "$name" || return 0
    echo "$name .." >&2
    lines=$(wc -l <"$results")
    running_part=$name
    timed "$seconds" "$@" >>"$results" 2>"$errors"
    status=$?
    sed "s/^/$name: /" "$errors" >>"${results%.jsonl}.err"
    case $status in
    0) reason= ;;
    124 | 137) reason="not done within $seconds s" ;;
    *) reason="exit status $status: $(tail -n 1 "$errors")" ;;
    esac
    if [ $status -eq 1 ] && tail -n "+$((lines + 1))" "$results" | grep -q '"status": *"failed"'; then
        reason=
    fi
    if [ -n "$reason" ]; then
        printf '\n{"part":"%s","case":"all of it",%s}\n' "$name" \
            "$(json status failed reason "$reason")" >>"$results"
    fi
    [ $status -eq 0 ] || failed=1
    clocks "$name"
}

# unsupported NAME REASON: a line of a part that cannot be run here.
unsupported() {
    is_wanted "$1" || return 0
    echo "$1: $2" >&2
    printf '{"part":"%s","case":"all of it",%s}\n' "$1" "$(json status unsupported reason "$2")" >>"$results"
}

# Prints the tables, beside the lines in a file too, and ends.
end_results() {
    local tables=${results%.jsonl}.md
    "${PYTHON:-python3}" bench/gpu/table.py "$results" | tee "$tables"
    [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
    echo "$results, $tables" >&2
    exit "$failed"
}
