#!/bin/bash
# The contract of lanes compiles as CUDA C++, and its PTX has the orders that its table says. NVCC
# names another compiler than the one on the path.
set -u
nvcc=$(command -v "${NVCC:-nvcc}" || command -v /usr/local/cuda/bin/nvcc)
[ -n "$nvcc" ] || {
    echo "no nvcc here"
    exit 77
}
ptx=$(mktemp)
trap 'rm -f "$ptx"' EXIT
"$nvcc" -std=c++17 -arch=sm_90 -I. -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror \
    -c tests/lane/contract.cu -o "$ptx" || exit 1
"$nvcc" -std=c++17 -arch=sm_90 -I. -ptx tests/lane/contract.cu -o "$ptx" || exit 1
# At least (a loop may be turned): number and word 0 of a slot; completed and ended; the heartbeat;
# abort and 15 tagged words.
for wanted in '2 ld.acquire.sys.u64' '2 st.release.sys.u64' '1 st.relaxed.sys.u64' \
    '16 ld.relaxed.sys.u64' '1 ld.relaxed.sys.u32'; do
    count=$(grep -c -F "${wanted#* }" "$ptx")
    [ "$count" -ge "${wanted%% *}" ] || {
        echo "${wanted#* }: $count, wanted at least ${wanted%% *}"
        exit 1
    }
done
