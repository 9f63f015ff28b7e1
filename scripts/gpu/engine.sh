#!/bin/bash
# How busy scheduler and worker keep this card, and how much of its bare kernels' speed is left: `cellbatch-bench
# engine` by how many requests are inside, with no other library than CUDA's. See scripts/gpu/README.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
USAGE='usage: scripts/gpu/engine.sh [--build-only | --host] [--arch 80,90a] [--only library,exact] [--cells FILE] [--out FOLDER]
  --build-only   build; needs no GPU
  --host         the same program over a driver that is a thread of this host, briefly; needs gcc alone
  --arch LIST    targets of nvcc (default: what the card is)
  --build FOLDER for the program (default build/gpu)
  --only LIST    of library (cuBLASLt), exact (our own products)
  --cells FILE   a model as cellbatch-bench engine --model .. --write-cells FILE has written it
                 (default build/gpu/langid.cells, where it is there)
  --out FOLDER   for engine.jsonl and engine.md (default build/gpu/results)
  --name NAME    of these files, in place of engine'
DEFAULT_ARCHS='80 90'
# shellcheck source=scripts/gpu/common.sh
. scripts/gpu/common.sh
# shellcheck source=scripts/gpu/card.sh
. scripts/gpu/card.sh

cells=build/gpu/langid.cells
arguments=()
is_host=0
while [ $# -gt 0 ]; do
    case $1 in
    --host) is_host=1 ;;
    --cells)
        cells=${2:-}
        if [ ! -e "$cells" ]; then
            echo "$0: no file '$cells'" >&2
            exit $EXIT_USAGE
        fi
        shift
        ;;
    *) arguments+=("$1") ;;
    esac
    shift
done

# Closed loops of one device: of the model, or without its file of an LSTM in its place, and a line says so.
# The most requests a second among them are the peak.
# shellcheck disable=SC2317 # reached through part
loops() {
    local device=$1 seconds=$2 present model=(--lstm 256x256) status=0
    shift 2
    if [ -e "$cells" ]; then
        model=(--cells "$cells")
    else
        echo "no $cells: an LSTM in its place" >&2
    fi
    for present in "$@"; do
        "$card_engine" --json --device "$device" "${model[@]}" --requests-present "$present" \
            --batch-rows 1024 --seconds "$seconds" --rounds 3 || status=1
    done
    return $status
}

if [ $is_host -eq 1 ]; then
    take_options ${arguments[@]+"${arguments[@]}"}
    build_engine_host
    loops cuda-host:0 0.3 16 && loops cuda-host-library:0 0.3 16
    exit
fi
begin_options ${arguments[@]+"${arguments[@]}"}
build_engine
[ "$build_only" -eq 0 ] || exit 0
export -f loops
export card_engine cells
begin_results engine
part library 150 bash -c 'loops "$@"' loops cuda:0 6 1 16 64 256 1024 2048
part exact 150 bash -c 'loops "$@"' loops cuda-exact:0 6 1 16 64 256 1024 2048
end_results
