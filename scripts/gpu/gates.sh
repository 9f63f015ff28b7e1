#!/bin/bash
# Compiles every kernel of the product for every target that it states, and holds it to what it states: no
# spills, no stack, registers within its budget, the orders of memory that its PTX must have, no load through
# the read-only path. Needs nvcc, no GPU.
#
# Each .cu says so itself, in a comment:
#
#    * Gates (scripts/gpu/gates.sh):
#    *   archs      80 90 90a
#    *   registers  kernel_name 168
#    *   stack      kernel_name 160
#    *   ptx        2 ld.acquire.sys.u64
#    *   may        ld.global.nc of weights that no launch writes
#    */
#
# archs      targets; each must build
# registers  of a kernel, at most; every kernel has one
# stack      bytes of a kernel, at most, where its local arrays are meant; without: none. Never spills
# ptx        so many at least, in the PTX of each target
# may        the only way to have what is forbidden otherwise (ld.global.nc), with its reason
set -u
USAGE='usage: gates.sh [--arch 90,90a] [FOLDER...]   folders of .cu files; default cells/cuda'
DEFAULT_ARCHS=
# shellcheck source=scripts/gpu/common.sh
. scripts/gpu/common.sh

# As the product is built (-fmad=false: a sum's operations are those that are written).
NVCC_FLAGS=${NVCC_FLAGS:--std=c++17 -O3 -fmad=false -I.}

folders=()
while [ $# -gt 0 ]; do
    case $1 in
    --arch | --build | --only | --out)
        take_options "$1" "${2:-}"
        shift
        ;;
    --*) take_options "$1" ;;
    *) folders+=("$1") ;;
    esac
    shift
done
[ ${#folders[@]} -gt 0 ] || folders=(cells/cuda)
want_nvcc

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check FILE WORK ARCHS: prints a line for each kernel and target, and one that begins with "FAIL" for each
# thing that is wrong.
check() {
    local source=$1 folder code=() stated arch name
    name=$(basename "$source" .cu)
    folder=$2/$name
    mkdir -p "$folder"
    awk '/Gates \(scripts\/gpu\/gates.sh\):/ { on = 1; next }
        on && /\*\// { exit }
        on { sub(/^ \*[ \t]*/, ""); print }' "$source" >"$folder/stated"
    stated=$(sed -n 's/^archs *//p' "$folder/stated")
    if [ -z "$stated" ]; then
        echo "FAIL $source states no archs"
        return
    fi
    for arch in $stated; do
        if [ -z "$3" ] || [[ " $3 " == *" $arch "* ]]; then
            code+=(-gencode "arch=compute_$arch,code=sm_$arch")
        fi
    done
    [ ${#code[@]} -gt 0 ] || return
    # shellcheck disable=SC2086 # flags are words
    if ! "$nvcc" $NVCC_FLAGS "${code[@]}" -Werror all-warnings -Xcompiler -Wall,-Wextra -Xptxas -v \
        -fatbin --keep --keep-dir "$folder" -o "$folder/out" "$source" >"$folder/log" 2>&1; then
        grep -E 'error|warning' "$folder/log" | head -n 5 | sed "s|^|FAIL $source does not compile: |"
        return
    fi
    awk -v source="$source" -f scripts/gpu/gates.awk "$folder/stated" "$folder/log"
    check_ptx "$source" "$folder"
}

# check_ptx FILE FOLDER: what nvcc left in the folder against what the file states.
check_ptx() {
    local ptx least word count
    for ptx in "$2"/*.ptx; do
        while read -r least word; do
            count=$(grep -c -F "$word" "$ptx")
            [ "$count" -ge "$least" ] || echo "FAIL $1: $(basename "$ptx") has $count $word, not $least"
        done < <(sed -n 's/^ptx *//p' "$2/stated")
        if ! grep -q '^may *ld\.global\.nc ' "$2/stated" && grep -q 'ld\.global[a-z0-9_.]*\.nc' "$ptx"; then
            echo "FAIL $1: $(basename "$ptx") loads through the read-only path: ld.global.nc"
        fi
    done
}

export -f check check_ptx
export nvcc NVCC_FLAGS
shopt -s nullglob
files=()
for folder in "${folders[@]}"; do
    files+=("$folder"/*.cu)
done
if [ ${#files[@]} -eq 0 ]; then
    echo "$0: no kernels in ${folders[*]}" >&2
    exit 1
fi
# shellcheck disable=SC2016 # the inner shell expands
printf '%s\n' "${files[@]}" |
    xargs -P "${JOBS:-$(nproc)}" -I{} bash -c 'check "$@" >"$2/$(basename "$1").out"' check {} "$work" "$archs"
cat "$work"/*.out
if grep -q '^FAIL' "$work"/*.out; then
    echo "gates: $(cat "$work"/*.out | grep -c '^FAIL') things are wrong"
    exit 1
fi
echo "gates: ${#files[@]} files, $(cat "$work"/*.out | grep -c .) kernels for their targets: all within"
