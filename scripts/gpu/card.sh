# shellcheck shell=bash disable=SC2154
# How check.sh and bench.sh build and begin with tests/cuda/card.c: to be sourced behind common.sh. Sets card, the
# program.

card_sources=(
    base/{arena,assert,buf,clock,event,mem,random,status,utf8}.c
    cells/{beam,def,type}.c cells/ref/math.c
    cells/cuda/{device,piece,plan,plan_cells,plan_ops,queue}.c
    tests/cells/{build,oracle,rig_chain}.c tests/cuda/{card,card_plain}.c
)
card_flags=(-std=c11 -D_GNU_SOURCE -O2 -ffp-contract=off -pthread -I. -Wall -Wextra)

# What failed to build is said by the compiler.
or_leave() {
    "$@" && return
    echo "$0: not all was built" >&2
    exit "$EXIT_BUILD"
}

# The program over a driver that is a thread of this host.
build_card_host() {
    mkdir -p "$programs"
    card=$programs/card-host
    or_leave "${CC:-gcc}" "${card_flags[@]}" "${card_sources[@]}" \
        tests/cuda/{card_host,driver_host,kernels_host}.c -lm -o "$card"
}

# The program for the targets in archs, PTX of the last one too.
build_card() {
    local code=() arch kernels=$programs/step_kernels-${archs// /-}.o
    mkdir -p "$programs"
    card=$programs/card-${archs// /-}
    for arch in $archs; do
        code+=(-gencode "arch=compute_$arch,code=sm_$arch")
    done
    code+=(-gencode "arch=compute_$arch,code=compute_$arch")
    or_leave "$nvcc" -std=c++17 -O3 -I. -fmad=false -lineinfo "${code[@]}" -c cells/cuda/step_kernels.cu -o "$kernels"
    or_leave "${CC:-gcc}" "${card_flags[@]}" -isystem "$toolkit/include" "${card_sources[@]}" tests/cuda/card_cuda.c \
        cells/cuda/{driver_cuda,library,products_cuda}.c "$kernels" -L"$toolkit/lib64" \
        -Wl,-rpath,"$toolkit/lib64" -lcublasLt -lcudart_static -ldl -lrt -lm -lstdc++ -o "$card"
}

# begin_card ARGUMENT...: takes the options, builds, and leaves where that was all.
begin_card() {
    take_options "$@"
    if [ "$build_only" -eq 0 ]; then
        want_gpu
    fi
    want_nvcc
    choose_archs
    build_card
    if [ "$build_only" -eq 1 ]; then
        exit 0
    fi
}
