#!/bin/bash
# bench/gpu/document.py and scripts/gpu/all.sh: the tables of docs/benchmarks/gpu.md from lines that are made up, and
# that the page in the tree says what was not measured.
set -u

failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

wrong() {
    echo "$*"
    failed=1
}

# says TEXT, lacks TEXT: the page has it, or has not.
says() {
    grep -qF -- "$1" "$folder/page" || wrong "nothing says '$1': $(cat "$folder/page")"
}

lacks() {
    ! grep -qF -- "$1" "$folder/page" || wrong "something says '$1'"
}

# document EXPECTED FILE...: the page from these files.
document() {
    local want=$1 status
    shift
    python3 bench/gpu/document.py "$folder/source" "$@" >"$folder/page" 2>"$folder/errors"
    status=$?
    [ $status -eq "$want" ] || wrong "exit status $status, wanted $want: $(cat "$folder/errors")"
}

cat >"$folder/source" <<'PAGE'
# Before

<!-- measured: begin -->
an older text
<!-- measured: end -->

After
PAGE

# Nothing is there: the page says so, and keeps the rest.
document 0 "$folder/none.jsonl"
says '# Before'
says '**Not yet measured.**'
says 'After'
lacks 'an older text'
cp "$folder/page" "$folder/again"
cp "$folder/source" "$folder/first"
cp "$folder/again" "$folder/source"
document 0 "$folder/none.jsonl"
cmp -s "$folder/page" "$folder/again" || wrong "a second time is another page"
cp "$folder/first" "$folder/source"

us() {
    printf '{"p50":%s,"p99":9,"min":0.1,"n":60}' "$1"
}

ok='"checked":true,"status":"ok"'
cat >"$folder/bench.jsonl" <<LINES
{"part":"machine","commit":"abc1234","gpu":"A card"}
{"part":"step","case":"lstm","device":"cuda","hidden":64,"rows":1,"steps":64,"step_us":$(us 4.5),$ok}
{"part":"step","case":"lstm","device":"cuda-exact","hidden":64,"rows":1,"steps":64,"status":"failed","reason":"no memory"}
{"part":"step","case":"lstm","device":"cuda","hidden":1024,"rows":512,"steps":64,"step_us":$(us 77),$ok}
{"part":"step","case":"gru","device":"cuda","hidden":256,"rows":20,"steps":64,"step_us":$(us 6.25),$ok}
{"part":"lane","case":"step","type":"bf16","cell":"lstm","hidden":64,"x":"sums","rows":1,"steps":8192,"step_us":$(us 0.21),"one_step_us":$(us 3.5),"target_us":0.18,"limit_us":0.27,"within":true,$ok}
{"part":"lane","case":"step","type":"fp32","cell":"lstm","hidden":64,"x":"inputs","rows":10,"steps":8192,"step_us":$(us 0.66),"one_step_us":$(us 4.5),$ok}
{"part":"lane","case":"ring and launch","type":"bf16","cell":"lstm","hidden":64,"x":"sums","fence_us":$(us 2.5),"launch_call_us":$(us 2.25),"relaunch_us":$(us 8.5),$ok}
LINES
cat >"$folder/peers.jsonl" <<LINES
{"part":"machine","commit":"abc1234","gpu":"A card"}
{"part":"cudnn","case":"sequence","cell":"lstm","hidden":64,"rows":1,"steps":100,"type":"fp32","algorithm":"PERSIST_STATIC","events_us":$(us 1.75),$ok}
{"part":"cudnn","case":"step in graph","cell":"lstm","hidden":64,"rows":1,"steps":100,"type":"fp32","algorithm":"STANDARD","events_us":$(us 11.5),$ok}
{"part":"cudnn","case":"step in graph","cell":"lstm","hidden":64,"rows":1,"steps":20,"type":"fp32","algorithm":"STANDARD","events_us":$(us 99.5),$ok}
{"part":"cudnn","case":"step in graph","cell":"lstm","hidden":64,"rows":1,"steps":100,"type":"bf16","algorithm":"PERSIST_DYNAMIC","status":"unsupported","reason":"no"}
{"part":"torch","case":"sequence","cell":"lstm","hidden":1024,"rows":512,"steps":20,"type":"fp16","algorithm":"as PyTorch picks","events_us":$(us 55),$ok}
LINES
cat >"$folder/engine.jsonl" <<LINES
{"part":"engine","case":"closed loop",$ok,"device":"cuda:0 A card","model":"build/gpu/langid.cells","requests_present":64,"requests_per_s":1000.5,"device_busy":0.99,"ideal_ratio":0.8,"mean_rows":60.5}
{"part":"engine","case":"closed loop",$ok,"device":"cuda:0 A card","model":"build/gpu/langid.cells","requests_present":1024,"requests_per_s":9000.5,"device_busy":0.93,"ideal_ratio":0.9,"mean_rows":900}
LINES
cat >"$folder/check.jsonl" <<LINES
{"part":"check","case":"lstm","device":"cuda","inputs":3,"hidden":7,"rows":17,"error":2e-7,"same_bits":true,$ok}
{"part":"check","case":"lstm","device":"cuda","inputs":3,"hidden":7,"rows":64,"error":3e-7,"same_bits":true,$ok}
{"part":"lane check","case":"abort","type":"bf16","cell":"gru","hidden":64,"x":"inputs","launches":3,"status":"failed","reason":"a launch has died"}
LINES
cat >"$folder/floors.jsonl" <<LINES
{"part":"barrier","case":"tagged 1","blocks":8,"events_us":$(us 0.6),"wall_us":$(us 9),$ok}
{"part":"barrier","case":"tagged 1","blocks":132,"events_us":$(us 0.7),"wall_us":$(us 8),$ok}
LINES
document 0 "$folder"/{floors,peers,check,bench,engine}.jsonl
lacks 'an older text'
lacks '**Not yet measured.**'
says 'commit abc1234; gpu A card'
# Ours beside each algorithm, by form; what was refused is a dash, what failed says so; of several numbers of steps the
# sequence's.
says '| units | rows | **cuda** | **cuda-exact** | **lane bf16, x sums** | **lane fp32, x inputs** | bf16 PERSIST_DYNAMIC | fp32 STANDARD |'
says '| 64 | 1 | 4.5 | failed | 0.21 |  | - | 11.5 |'
says '| 64 | 1 | 4.5 | failed | 0.21 |  | 1.75 |'
says '| 64 | 10 |  |  |  | 0.66 |'
says '| 1024 | 512 | 77 | 55 |'
says '| 256 | 20 | 6.25 |'
lacks '| - | 99.5 |'
says '| lstm | bf16 | 64 | sums | 1 | 0.21 | 0.18 | 0.27 | yes | 3.5 |'
says '| lstm | fp32 | 64 | inputs | 10 | 0.66 |  |  |  | 4.5 |'
says '| lstm | bf16 | 64 | 2.5 | 2.25 | 8.5 |'
says '| cuda:0 A card | langid.cells | 64 | 1000 | 0.99 | 0.8 | 60.5 |'
says 'cuda:0 A card, langid.cells: 93.0 % busy at its peak of 9000 requests/s with 1024 inside (target 90 %: reached).'
says '| check | cuda | 2 | 0 | 3e-07 |'
says '| lane check | gru bf16 | 0 | 1 | 0 |'
says '| barrier | tagged 1 | events_us | 0.6 |'
says '| barrier | tagged 1 | wall_us | 8 |'
says '- lane check, abort: a launch has died'
says '- step, lstm: no memory'
says '### All lines of peers'

# A device that is not busy enough; parts that are not there say so.
sed 's/"device_busy":0.93/"device_busy":0.5/' "$folder/engine.jsonl" >"$folder/idle.jsonl"
document 0 "$folder/idle.jsonl"
says '(target 90 %: missed)'
says 'Not yet measured.'

# Lines that nobody can read, and a page without marks.
echo '{"part":"step"' >>"$folder/idle.jsonl"
document 1 "$folder/idle.jsonl"
grep -q 'idle.jsonl:3: not JSON' "$folder/errors" || wrong "a broken line is not told"
echo 'no marks' >"$folder/source"
document 1 "$folder/bench.jsonl"
document 2

# The page in the tree is what its generator makes of what was measured: nothing yet.
grep -qF '**Not yet measured.**' docs/benchmarks/gpu.md || grep -q '^### A step' docs/benchmarks/gpu.md ||
    wrong "docs/benchmarks/gpu.md says nothing of measurements"

# all.sh: parts that are not asked for are not run, and their lines stay.
mkdir -p "$folder/out"
cp "$folder/bench.jsonl" "$folder/out"
scripts/gpu/all.sh --only none --out "$folder/out" >"$folder/page" 2>&1 || wrong "all.sh: $(cat "$folder/page")"
cp "$folder/out/gpu.md" "$folder/page"
says '| 64 | 10 |  |  |  | 0.66 |'
if [ ! -e /dev/nvidia0 ] && ! nvidia-smi -L >/dev/null 2>&1; then
    scripts/gpu/all.sh --out "$folder/out" >"$folder/page" 2>&1
    [ $? -eq 3 ] || wrong "all.sh without a card: $(cat "$folder/page")"
fi
scripts/gpu/all.sh --fast >"$folder/page" 2>&1
[ $? -eq 2 ] || wrong "all.sh takes any option"

exit $failed
