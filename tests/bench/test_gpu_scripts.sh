#!/bin/bash
# What scripts/gpu/ does around its programs, with a toolkit and a card that are made up: options, bounds,
# failures, lines and tables. And that without a card it says so at once.
set -u

failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

wrong() {
    echo "$*"
    failed=1
}

# try EXPECTED COMMAND...: its exit status; what it says is in $folder/out.
try() {
    local want=$1 status
    shift
    "$@" >"$folder/out" 2>&1
    status=$?
    if [ $status -ne "$want" ]; then
        wrong "$*: exit status $status, wanted $want: $(cat "$folder/out")"
    fi
}

# says TEXT: the last try printed it, as it is.
says() {
    grep -qF -- "$1" "$folder/out" || wrong "nothing says '$1': $(cat "$folder/out")"
}

# ---- Tables ----

cat >"$folder/good.jsonl" <<'LINES'
{"part":"machine","commit":"abc1234","gpu":"A card","driver":"580.1"}
{"part":"clocks","after":"start","sm_mhz":"1980"}

{"part":"facts","case":"card","name":"A card","sms":132,"checked":true,"status":"ok"}
{"part":"facts","case":"bus","status":"failed","reason":"no bus"}
{"part":"barrier","case":"counter","blocks":8,"per_repeat":1000,"events_us":{"p50":0.625,"p99":0.75,"min":0.5,"n":200},"wall_us":{"p50":1234.5,"p99":2000.25,"min":1,"n":200},"checked":true,"status":"ok"}
{"part":"barrier","case":"counter","blocks":132,"status":"unsupported","reason":"only 128 | blocks run together"}
{"part":"colaunch","case":"cudaMalloc","call_us":3.5,"done_us":null,"runs_beside":false,"checked":true,"status":"ok"}
{"part":"cudnn","case":"sequence","cell":"lstm","hidden":64,"rows":1,"steps":100,"type":"fp16","algorithm":"STANDARD","events_us":{"p50":12.345,"p99":13,"min":12},"checked":true,"status":"ok"}
{"part":"cudnn","case":"sequence","cell":"lstm","hidden":64,"rows":1,"steps":100,"type":"bf16","algorithm":"PERSIST_STATIC","status":"unsupported","reason":"CUDNN_STATUS_NOT_SUPPORTED"}
{"part":"cudnn","case":"sequence","cell":"lstm","hidden":64,"rows":1,"steps":100,"type":"fp32","algorithm":"STANDARD","status":"failed","reason":"an output is no number"}
LINES
try 0 python3 bench/gpu/table.py "$folder/good.jsonl"
says 'commit abc1234; gpu A card; driver 580.1'
says '| card | sms | 132 |'
says '| bus | outcome | failed: no bus |'
says '| case | blocks | per_repeat | events_us p50 / p99 / min | wall_us p50 / p99 / min | outcome |'
says '| counter | 8 | 1000 | 0.625 / 0.75 / 0.5 | 1234 / 2000 / 1 |  |'
says '| counter | 132 |  |  |  | unsupported: only 128 / blocks run together |'
says '| cudaMalloc | 3.5 | - | no |  |'
says '| case | cell | hidden | rows | steps | bf16 PERSIST_STATIC | fp16 STANDARD | fp32 STANDARD |'
says '| sequence | lstm | 64 | 1 | 100 | - | 12.3 | failed |'
says '- bf16 PERSIST_STATIC (1): unsupported: CUDNN_STATUS_NOT_SUPPORTED'
says '| start | 1980 |'
says '4 ok, 2 unsupported, 2 failed'

# broken LINE WHY: named with its number, while the line before it is printed.
broken() {
    sed -n 6p "$folder/good.jsonl" >"$folder/broken.jsonl"
    printf '%s\n' "$1" >>"$folder/broken.jsonl"
    try 1 python3 bench/gpu/table.py "$folder/broken.jsonl"
    says "$folder/broken.jsonl:2: $2"
    says '| counter | 8 |'
}

broken '{"part":"barrier","case":"flags","blo' 'not JSON'
broken '[1, 2]' 'no part'
broken '{"part":"barrier","status":"ok","checked":true}' 'no case'
broken '{"part":"barrier","case":"flags","checked":true}' 'no status'
broken '{"part":"barrier","case":"flags","status":"good"}' 'no status'
broken '{"part":"barrier","case":"flags","status":"ok"}' 'measured, but not checked'
broken '{"part":"barrier","case":"flags","events_us":{"p50":1},"checked":true,"status":"ok"}' \
    'events_us lacks a quantile'
: >"$folder/empty.jsonl"
try 1 python3 bench/gpu/table.py "$folder/empty.jsonl"
try 2 python3 bench/gpu/table.py

# ---- Without a card, and with wrong options ----

for script in floors peers; do
    try 0 scripts/gpu/$script.sh --help
    says 'usage: '
    try 2 scripts/gpu/$script.sh --fast
    says 'unknown option --fast'
    try 2 scripts/gpu/$script.sh --out
    says '--out wants a value'
    if [ ! -e /dev/nvidia0 ] && ! nvidia-smi -L >/dev/null 2>&1; then
        try 3 scripts/gpu/$script.sh
        says 'no NVIDIA GPU on this machine'
    fi
done
try 2 scripts/gpu/peers.sh --only neither

# ---- With a card that is made up ----

# tool NAME: an executable whose text comes from stdin.
tool() {
    cat >"$folder/bin/$1" && chmod +x "$folder/bin/$1"
}

mkdir -p "$folder/bin"
tool nvidia-smi <<'SCRIPT'
#!/bin/bash
case $* in
-L) echo 'GPU 0: a "card"' ;;
*compute_cap*) echo 9.0 ;;
*clocks.sm*) echo '1755, 2619, 41, 120.50, P0' ;;
*driver_version*) echo 580.1 ;;
*) echo 'A "card"' ;;
esac
SCRIPT
# "Compiles" a source into a script of what that program says and how it ends.
tool nvcc <<'SCRIPT'
#!/bin/bash
[ "$1" != --version ] || { echo 'Cuda compilation tools, release 0.0, V0.0'; exit; }
echo "$*" >>"$(dirname "$0")/commands"
while [ $# -gt 0 ]; do
    case $1 in
    -o) program=$2 ;;
    *.cu) name=$(basename "$1" .cu) ;;
    esac
    shift
done
line='{"part":"'$name'","case":"a","checked":true,"status":"ok"}'
case $name in
mma) text="echo '${line%,*},\"status\":\"failed\",\"reason\":\"wrong\"}'; exit 1" ;;
cluster) text="echo '$line'; echo broken >&2; exit 1" ;;
doorbell) text='echo last words >&2; exit 9' ;;
launch) text="echo \$\$ >\$0.pid; trap '' TERM; while :; do sleep 0.1; done" ;;
broadcast) exit 1 ;;
*) text="echo '$line'" ;;
esac
printf '#!/bin/bash\n%s\n' "$text" >"$program"
chmod +x "$program"
SCRIPT

# floors ARGUMENT...: with the made-up tools.
# shellcheck disable=SC2317 # it is reached, by try
floors() {
    PATH="$folder/bin:$PATH" scripts/gpu/floors.sh --out "$folder/results" --build "$folder/programs" "$@"
}

try 0 floors --only facts,barrier
says '2 ok, 0 unsupported, 0 failed'
says 'gpu A "card"; driver 580.1'
says '| barrier | 1755 | 2619 | 41 | 120.50 | P0 |'
grep -q 'arch=compute_90a,code=sm_90a' "$folder/bin/commands" || wrong "not built for the card"
grep -q '^{"part":"machine","commit":"' "$folder/results/floors.jsonl" || wrong "no machine's line"
try 1 floors --only facts,mma
says '1 ok, 0 unsupported, 1 failed'
try 1 floors --only cluster,doorbell
says '| all of it | failed: exit status 1: broken |'
says '| all of it | failed: exit status 9: last words |'
grep -q '^doorbell: last words' "$folder/results/floors.err" || wrong "what a part said is not kept"
try 4 floors --only broadcast,facts
says 'not all was built'
try 0 floors --build-only --arch 80,90a --only facts
grep -q 'compute_80,code=sm_80 -gencode arch=compute_90a' "$folder/bin/commands" ||
    wrong "not built for both targets"

# A part that does not end, and does not listen, is ended.
try 0 floors --build-only --only launch --arch 90a
cat >"$folder/bound.sh" <<'SCRIPT'
. scripts/gpu/common.sh
programs=$1 results=$1/bound.jsonl failed=0
: >"$results"
part launch 1 "$2"
cat "$results"
exit $failed
SCRIPT
try 1 env PATH="$folder/bin:$PATH" bash "$folder/bound.sh" "$folder/results" "$folder/programs/launch-90a"
says '"case":"all of it","status":"failed","reason":"not done within 1 s"'

# ---- All of it ----

# shellcheck disable=SC2317 # it is reached, by try
all() {
    PATH="$folder/bin:$PATH" scripts/gpu/all.sh --out "$folder/all" --build "$folder/programs" "$@"
}
try 2 all --limit 0
says '--limit wants a value'
try 2 all --pack
try 1 all --only floors,peers --limit 20 --pack "$folder/all.tar.gz"
says 'floors: not begun, of 20 s '
says 'peers: not begun, of 20 s '
try 0 tar -tzf "$folder/all.tar.gz"
says './gpu.md'

# Told to end in the middle of a step: nothing runs on, and what was measured until then is in the archive.
rm "$folder/all.tar.gz" "$folder/programs"/launch*.pid
PATH="$folder/bin:$PATH" scripts/gpu/all.sh --out "$folder/all" --build "$folder/programs" --only floors,peers \
    --pack "$folder/all.tar.gz" >"$folder/said" 2>&1 &
all=$!
for ((i = 0; i < 600 && $(find "$folder/programs" -name 'launch*.pid' -size +0 | wc -l) == 0; i++)); do
    sleep 0.1
done
kill -TERM "$all"
wait "$all"
status=$?
[ $status -eq 143 ] || wrong "all.sh told to end: exit status $status: $(cat "$folder/said")"
program=$(cat "$folder/programs"/launch*.pid)
for ((i = 0; i < 50; i++)); do # one that was killed is there until it is buried
    kill -0 "$program" 2>/dev/null || break
    sleep 0.1
done
[ $i -lt 50 ] || wrong "a program runs on"
mkdir "$folder/unpacked"
try 0 tar -C "$folder/unpacked" -xzf "$folder/all.tar.gz"
try 0 cat "$folder/unpacked/floors.jsonl"
says '{"part":"facts","case":"a","checked":true,"status":"ok"}'
says '{"part":"launch","case":"all of it","status":"failed","reason":"told to end"}'
[ ! -e "$folder/all/peers.jsonl" ] || wrong "another step was begun behind the end"

# What a machine lacks is a line, and the rest is measured.
cat >"$folder/lacks.sh" <<'SCRIPT'
. scripts/gpu/common.sh
results=$1
take_options --only memcheck
unsupported memcheck 'no "tool"'
unsupported racecheck 'not asked for'
SCRIPT
try 0 bash "$folder/lacks.sh" "$folder/lacks.jsonl"
try 0 cat "$folder/lacks.jsonl"
says '{"part":"memcheck","case":"all of it","status":"unsupported","reason":"no \"tool\""}'
[ "$(wc -l <"$folder/lacks.jsonl")" -eq 1 ] || wrong "what was not asked for is told: $(cat "$folder/lacks.jsonl")"
tool python <<'SCRIPT'
#!/bin/bash
case $1 in
bench/gpu/peers_torch.py) echo '{"part":"torch","case":"a","checked":true,"status":"ok"}' ;;
-c) ;;
*) exec python3 "$@" ;;
esac
SCRIPT
# shellcheck disable=SC2317 # it is reached, by try
peers() {
    PATH="$folder/bin:$PATH" PYTHON="$folder/bin/python" CUDNN_HOME="$folder/none" scripts/gpu/peers.sh \
        --out "$folder/results" --build "$folder/programs" "$@"
}
try 0 peers
says '| all of it | unsupported: no cudnn.h beside a libcudnn.so.9: set CUDNN_HOME |'
try 4 peers --only cudnn
grep -q '"part":"torch","case":"a"' "$folder/results/peers.jsonl" || wrong "PyTorch is not measured without cuDNN"

for file in bench/gpu/*.py; do
    try 0 python3 -c 'import ast, sys; ast.parse(open(sys.argv[1], encoding="utf-8").read())' "$file"
done

exit $failed
