#!/bin/bash
# What the driver on a card asks of the CUDA runtime (tests/cuda/fake_cuda.c), where there are the toolkit's headers. No
# test needs a GPU.
set -u

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
headers=${CUDA_HOME:-/usr/local/cuda}/include
if [ ! -e "$headers/cublasLt.h" ]; then
    echo "no $headers/cublasLt.h"
    exit 77
fi
# What the program does not call is nowhere.
${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 -g -pthread -I. -isystem "$headers" -Wall -Wextra \
    tests/cuda/fake_cuda.c cells/cuda/{driver_cuda,lane_driver_cuda}.c base/{assert,clock,mem,status,utf8}.c \
    -no-pie -Wl,--unresolved-symbols=ignore-all -lm -o "$folder/program" || exit 1
failed=0
unset CUDA_MODULE_LOADING CUDA_DEVICE_MAX_CONNECTIONS
"$folder/program" EAGER 32 || failed=1
# What whoever starts it has set stays.
CUDA_MODULE_LOADING=LAZY CUDA_DEVICE_MAX_CONNECTIONS=8 "$folder/program" LAZY 8 || failed=1
exit $failed
