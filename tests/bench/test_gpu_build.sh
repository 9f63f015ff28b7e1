#!/bin/bash
# nvcc takes what scripts/gpu/ builds, and a program without a card says so and ends. CELLBATCH_LONG=1 builds
# all of it, for every target.
set -u

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! command -v nvcc >/dev/null && [ ! -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
    echo "no nvcc"
    exit 77
fi
export CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}

if [ -n "${CELLBATCH_LONG:-}" ]; then
    scripts/gpu/floors.sh --build-only --build "$folder" && scripts/gpu/peers.sh --build-only --build "$folder"
    exit
fi
scripts/gpu/floors.sh --build-only --arch 90a --only facts --build "$folder" || exit 1
if [ ! -e /dev/nvidia0 ]; then
    "$folder/facts-90a" >"$folder/out" 2>&1
    status=$?
    if [ $status -ne 3 ] || ! grep -q '^facts: no GPU' "$folder/out"; then
        echo "without a card: exit status $status, wanted 3: $(cat "$folder/out")"
        exit 1
    fi
fi
