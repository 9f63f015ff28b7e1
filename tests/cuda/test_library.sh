#!/bin/bash
# libcellbatch_cuda.so: what is said where it, the driver or a card is missing, where there is an nvcc
# also of the real one, built for one architecture. No test needs a GPU, and none claims one.
set -u
. tests/daemon/daemon.sh
cuda=${CUDA_HOME:-/usr/local/cuda}
libraries=$daemon_dir/lib
mkdir "$libraries" "$daemon_dir/driver"

# fails_with TEXT OPTION...: a start that ends with status 1 and says so. No card of this machine's.
fails_with() {
    local text=$1
    shift
    CUDA_VISIBLE_DEVICES='' LD_LIBRARY_PATH=$libraries:$daemon_dir/driver:$cuda/lib64 \
        "$OUT/reference/cellbatchd" --model-repository models --grpc-port 0 --http-port 0 \
        --metrics-port 0 "$@" >"$daemon_dir/out" 2>"$daemon_dir/log"
    [ $? -eq 1 ] && grep -q -- "$text" "$daemon_dir/log"
}
# A shared object made of what follows.
shared_object() { ${CC:-cc} -shared -fPIC -x c - -o "$1"; }

check 'numbers of cards' fails_with 'numbers of cards must follow' --device cuda-host:0,x
check 'a card twice' fails_with 'numbers of cards must follow' --device cuda-host:1,1
check 'no number behind the comma' fails_with 'numbers of cards must follow' --device cuda-host:0,
check 'a card that is not there' fails_with 'no card 2' --device cuda-host:0,2

if [ ! -e "$OUT/libcellbatch_cuda.so" ]; then
    check 'no library' fails_with 'no libcellbatch_cuda.so beside the program' --device cuda:0
    echo 'int cellbatch_backends_0;' | shared_object "$libraries/libcellbatch_cuda.so"
    check 'a library of another version' fails_with 'another version' --device cuda:0
    echo 'void nobody(void); void some(void) { nobody(); }' |
        shared_object "$libraries/libcellbatch_cuda.so"
    check 'a library that cannot be loaded' fails_with 'undefined symbol: nobody' --device cuda:0
    rm "$libraries/libcellbatch_cuda.so"
fi

if ! command -v nvcc >/dev/null && [ ! -x "$cuda/bin/nvcc" ]; then
    echo 'nothing of the real library: no nvcc'
    report
    exit
fi
archs=90
[ -z "${CELLBATCH_LONG:-}" ] || archs='80 90'
# In a folder of its own: a default build has no trace of CUDA.
builds() {
    make BUILD=release OUT="$daemon_dir/build" CUDA_HOME="$cuda" CUDA_ARCH="$archs" cuda-library \
        >"$daemon_dir/log" 2>&1
}
check 'builds' builds
cp "$daemon_dir/build/libcellbatch_cuda.so" "$libraries"
shows() { [ "$(nm -D --defined-only "$libraries/libcellbatch_cuda.so" | awk '{print $3}')" = "$1" ]; }
check 'it shows one symbol' shows cellbatch_backends_1
if [ ! -e /usr/lib/x86_64-linux-gnu/libcuda.so.1 ]; then
    check 'no driver' fails_with 'no CUDA driver.*libcuda.so.1' --device cuda:0
fi
# A driver that has no card.
shared_object "$daemon_dir/driver/libcuda.so.1" <<'EOF'
#include <stddef.h>
#include <string.h>
int cuInit(unsigned flags) { (void)flags; return 100; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
static int none(void) { return 100; }
int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags, int *found)
{
    (void)version;
    (void)flags;
    *out = (void *)none;
    if (strcmp(name, "cuInit") == 0) {
        *out = (void *)cuInit;
    } else if (strcmp(name, "cuDriverGetVersion") == 0) {
        *out = (void *)cuDriverGetVersion;
    } else if (strncmp(name, "cuGetProcAddress", 16) == 0) {
        *out = (void *)cuGetProcAddress_v2;
    }
    if (found != NULL) {
        *found = 0;
    }
    return 0;
}
int cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags)
{
    return cuGetProcAddress_v2(name, out, version, flags, NULL);
}
EOF
check 'no card' fails_with 'no CUDA device' --device cuda:0
check 'no card of the exact kind' fails_with 'no CUDA device' --device cuda-exact:1

report
