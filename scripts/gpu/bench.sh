#!/bin/bash
# How long a step takes on this card, by the device with cuBLASLt's products and with its own, and by a lane: GRNN's
# shapes and BatchMaker's figure 3 (docs/benchmarks/gpu.md has the floors and the peers beside them); and what a lane's
# ring and launches cost. See scripts/gpu/README.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
USAGE='usage: scripts/gpu/bench.sh [--build-only] [--arch 80,90a] [--only library,exact,lane] [--out FOLDER]
  --build-only   build; needs no GPU
  --arch LIST    targets of nvcc (default: what the card is)
  --build FOLDER for the program (default build/gpu)
  --only LIST    of library (cuBLASLt), library-tf32, library-bf16, library-bf16x3, exact (our own products), lane
  --out FOLDER   for bench.jsonl and bench.md (default build/gpu/results)
  --name NAME    of these files, in place of bench'
DEFAULT_ARCHS='80 90'
# shellcheck source=scripts/gpu/common.sh
. scripts/gpu/common.sh
# shellcheck source=scripts/gpu/card.sh
. scripts/gpu/card.sh

begin_card "$@"
begin_results bench
part library 120 "$card" bench cuda
for products in tf32 bf16 bf16x3; do
    part "library-$products" 80 "$card" bench cuda $products
done
part exact 120 "$card" bench cuda-exact
part lane 80 "$card_lane" bench cuda 2048 # steps of a run: all shapes fit the time
end_results
