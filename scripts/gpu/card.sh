# shellcheck shell=bash disable=SC2154
# How check.sh, bench.sh and engine.sh build and begin with tests/cuda/card*.c: to be sourced behind common.sh. Sets
# card, card_lane, card_engine: the programs.

# Files that need CUDA's headers are the last two kinds.
cuda_driver=(cells/cuda/*_cuda.c cells/cuda/library.c)
device_sources=(
    base/{arena,assert,buf,clock,event,mem,random,status,utf8}.c
    cells/{beam,def,op,op_check,pack,quant,type}.c cells/ref/math.c cells/lane/host.c
    tests/cuda/{card_lines,card_plain}.c
)
for source in cells/cuda/*.c; do
    [[ " ${cuda_driver[*]} " == *" $source "* ]] || device_sources+=("$source")
done
card_sources=(
    "${device_sources[@]}"
    tests/cells/{build,oracle,rig_chain}.c tests/cuda/card.c
)
lane_sources=("${device_sources[@]}" tests/cuda/{card_lane,card_lane_define,card_lane_rig}.c)
engine_sources=(
    "${device_sources[@]}"
    base/{build,cpus,inbox,log}.c
    cells/{cache_file,calibration,calibration_file,file,model,model_graph}.c
    scheduler/*.c worker/{calibrate,pool,team}.c server/{batch_rows,calibrate,device_cache,engine,engine_models,probe}.c
    bench/{cells_file,closed_loop,engine,host,ideal,lstm_model,request,round_trip,seq2seq_model,shapes,tally,tree_model,weights,workload}.c
    loadgen/{file,lengths,number}.c tests/cuda/card_engine.c
)
host_sources=(tests/cuda/{card_host,choice_host,driver_host,kernels_host}.c)
# Where the host's driver runs lanes.
for source in tests/cuda/lane_host*.c tests/cuda/live.c; do
    [ ! -e "$source" ] || host_sources+=("$source")
done
card_kernels=(cells/cuda/*.cu)
card_flags=(-std=c11 -D_GNU_SOURCE -O2 -ffp-contract=off -pthread -I. -Wall -Wextra)

# What failed to build is said by the compiler.
or_leave() {
    "$@" && return
    echo "$0: not all was built" >&2
    exit "$EXIT_BUILD"
}

# build_host PROGRAM SOURCE...: over a driver that is a thread of this host.
build_host() {
    local program=$1
    shift
    mkdir -p "$programs"
    or_leave "${CC:-gcc}" "${card_flags[@]}" "$@" "${host_sources[@]}" -lm -o "$program"
}

build_card_host() {
    card=$programs/card-host
    build_host "$card" "${card_sources[@]}"
}

build_lane_host() {
    card_lane=$programs/lane-host
    build_host "$card_lane" "${lane_sources[@]}"
}

build_engine_host() {
    card_engine=$programs/engine-host
    build_host "$card_engine" "${engine_sources[@]}"
}

# compile_kernels: for the targets in archs, PTX of the last one too, all at a time. Sets kernels, their objects.
compile_kernels() {
    local code=() arch source object jobs=() job
    mkdir -p "$programs"
    kernels=()
    for arch in $archs; do
        code+=(-gencode "arch=compute_$arch,code=sm_$arch")
    done
    code+=(-gencode "arch=compute_$arch,code=compute_$arch")
    for source in "${card_kernels[@]}"; do
        object=$programs/$(basename "$source" .cu)-${archs// /-}.o
        kernels+=("$object")
        if [ -n "$(find "$source" cells/cuda/*.h cells/cuda/*.cuh cells/lane/*.h -newer "$object" 2>&1)" ]; then
            "$nvcc" -std=c++17 -O3 -I. -fmad=false -lineinfo "${code[@]}" -c "$source" -o "$object" &
            jobs+=($!)
        fi
    done
    for job in ${jobs[@]+"${jobs[@]}"}; do
        or_leave wait "$job"
    done
}

# build_cuda PROGRAM SOURCE...: with the card's driver and its kernels.
build_cuda() {
    local program=$1
    shift
    compile_kernels
    # The scripts of one call build the same.
    [ -n "$(find base bench cells loadgen scheduler server tests/cells tests/cuda worker "${kernels[@]}" \
        -name '*.[cho]' -newer "$program" 2>&1)" ] || return 0
    or_leave "${CC:-gcc}" "${card_flags[@]}" -isystem "$toolkit/include" "$@" tests/cuda/card_cuda.c \
        "${cuda_driver[@]}" "${kernels[@]}" -L"$toolkit/lib64" \
        -Wl,-rpath,"$toolkit/lib64" -lcublasLt -lcudart_static -ldl -lrt -lm -lstdc++ -o "$program"
}

build_card() {
    card=$programs/card-${archs// /-}
    card_lane=$programs/lane-${archs// /-}
    build_cuda "$card" "${card_sources[@]}"
    build_cuda "$card_lane" "${lane_sources[@]}"
}

build_engine() {
    card_engine=$programs/engine-${archs// /-}
    build_cuda "$card_engine" "${engine_sources[@]}"
}

# begin_options ARGUMENT...: takes the options, and leaves where what they want is not there.
begin_options() {
    take_options "$@"
    if [ "$build_only" -eq 0 ]; then
        want_gpu
    fi
    want_nvcc
    choose_archs
}

# begin_card ARGUMENT...: and builds card and card_lane, and leaves where that was all.
begin_card() {
    begin_options "$@"
    build_card
    if [ "$build_only" -eq 1 ]; then
        exit 0
    fi
}
