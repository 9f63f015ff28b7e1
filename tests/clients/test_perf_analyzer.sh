#!/bin/bash
# perf_analyzer against langid, and against `parts` with sequences of requests: it must read the model's configuration and statistics, measure, and
# find no failed request, over gRPC and over HTTP. Usage: test_perf_analyzer.sh GRPC HTTP, each
# HOST:PORT. How stable the times are is not asked: that is the machine's affair.
set -u
folder=build/perf_analyzer
export LD_LIBRARY_PATH=$folder/nvidia/cuda_runtime/lib
passed=0 failed=0

# measure MODEL PROTOCOL HOST:PORT OPTION...
measure() {
    local output status model=$1 protocol=$2 address=$3
    shift 3
    output=$("$folder/bin/perf_analyzer" -m "$model" -i "$protocol" -u "$address" \
        --input-data zero --measurement-mode count_windows --measurement-request-count 200 \
        --stability-percentage 1000 \
        "$@" 2>&1)
    status=$?
    echo "$output"
    if [ "$status" -eq 0 ] && grep -q 'Throughput: [1-9]' <<<"$output"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
}

measure langid grpc "$1" --shape tokens:24 --concurrency-range 4
measure langid grpc "$1" --shape tokens:7 --concurrency-range 2 -b 3
measure langid grpc "$1" --shape tokens:24 --concurrency-range 4 --async --streaming
measure langid http "$2" --shape tokens:24 --concurrency-range 4
measure parts grpc "$1" --shape tokens:7 --concurrency-range 8 --sequence-length 5
measure parts grpc "$1" --shape tokens:7 --concurrency-range 8 --sequence-length 5 --async --streaming
measure parts http "$2" --shape tokens:7 --concurrency-range 8 --sequence-length 5
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
