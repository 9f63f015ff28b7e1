#!/bin/bash
# Lanes in the CUDA device with one thing wrong (tests/cuda/lane_wrong/): each is noticed by a case of
# the suites of lanes, which are linked with it here, and pass where nothing is wrong.
set -u
: "${OUT:=build/release}"
if [ "${BUILD:-}" = tsan ]; then
    echo "what is wrong is no race"
    exit 77
fi
export CK_FORK=yes
output=$(mktemp)
trap 'rm -f "$output"' EXIT
passed=0
failed=0

# run WRONG SUITE CASE: its summary in $output.
run() {
    local patience=0.25 # of one that hangs
    [ "$1" != nothing ] || patience=1
    CELLBATCH_LANE_WRONG=$1 CK_RUN_CASE=$3 CK_TIMEOUT_MULTIPLIER=$patience timeout 300 "$OUT/tests/cuda/lane_wrong/$2" \
        >"$output" 2>&1
}
failed() {
    printf 'FAILED: %s\n' "$1"
    tail -n 5 "$output"
    failed=$((failed + 1))
}

wrongs="steps:test_device_lanes:rows
parity:test_device_lane_life:parking
last:test_device_lanes:rows
apart:test_device_lanes:rows
init:test_device_lanes:firsts
out:test_device_lanes:rows
x:test_device_lanes:firsts
first:test_device_lanes:firsts
rows:test_device_lanes:firsts
slot:test_device_lanes:firsts
length:test_device_lanes:firsts
open:test_device_lane_life:interrupted
closed:test_device_lane_life:middle
attention:test_device_lane_life:middle
early:test_device_lanes:firsts
died:test_device_lane_life:dying
park:test_device_lane_life:parking
fits:test_device_parts:parts"

while IFS=: read -r suite case; do
    if run nothing "$suite" "$case"; then
        passed=$((passed + 1))
    else
        failed "$suite, $case: nothing is wrong"
    fi
done < <(cut -d : -f 2- <<<"$wrongs" | sort -u)
while IFS=: read -r wrong suite case; do
    if run "$wrong" "$suite" "$case"; then
        failed "$wrong: $suite, $case does not notice"
    elif grep -q '%: Checks: [1-9]' "$output"; then
        passed=$((passed + 1))
    else
        failed "$wrong: $suite, $case does not run"
    fi
done <<<"$wrongs"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
