#!/bin/bash
# The server's suites on two CUDA devices over the host's driver: a whole server with everything of
# such a device but the card. Four of them; `make test-reference` and CELLBATCH_LONG=1 run all.
set -u
if [ "${BUILD:-}" = tsan ]; then
    echo "too slow; tests/cuda has the device's own suites under ThreadSanitizer"
    exit 77
fi
programs=()
for program in $CUDA_HOST_PROGRAMS; do
    case $program in
    */test_core_load | */test_decoder_model | */test_demo_models | */test_tree_model)
        programs+=("$program")
        ;;
    *) [ -z "${CELLBATCH_LONG:-}" ] || programs+=("$program") ;;
    esac
done
REFERENCE_PROGRAMS=${programs[*]} exec bash tests/reference.sh cuda-host
