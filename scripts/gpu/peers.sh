#!/bin/bash
# Measures the recurrent layers of others on a GPU (docs/benchmarks/gpu.md): cuDNN through its C interface with
# each algorithm asked for by name, and through PyTorch. Some six minutes, ten at most. See
# scripts/gpu/README.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
USAGE='usage: scripts/gpu/peers.sh [--build-only] [--arch 80,90a] [--only cudnn] [--out FOLDER]
  --build-only   build, for all known targets unless --arch says which; needs no GPU
  --arch LIST    targets of nvcc (default: what the card is)
  --build FOLDER for the programs (default build/gpu)
  --only LIST    of cudnn, torch
  --out FOLDER   for peers.jsonl and peers.md (default build/gpu/results)
  --name NAME    of these files, in place of peers
CUDNN_HOME may name a folder with include/cudnn.h and lib/libcudnn.so.9, PYTHON a Python that has PyTorch.'
DEFAULT_ARCHS='80 90 90a'
# shellcheck source=scripts/gpu/common.sh
. scripts/gpu/common.sh
python=${PYTHON:-python3}

# Folders that Python's packages of NVIDIA's libraries may have put them into.
python_folders() {
    "$python" -c 'import site, sys
for folder in site.getsitepackages() + [site.getusersitepackages()] + sys.path:
    print(folder)' 2>/dev/null | sort -u
}

# Sets cudnn_include and cudnn_library, from the first folder that has both; false when none has. Where it was said
# which, no other is taken.
find_cudnn() {
    local folder package
    local folders=("$toolkit" /usr/local /usr)
    while read -r package; do
        folders+=("$package/nvidia/cudnn")
    done < <(python_folders)
    [ -z "${CUDNN_HOME:-}" ] || folders=("$CUDNN_HOME")
    for folder in "${folders[@]}"; do
        for cudnn_include in "$folder/include" "$folder/include/$(uname -m)-linux-gnu"; do
            [ -e "$cudnn_include/cudnn.h" ] || continue
            for cudnn_library in "$folder"/{lib64,lib,"lib/$(uname -m)-linux-gnu"}/libcudnn.so.9; do
                if [ -e "$cudnn_library" ]; then
                    return 0
                fi
            done
        done
    done
    return 1
}

# cuDNN opens its parts, cuBLAS and the run-time compiler by name.
library_path() {
    local path folder package
    path=$(dirname "$cudnn_library"):$toolkit/lib64
    while read -r package; do
        for folder in "$package"/nvidia/*/lib; do
            [ ! -d "$folder" ] || path+=:$folder
        done
    done < <(python_folders)
    printf '%s' "$path"
}

take_options "$@"
if ! is_wanted cudnn && ! is_wanted torch; then
    echo "$0: --only names no part" >&2
    exit $EXIT_USAGE
fi
if [ "$build_only" -eq 0 ]; then
    want_gpu
fi
want_nvcc
choose_archs
no_cudnn=
if is_wanted cudnn; then
    if find_cudnn; then
        build peers_cudnn -I"$cudnn_include" -Xlinker "$cudnn_library"
    else
        no_cudnn='no cudnn.h beside a libcudnn.so.9: set CUDNN_HOME'
    fi
fi
# PyTorch, which may bring a libcudnn.so.9 of its own, is measured all the same.
if [ -n "$no_cudnn" ] && { [ "$build_only" -eq 1 ] || ! is_wanted torch; }; then
    echo "$0: $no_cudnn" >&2
    exit $EXIT_BUILD
fi
if [ "$build_only" -eq 1 ]; then
    exit 0
fi

begin_results peers
if [ -n "$no_cudnn" ]; then
    unsupported cudnn "$no_cudnn"
else
    part cudnn 250 env LD_LIBRARY_PATH="$(library_path)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        "$programs/peers_cudnn-${archs// /-}" 240
fi
part torch 215 "$python" bench/gpu/peers_torch.py --seconds 170
end_results
