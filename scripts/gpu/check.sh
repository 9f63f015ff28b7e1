#!/bin/bash
# Whether the CUDA device and the lanes compute on this card what they should: builds tests/cuda/card.c and card_lane.c
# with the device and no other library than CUDA's, runs every kind of cell and every lane's kernel at edges of
# their shapes against double precision, and a few of them under compute-sanitizer. See scripts/gpu/README.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
USAGE='usage: scripts/gpu/check.sh [--build-only | --host] [--arch 80,90a] [--only PARTS] [--out FOLDER]
  --build-only   build; needs no GPU
  --host         the same program over a driver that is a thread of this host, a few cases; needs gcc alone
  --arch LIST    targets of nvcc (default: what the card is)
  --build FOLDER for the program (default build/gpu)
  --only LIST    of exact (our own products), library (cuBLASLt), both with -tf32, -bf16, -bf16x3 behind them, lane,
                 memcheck, lane-memcheck, racecheck, lane-racecheck
  --out FOLDER   for check.jsonl and check.md (default build/gpu/results)
  --name NAME    of these files, in place of check'
DEFAULT_ARCHS='80 90'
# shellcheck source=scripts/gpu/common.sh
. scripts/gpu/common.sh
# shellcheck source=scripts/gpu/card.sh
. scripts/gpu/card.sh

if [ "${1:-}" = --host ]; then
    shift
    take_options "$@"
    build_card_host
    build_lane_host
    for products in fp32 tf32 bf16 bf16x3; do
        "$card" quick cuda-host $products && "$card" quick cuda-host-library $products || exit
    done
    for job in quick filled; do
        "$card_lane" $job cuda-host || exit
    done
    exit 0
fi
begin_card "$@"

# sanitize NAME SECONDS TOOL COMMAND...: what is loaded is instrumented, so no more of cuBLASLt than is launched.
sanitize() {
    local name=$1 seconds=$2 tool=$3
    shift 3
    if [ -z "$sanitizer" ]; then
        unsupported "$name" 'no compute-sanitizer in the toolkit or in PATH'
        return
    fi
    part "$name" "$seconds" env CUDA_MODULE_LOADING=LAZY "$sanitizer" --tool "$tool" --error-exitcode 9 --log-file "$out/$name.log" "$@"
}

begin_results check
part exact 90 "$card" check cuda-exact
part library 90 "$card" check cuda
for products in tf32 bf16 bf16x3; do
    part "exact-$products" 45 "$card" check cuda-exact $products
    part "library-$products" 45 "$card" check cuda $products
done
part lane 50 "$card_lane" check cuda
sanitizer=$toolkit/bin/compute-sanitizer
[ -x "$sanitizer" ] || sanitizer=$(command -v compute-sanitizer)
sanitize memcheck 60 memcheck "$card" quick cuda-exact
sanitize lane-memcheck 40 memcheck "$card_lane" filled cuda
sanitize racecheck 60 racecheck "$card" quick cuda-exact
sanitize lane-racecheck 40 racecheck "$card_lane" filled cuda
end_results
