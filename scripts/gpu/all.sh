#!/bin/bash
# Everything that is measured on a card, in the order of what it is worth when time runs out, and the tables of
# docs/benchmarks/gpu.md from it. Each part is a script of its own with bounds of its own, ten minutes at most; where
# commands may take no longer, they are asked for one by one (--only) with the same folder. See scripts/gpu/README.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
USAGE='usage: scripts/gpu/all.sh [--build-only] [--arch 80,90a] [--only LIST] [--out FOLDER] [--document]
  --build-only   builds all parts; needs no GPU
  --arch LIST    targets of nvcc (default: what the card is)
  --build FOLDER for the programs (default build/gpu)
  --only LIST    of check, bench, engine, floors, peers, or none of them (default: all). Seconds that each should
                 take, with its build: 200, 200, 200, 200, 400; none takes more than 600
  --out FOLDER   for lines, tables and gpu.md (default build/gpu/results); what is there of parts that are not run stays
  --document     writes docs/benchmarks/gpu.md itself; with --only none it needs no GPU'
# shellcheck disable=SC2034 # of choose_archs, which is not called here
DEFAULT_ARCHS=
# shellcheck source=scripts/gpu/common.sh
. scripts/gpu/common.sh

is_document=0
arguments=()
for argument in "$@"; do
    if [ "$argument" = --document ]; then
        is_document=1
    else
        arguments+=("$argument")
    fi
done
take_options ${arguments[@]+"${arguments[@]}"}
options=(--build "$programs" --out "$out")
[ -z "$archs" ] || options+=(--arch "${archs// /,}")
[ "$build_only" -eq 0 ] || options+=(--build-only)
mkdir -p "$out"

status=0
lines=()
for name in check bench engine floors peers; do
    lines+=("$out/$name.jsonl")
    is_wanted "$name" || continue
    echo "== $name" >&2
    timeout -k 5 595 "scripts/gpu/$name.sh" "${options[@]}" >"$out/$name.log"
    ended=$?
    if [ $ended -ne 0 ]; then
        echo "$0: $name.sh: exit status $ended" >&2
        status=$ended
    fi
    [ $ended -ne "$EXIT_NO_GPU" ] || exit "$EXIT_NO_GPU"
done
[ "$build_only" -eq 0 ] || exit $status
"${PYTHON:-python3}" bench/gpu/document.py docs/benchmarks/gpu.md "${lines[@]}" >"$out/gpu.md" || status=1
if [ $is_document -eq 1 ] && [ -s "$out/gpu.md" ]; then
    cp "$out/gpu.md" docs/benchmarks/gpu.md
fi
echo "$out/gpu.md" >&2
exit $status
