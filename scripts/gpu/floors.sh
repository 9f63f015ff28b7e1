#!/bin/bash
# Measures what a GPU and the way to it allow at best (docs/benchmarks/gpu.md): builds bench/gpu/*.cu and
# runs each with a bound, some three minutes together, ten at most. See scripts/gpu/README.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
USAGE='usage: scripts/gpu/floors.sh [--build-only] [--arch 80,90a] [--only barrier,mma] [--out FOLDER]
  --build-only   build, for all known targets unless --arch says which; needs no GPU
  --arch LIST    targets of nvcc (default: what the card is)
  --build FOLDER for the programs (default build/gpu)
  --only LIST    of facts, barrier, cluster, broadcast, mma, wgmma, doorbell, launch, colaunch
  --out FOLDER   for floors.jsonl and floors.md (default build/gpu/results)
  --name NAME    of these files, in place of floors'
DEFAULT_ARCHS='80 90a'
# shellcheck source=scripts/gpu/common.sh
. scripts/gpu/common.sh

# Seconds of each: beside two minutes for the build, less than ten minutes in all.
parts=(facts:20 barrier:50 cluster:50 broadcast:60 mma:50 wgmma:30 doorbell:50 launch:60 colaunch:80)

take_options "$@"
if [ "$build_only" -eq 0 ]; then
    want_gpu
fi
want_nvcc
choose_archs
names=()
for entry in "${parts[@]}"; do
    if is_wanted "${entry%:*}"; then
        names+=("${entry%:*}")
    fi
done
if [ ${#names[@]} -eq 0 ]; then
    echo "$0: --only names no part" >&2
    exit $EXIT_USAGE
fi
build "${names[*]}"
if [ "$build_only" -eq 1 ]; then
    exit 0
fi

begin_results floors
for entry in "${parts[@]}"; do
    part "${entry%:*}" "${entry#*:}" "$programs/${entry%:*}-${archs// /-}"
done
end_results
