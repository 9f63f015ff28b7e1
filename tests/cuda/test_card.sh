#!/bin/bash
# scripts/gpu/check.sh's program over a driver that is a thread of this host: built as on a machine with a card,
# by gcc alone. And that it says what is wrong. CELLBATCH_LONG=1 builds it for cards, too, and times it.
set -u

failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

wrong() {
    echo "$*"
    failed=1
}

scripts/gpu/check.sh --host --build "$folder" >"$folder/lines" || wrong "a case has failed"
cases=$(grep -c '"status":"ok"}$' "$folder/lines")
[ "$cases" -eq 16 ] || wrong "$cases cases are right, not 16: $(cat "$folder/lines")"
python3 bench/gpu/table.py "$folder/lines" >"$folder/table" || wrong "no lines for a table"
grep -q '| lstm | cuda-host | 3 | 7 | 17 |' "$folder/table" || wrong "no such row: $(cat "$folder/table")"

# The two devices that something is wrong with.
"$folder/card-host" quick cuda-host-wrong >"$folder/lines" 2>&1
[ $? -eq 1 ] || wrong "wrong weights pass"
cases=$(grep -c '"status":"failed","reason":"the answers are wrong"}$' "$folder/lines")
[ "$cases" -eq 8 ] || wrong "wrong weights are noticed in $cases cases of 8"
"$folder/card-host" quick cuda-host-lost >"$folder/lines" 2>&1
[ $? -eq 1 ] || wrong "a device that is lost passes"
grep -q '"status":"failed","reason":"..*"}$' "$folder/lines" || wrong "a lost device is not told: $(cat "$folder/lines")"

"$folder/card-host" quick cuda-none >"$folder/out" 2>&1
[ $? -eq 2 ] || wrong "a device that nobody knows: $(cat "$folder/out")"
"$folder/card-host" all cuda-host >"$folder/out" 2>&1
[ $? -eq 2 ] || wrong "a job that nobody knows: $(cat "$folder/out")"

if [ -n "${CELLBATCH_LONG:-}" ]; then
    "$folder/card-host" check cuda-host >"$folder/lines" || wrong "a case has failed: $(grep failed "$folder/lines")"
    if command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
        scripts/gpu/check.sh --build-only --arch 90 --build "$folder" || wrong "it does not build for a card"
        "$folder/card-90" quick cuda-exact >"$folder/out" 2>&1
        [ $? -eq 3 ] || [ -e /dev/nvidia0 ] || wrong "without a card: $(cat "$folder/out")"
    fi
fi
exit $failed
