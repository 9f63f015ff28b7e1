#!/bin/bash
# The server's suites on a device of the tests: reference.sh N|cuda-host [docs]. Requests that would
# run on the CPU run on N devices with lanes (tests/reference_device.h), on which the CPU device
# computes; or on two CUDA devices over the host's driver (tests/cuda/driver_host.h). With `docs` the
# documents' examples too, which take minutes. From the root of the tree; BUILD and OUT
# come from make. What is not here commands a device of its own, or is the CPU's: gates,
# calibration, the pool. REFERENCE_PROGRAMS: the suites, from make.
set -u
: "${OUT:=build/release}"
export CELLBATCH_SITE_DEVICES=$1 CELLBATCH_DEVICE=reference:$1
[ "$1" != cuda-host ] || CELLBATCH_DEVICE=cuda-host:0,1
export OUT=$OUT/reference

scripts=(tests/daemon/test_daemon.sh tests/server/test_curl_examples.sh)
if [ "${2:-}" = docs ]; then
    for document in decoders graphs plugins quickstart readers readme safetensors text together trees; do
        scripts+=("tests/docs/test_$document.sh")
    done
fi
read -ra programs <<<"$REFERENCE_PROGRAMS"
exec bash tests/run.sh "${programs[@]}" "${scripts[@]}"
