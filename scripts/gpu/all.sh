#!/bin/bash
# Everything that is measured on a card, what is newest first, and the tables of docs/benchmarks/gpu.md from it. Each
# step is a script, or parts of one, with bounds of its own; what a command has no time for is left to the next one
# (--only). See scripts/gpu/README.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
USAGE='usage: scripts/gpu/all.sh [--build-only] [--arch 80,90a] [--only LIST] [--limit SECONDS] [--out FOLDER] [--pack FILE] [--document]
  --build-only   builds all parts; needs no GPU
  --arch LIST    targets of nvcc (default: what the card is)
  --build FOLDER for the programs (default build/gpu)
  --only LIST    of lanes, check, bench, floors, engine, more-check, sanitize, more-bench, more-floors, peers, or none of
                 them (default: all, in this order)
  --limit SECONDS for all of it: a step has what is left, and is not begun in the last 30. In any case none has more
                 than 570
  --out FOLDER   for lines, tables and gpu.md (default build/gpu/results); what is there of steps that are not run stays
  --pack FILE    all of that folder as a .tar.gz, made anew behind each step and when it is told to end
  --document     writes docs/benchmarks/gpu.md itself; with --only none it needs no GPU'
# shellcheck disable=SC2034 # of choose_archs, which is not called here
DEFAULT_ARCHS=
# shellcheck source=scripts/gpu/common.sh
. scripts/gpu/common.sh

# A step, its script, and the script's parts.
steps=(
    'lanes check lane'
    'check check exact,library'
    'bench bench lane,library'
    'floors floors facts,doorbell,colaunch,launch'
    'engine engine library,exact'
    'more-check check exact-tf32,library-tf32,exact-bf16,library-bf16,exact-bf16x3,library-bf16x3'
    'sanitize check memcheck,lane-memcheck,racecheck,lane-racecheck'
    'more-bench bench exact,library-tf32,library-bf16,library-bf16x3'
    'more-floors floors barrier,cluster,broadcast,mma,wgmma'
    'peers peers cudnn,torch'
)
STEP_LIMIT=570
STEP_LEAST=30
KILL_AFTER=5 # which a script's own parts do not need (timed)

is_document=0
limit=
pack=
arguments=()
while [ $# -gt 0 ]; do
    case $1 in
    --document) is_document=1 ;;
    --limit | --pack)
        if [ $# -lt 2 ] || { [ "$1" = --limit ] && [[ ! $2 =~ ^[1-9][0-9]*$ ]]; }; then
            echo "$0: $1 wants a value" >&2
            exit $EXIT_USAGE
        fi
        if [ "$1" = --limit ]; then
            limit=$2
        else
            pack=$2
        fi
        shift
        ;;
    *) arguments+=("$1") ;;
    esac
    shift
done
take_options ${arguments[@]+"${arguments[@]}"}
options=(--build "$programs" --out "$out")
[ -z "$archs" ] || options+=(--arch "${archs// /,}")
[ "$build_only" -eq 0 ] || options+=(--build-only)
mkdir -p "$out"

# Nobody finds half an archive, nor one in itself.
pack_results() {
    [ -n "$pack" ] || return 0
    tar -C "$out" --exclude="${pack##*/}*" --warning=no-file-changed -czf "$pack.new" .
    [ $? -gt 1 ] || mv "$pack.new" "$pack" # 1: something was written meanwhile
}

# Told to end: the step first, which ends what it has on the card.
running=
# shellcheck disable=SC2317 # the trap's
end_step() {
    if [ -n "$running" ]; then
        kill -TERM "$running"
        wait "$running"
    fi
    pack_results
    exit 143
}
trap end_step HUP INT TERM

# seconds_of: how long the next step may take, its end included.
seconds_of() {
    local left=$STEP_LIMIT
    if [ -n "$limit" ] && [ $((limit - SECONDS - KILL_AFTER)) -lt $left ]; then
        left=$((limit - SECONDS - KILL_AFTER))
    fi
    echo "$left"
}

status=0
lines=()
for step in "${steps[@]}"; do
    read -r name script parts <<<"$step"
    lines+=("$out/$name.jsonl")
    is_wanted "$name" || continue
    seconds=$(seconds_of)
    if [ "$seconds" -lt $STEP_LEAST ]; then
        echo "$0: $name: not begun, of $limit s $seconds are left" >&2
        status=1
        continue
    fi
    echo "== $name" >&2
    timeout -k $KILL_AFTER "$seconds" "scripts/gpu/$script.sh" "${options[@]}" --name "$name" --only "$parts" \
        >"$out/$name.log" &
    running=$!
    wait "$running"
    ended=$?
    running=
    if [ $ended -ne 0 ]; then
        echo "$0: $name: exit status $ended" >&2
        status=$ended
    fi
    [ $ended -ne "$EXIT_NO_GPU" ] || exit "$EXIT_NO_GPU"
    pack_results
done
[ "$build_only" -eq 0 ] || exit $status
"${PYTHON:-python3}" bench/gpu/document.py docs/benchmarks/gpu.md "${lines[@]}" >"$out/gpu.md" || status=1
if [ $is_document -eq 1 ] && [ -s "$out/gpu.md" ]; then
    cp "$out/gpu.md" docs/benchmarks/gpu.md
fi
pack_results
echo "$out/gpu.md" >&2
exit $status
