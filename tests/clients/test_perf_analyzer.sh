#!/bin/bash
# perf_analyzer against langid over gRPC: it must read the model's configuration and statistics,
# measure, and find no failed request. Usage: test_perf_analyzer.sh HOST:PORT. Skipped (77) where
# perf_analyzer is not installed or does not run.
set -u
program=build/venv/bin/perf_analyzer
[ -x "$program" ] || program=$(command -v perf_analyzer)
if [ -z "$program" ]; then
    echo "no perf_analyzer: its wheel is not in tests/clients/requirements.txt"
    exit 77
fi
if ! "$program" --version >/dev/null 2>&1; then
    echo "perf_analyzer does not run here: $("$program" --version 2>&1 | head -n 1)"
    exit 77
fi
output=$("$program" -m langid -u "$1" -i grpc --shape tokens:24 --input-data zero \
    --concurrency-range 4 --measurement-mode count_windows --measurement-request-count 200 2>&1)
status=$?
echo "$output"
if [ "$status" -eq 0 ] && grep -q 'Throughput: [1-9]' <<<"$output"; then
    echo "1 passed, 0 failed"
else
    echo "0 passed, 1 failed"
    exit 1
fi
