#!/bin/bash
# The programs of scripts/gpu/{check,bench,engine}.sh over a driver that is a thread of this host: built as on a machine
# with a card, by gcc alone. And that they say what is wrong. CELLBATCH_LONG=1 builds them for cards, too.
set -u

failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

wrong() {
    echo "$*"
    failed=1
}

scripts/gpu/check.sh --host --build "$folder" >"$folder/all" || wrong "a case has failed"
grep '^{"part":"check"' "$folder/all" >"$folder/lines"
cases=$(grep -c '"status":"ok"}$' "$folder/lines")
[ "$cases" -eq 88 ] || wrong "$cases cases are right, not 88: $(cat "$folder/lines")"
python3 bench/gpu/table.py "$folder/lines" >"$folder/table" || wrong "no lines for a table"
grep -q '| lstm | cuda-host | fp32 | 3 | 7 | 17 |' "$folder/table" || wrong "no such row: $(cat "$folder/table")"

# The two devices that something is wrong with.
for products in fp32 tf32 bf16 bf16x3; do
    "$folder/card-host" quick cuda-host-wrong $products >"$folder/lines" 2>&1
    [ $? -eq 1 ] || wrong "wrong weights pass in $products"
    cases=$(grep -c '"status":"failed","reason":"the answers are wrong"}$' "$folder/lines")
    [ "$cases" -eq 11 ] || wrong "wrong weights are noticed in $cases cases of 11 in $products"
done
for device in cuda-host cuda-host-wrong; do
    "$folder/card-host" bench $device 2>&1 | head -n 1
done >"$folder/lines" # a line of each, and none is waited for behind it
sed -n 1p "$folder/lines" | grep -q '"step_us":.*"status":"ok"' || wrong "a bench: $(cat "$folder/lines")"
sed -n 2p "$folder/lines" | grep -q '"reason":"the answers are wrong"' ||
    wrong "a bench that checks nothing: $(cat "$folder/lines")"
# Behind a device that is lost nothing more is run, and a line says so.
for case in 'quick cuda-host-lost' 'check cuda-host-hung'; do
    # shellcheck disable=SC2086 # words
    "$folder/card-host" $case >"$folder/lines" 2>&1
    [ $? -eq 1 ] || wrong "a device that is lost passes: $case"
    tail -n 1 "$folder/lines" | grep -q '"case":"the rest".*"reason":"not run: the device was lost"}$' ||
        wrong "it goes on with a lost device: $case: $(cat "$folder/lines")"
done
grep -q '"rows":1,.*"status":"failed","reason":"no progress for 3000 ms"}$' "$folder/lines" ||
    wrong "what does not come back is not told: $(cat "$folder/lines")"

"$folder/card-host" quick cuda-none >"$folder/out" 2>&1
[ $? -eq 2 ] || wrong "a device that nobody knows: $(cat "$folder/out")"
"$folder/card-host" quick cuda-host fp16 >"$folder/out" 2>&1
[ $? -eq 2 ] || wrong "products that nobody knows: $(cat "$folder/out")"
"$folder/card-host" all cuda-host >"$folder/out" 2>&1
[ $? -eq 2 ] || wrong "a job that nobody knows: $(cat "$folder/out")"

# Lanes: all kernels, what they meet in their lives, and max_tasks mode.
cases=$(grep -c '"lane check".*"status":"ok"}$' "$folder/all")
[ "$cases" -eq 66 ] || wrong "$cases cases of lanes are right, not 66: $(grep '"lane check"' "$folder/all")"
"$folder/lane-host" quick cuda-host-wrong >"$folder/lines" 2>&1
[ $? -eq 1 ] || wrong "wrong weights pass"
cases=$(grep -c '"case":"answers".*"status":"failed","reason":"an answer is ' "$folder/lines")
[ "$cases" -eq 12 ] || wrong "wrong weights are noticed in $cases cases of 12: $(cat "$folder/lines")"
"$folder/lane-host" quick cuda-none >"$folder/out" 2>&1
[ $? -eq 2 ] || wrong "a driver that nobody knows: $(cat "$folder/out")"
"$folder/lane-host" all cuda-host >"$folder/out" 2>&1
[ $? -eq 2 ] || wrong "a job that nobody knows: $(cat "$folder/out")"

# The engine, on cells that the importer has made, and without it.
cells=$folder/langid.cells
"$OUT/cellbatch-bench" engine --model models/langid --write-cells "$cells" || wrong "no cells are written"
scripts/gpu/engine.sh --host --build "$folder" --cells "$cells" >"$folder/lines" || wrong "the engine has failed"
lines=$(grep -c '"checked":true,"status":"ok".*"device_busy":[01]\.' "$folder/lines")
[ "$lines" -eq 2 ] || wrong "$lines lines of the engine, not 2: $(cat "$folder/lines")"
python3 bench/gpu/table.py "$folder/lines" >"$folder/table" || wrong "no lines for a table: $(cat "$folder/lines")"
"$folder/engine-host" --device cuda-host-lost --lstm 8x8 --seconds 60 >"$folder/out" 2>&1
[ $? -eq 1 ] || wrong "a device that is lost passes"
grep -q '^the device failed: UNAVAILABLE$' "$folder/out" || wrong "a lost device is not told: $(cat "$folder/out")"
"$folder/engine-host" --device cuda-host --model models/langid >"$folder/out" 2>&1
[ $? -eq 1 ] || wrong "a model without an importer"
grep -q 'want --cells FILE' "$folder/out" || wrong "nothing is said of the importer: $(cat "$folder/out")"
scripts/gpu/engine.sh --host --build "$folder" --cells "$folder/none" >"$folder/out" 2>&1
[ $? -eq 2 ] || wrong "cells that are not there: $(cat "$folder/out")"

if [ -n "${CELLBATCH_LONG:-}" ]; then
    "$folder/card-host" check cuda-host >"$folder/lines" || wrong "a case has failed: $(grep failed "$folder/lines")"
    if command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
        scripts/gpu/all.sh --build-only --only check,bench,engine --arch 90 --build "$folder" --out "$folder" ||
            wrong "they do not build for a card"
        for program in card lane engine; do
            case $program in
            card) job=(quick cuda-exact) ;;
            lane) job=(quick cuda) ;;
            engine) job=(--device cuda:0) ;;
            esac
            "$folder/$program-90" "${job[@]}" >"$folder/out" 2>&1
            status=$?
            [ $status -eq 3 ] || [ $status -eq 1 ] || [ -e /dev/nvidia0 ] || wrong "without a card: $(cat "$folder/out")"
            grep -q 'no CUDA driver' "$folder/out" || [ -e /dev/nvidia0 ] || wrong "without a card: $(cat "$folder/out")"
        done
    fi
fi
exit $failed
