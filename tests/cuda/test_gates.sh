#!/bin/bash
# make cuda-gates: every kernel of the product is within what it states; and each gate, broken on purpose, says
# so. Skipped where there is no nvcc.
set -u

failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! command -v nvcc >/dev/null && [ ! -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
    echo "no nvcc"
    exit 77
fi

wrong() {
    echo "$*"
    failed=1
}

scripts/gpu/gates.sh >"$folder/out" 2>&1 || wrong "the product's kernels: $(cat "$folder/out")"
grep -q 'all within$' "$folder/out" || wrong "no kernel was looked at: $(cat "$folder/out")"

# ---- What is within, and with each gate broken ----

# A kernel that is within; the names of the other files say what is wrong with them.
kernel='#include <stdint.h>
/* Gates (scripts/gpu/gates.sh):
 *   archs      90
 *   registers  good 32
 *   ptx        1 ld.acquire.sys.u64
 */
extern "C" __global__ void good(uint64_t *word, float *out)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    out[value] = out[value + 1];
}'

# broken NAME SED: NAME.cu is the kernel, edited.
mkdir "$folder/seeds"
broken() {
    sed "$2" <<<"$kernel" >"$folder/seeds/$1.cu"
    ! cmp -s "$folder/seeds/$1.cu" <(printf '%s\n' "$kernel") || wrong "$1 breaks nothing"
}

printf '%s\n' "$kernel" >"$folder/seeds/fine.cu"
broken no_archs '/archs/d'
broken no_budget '/registers/d'
broken budget 's/good 32/good 4/'
broken stale 's/good 32/good 32\n *   registers  gone 32/'
broken qualifier 's/asm volatile("ld.acquire/asm volatile("ld.relaxed/'
broken read_only 's/out\[value + 1\]/__ldg(out + value + 1)/'
broken stack 's/out\[value\] = .*/volatile float local[9]; local[value % 9] = 1; out[0] = local[value % 7];/'
broken stack_more 's/out\[value\] = .*/volatile float local[9]; local[value % 9] = 1; out[0] = local[value % 7];/
s/^ \*   archs.*/&\n *   stack      good 8/'
broken not_cuda 's/uint64_t value;/uint64_t value = none;/'
broken warning 's/uint64_t value;/uint64_t value; int unused;/'
# 2048 threads on an SM leave 32 registers each; 48 values are all needed at once.
broken spills 's/__global__ void/__global__ void __launch_bounds__(1024, 2)/
s/out\[value\] = .*/float a[48]; _Pragma("unroll") for (int i = 0; i < 48; i++) a[i] = out[i * value];\
    _Pragma("unroll") for (int i = 0; i < 144; i++) a[i % 48] += a[i % 48] * a[(i * 7 + 5) % 48];\
    _Pragma("unroll") for (int i = 0; i < 48; i++) out[i] = a[i];/'
# Edited too, and within: it says why it may.
broken allowed 's/out\[value + 1\]/__ldg(out + value + 1)/
s/^ \*   archs.*/&\n *   may        ld.global.nc of what nobody writes/'

# Likewise, and its names are mangled, with a file's in them.
# shellcheck disable=SC2016 # sed's own $
broken mangled 's/extern "C" __global__/namespace { __global__/
s/^ \*   archs.*/&\n *   stack      good 64/
s/out\[value\] = .*/volatile float local[9]; local[value % 9] = 1; out[0] = local[value % 7];/
$s/$/\n}\nvoid launch(uint64_t *word, float *out) { good<<<1, 1>>>(word, out); }/'

# says FILE TEXT: a FAIL line of that file has the text.
says() {
    grep "^FAIL $folder/seeds/$1.cu" "$folder/out" | grep -qF -- "$2" || wrong "$1: nothing says '$2'"
}

scripts/gpu/gates.sh "$folder/seeds" >"$folder/out" 2>&1
[ $? -eq 1 ] || wrong "broken kernels pass"
says no_archs 'states no archs'
says no_budget 'good has no budget of registers'
says budget 'registers for sm_90, not 4'
says stale 'there is no kernel gone'
says qualifier 'has 0 ld.acquire.sys.u64, not 1'
says read_only 'loads through the read-only path'
says stack 'bytes of stack for sm_90'
says stack_more 'bytes of stack for sm_90, not 8'
says not_cuda 'does not compile'
says warning 'does not compile'
says spills 'good spills'
! grep -qE "^FAIL .*/(fine|allowed|mangled)\.cu" "$folder/out" || wrong "what is within does not pass"
[ $failed -eq 0 ] || cat "$folder/out"

# Nothing to look at is no success.
mkdir "$folder/empty"
! scripts/gpu/gates.sh "$folder/empty" >/dev/null 2>&1 || wrong "no kernels at all pass"
exit $failed
