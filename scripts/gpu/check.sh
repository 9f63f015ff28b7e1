#!/bin/bash
# Whether the CUDA device computes on this card what it should: builds tests/cuda/card.c with the device and no
# other library than CUDA's, runs every kind of cell at edges of its shapes against double precision, and a few of
# them under compute-sanitizer. See scripts/gpu/README.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
USAGE='usage: scripts/gpu/check.sh [--build-only | --host] [--arch 80,90a] [--only exact,library,memcheck,racecheck] [--out FOLDER]
  --build-only   build; needs no GPU
  --host         the same program over a driver that is a thread of this host, a few cases; needs gcc alone
  --arch LIST    targets of nvcc (default: what the card is)
  --build FOLDER for the program (default build/gpu)
  --only LIST    of exact (our own products), library (cuBLASLt), memcheck, racecheck
  --out FOLDER   for check.jsonl and check.md (default build/gpu/results)'
DEFAULT_ARCHS='80 90'
# shellcheck source=scripts/gpu/common.sh
. scripts/gpu/common.sh
# shellcheck source=scripts/gpu/card.sh
. scripts/gpu/card.sh

if [ "${1:-}" = --host ]; then
    shift
    take_options "$@"
    build_card_host
    "$card" quick cuda-host && "$card" quick cuda-host-library
    exit
fi
begin_card "$@"
begin_results check
part exact 150 "$card" check cuda-exact
part library 150 "$card" check cuda
sanitizer=$toolkit/bin/compute-sanitizer
if [ -x "$sanitizer" ]; then
    part memcheck 120 "$sanitizer" --tool memcheck --error-exitcode 9 --log-file "$out/memcheck.log" "$card" quick cuda-exact
    part racecheck 120 "$sanitizer" --tool racecheck --error-exitcode 9 --log-file "$out/racecheck.log" "$card" quick cuda-exact
fi
end_results
