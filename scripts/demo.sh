#!/bin/bash
# What `make demo` shows: starts cellbatchd with the demo models on free loopback ports, asks each of
# them, measures one's latency under an open-loop Poisson load and then all three at once, and stops
# it cleanly. About a minute.
# Leaves build/demo/: latency.png, latency.csv, server.log. Exit status 1 when anything went wrong.
set -u
cd "$(dirname "$0")/.." || exit 1

: "${OUT:=build/release}"
demo=build/demo
shares="10 25 40 55 70 80 90" # of the measured capacity, in %
mixed_share=20                # of each model's own, when all are asked at once
seconds=2.5                   # measured at each load
server=

finish() {
    local status=$?
    if [ -n "$server" ]; then
        kill -KILL "$server" 2>/dev/null
    fi
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

fail() {
    echo "demo: $*" >&2
    if [ -s $demo/server.log ]; then
        echo "demo: the end of $demo/server.log:" >&2
        tail -n 15 $demo/server.log >&2
    fi
    exit 1
}

for program in cellbatchd cellbatch-load; do
    [ -x "$OUT/$program" ] || fail "$OUT/$program is missing; run make first"
done
rm -rf $demo
mkdir -p $demo || exit 1

# Options of this shell's environment would change what is shown.
for variable in "${!CELLBATCH_@}"; do
    unset "$variable"
done

# load MODEL FLAG...
load() {
    local model=$1
    shift
    "$OUT/cellbatch-load" --target "127.0.0.1:$grpc_port" --model "$model" "$@"
}

# ask MODEL TEXT...: prints each text and its answer.
ask() {
    local model=$1 text asks=()
    shift
    for text in "$@"; do
        asks+=(--ask "$text")
    done
    echo "== $model"
    load "$model" "${asks[@]}" || fail "the questions were not answered"
    echo
}

# texts FILE.jsonl: the member `text` of each line.
texts() {
    python3 -c '
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    print(json.loads(line)["text"].replace("\n", " "))' "$1" || fail "$1 cannot be read"
}

# measure_capacity MODEL: requests/s with 64 requests always in flight, of its stored texts.
measure_capacity() {
    load "$1" --text "$demo/$1.txt" --concurrency 64 --duration "$seconds" --warmup 0.5 --json \
        >"$demo/$1.json" || fail "the closed-loop load of $1 failed"
    [ "$(number failed <"$demo/$1.json")" = 0 ] || fail "requests failed: $(cat "$demo/$1.json")"
    number rate_achieved <"$demo/$1.json"
}

# The value of a number in the one line of JSON at standard input.
number() {
    sed -n "s/.*\"$1\":\([0-9.eE+-]*\).*/\1/p"
}

"$OUT/cellbatchd" --model-repository models --grpc-port 0 --http-port 0 --metrics-port 0 \
    >$demo/server.log 2>&1 </dev/null &
server=$!
until grep -q ' daemon: ready' $demo/server.log; do
    kill -0 "$server" 2>/dev/null || fail "cellbatchd ended at once"
    [ $SECONDS -lt 30 ] || fail "cellbatchd was not ready after 30 s"
    sleep 0.05
done
grpc_port=$(sed -n 's/^  grpc .*:\([0-9]*\)$/\1/p' $demo/server.log)
[ -n "$grpc_port" ] || fail "cellbatchd did not name its gRPC port"

echo "== Serving models/"
grep '^  ' $demo/server.log
echo
ask langid "Where is the station?" "Wo ist der Bahnhof?" \
    "The weather is nice, and nobody is in a hurry." "Das Wetter ist schön, und niemand hat es eilig."
ask dates "the 5th of may 2019" "Monday, February 22nd, nineteen eighty-four" "31.12.1999"
ask listops "(MAX 2 9 (MIN 4 7) 0)" "(SM 8 (MED 1 5 (MAX 2 6) 3 9) 4)"

texts models/langid/sentences.jsonl >$demo/langid.txt
texts models/dates/examples.jsonl >$demo/dates.txt
texts models/listops/examples.jsonl >$demo/listops.txt

echo "== Capacity: 64 requests always in flight, texts of 1 to 386 bytes"
capacity=$(measure_capacity langid) || exit 1
dates_capacity=$(measure_capacity dates) || exit 1
listops_capacity=$(measure_capacity listops) || exit 1
printf 'langid (LSTM)               %7.0f requests/s\n' "$capacity"
printf 'dates (GRU, attention)      %7.0f requests/s\n' "$dates_capacity"
printf 'listops (TreeLSTM)          %7.0f requests/s\n' "$listops_capacity"
rates=$(awk -v capacity="$capacity" -v shares="$shares" 'BEGIN {
    n = split(shares, share)
    for (i = 1; i <= n; i++) printf "%s%d", (i > 1 ? "," : ""), capacity * share[i] / 100 + 1
}')

echo
echo "== langid's latency under an open-loop Poisson load, from the planned time of each request"
load langid --text $demo/langid.txt --rates "$rates" --duration "$seconds" --warmup 0.5 --cooldown 0.2 \
    --csv $demo/latency.csv --png $demo/latency.png >$demo/load.log
status=$?
# 4: a run missed its schedule, which a busy machine may do; the table says which.
if [ "$status" -ne 0 ] && [ "$status" -ne 4 ]; then
    tail -n 20 $demo/load.log >&2
    fail "the load failed with exit status $status"
fi

# table FILE.csv...: a line a run, of files called by their model or by the one whose curve it is.
# Columns by name, so that the files may gain some.
table() {
    awk -F, '
    FNR == 1 {
        for (i = 1; i <= NF; i++) at[$i] = i
        if (NR == 1)
            printf "%10s %10s %9s %9s %9s %9s %8s\n", "asked/s", "achieved", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "failed"
        name = FILENAME
        gsub(/.*\/|\.csv/, "", name)
        next
    }
    {
        printf "%10.0f %10.0f %9.3f %9.3f %9.3f %9.3f %8d  %s%s\n", $at["rate_asked"], $at["rate_achieved"],
            $at["latency_p50_ms"], $at["latency_p90_ms"], $at["latency_p99_ms"], $at["latency_p99.9_ms"],
            $at["failed"], (name == "latency" ? "" : name " "),
            ($at["valid"] == "yes" ? "" : "INVALID: the machine was too busy to send on time")
        failed += $at["failed"]
    }
    END { exit failed > 0 }' "$@"
}

table $demo/latency.csv || fail "requests failed"
[ -s $demo/latency.png ] || fail "no $demo/latency.png"

echo
echo "== All three models at once, each at $mixed_share % of what it alone can take"
loads=()
for model in langid dates listops; do
    case $model in
    langid) most=$capacity ;;
    dates) most=$dates_capacity ;;
    *) most=$listops_capacity ;;
    esac
    rate=$(awk -v most="$most" -v share=$mixed_share 'BEGIN { printf "%d", most * share / 100 + 1 }')
    load $model --text $demo/$model.txt --rate "$rate" --duration "$seconds" --warmup 0.5 --cooldown 0.5 \
        --csv $demo/$model.csv >$demo/$model.log 2>&1 &
    loads+=($!)
done
for pid in "${loads[@]}"; do
    wait "$pid"
    status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 4 ] || fail "a load failed with exit status $status: $(cat $demo/*.log | grep cellbatch-load)"
done
table $demo/langid.csv $demo/dates.csv $demo/listops.csv || fail "requests failed"

kill -TERM "$server"
wait "$server"
status=$?
server=
[ "$status" -eq 0 ] || fail "cellbatchd ended with exit status $status"
echo
echo "== Stopped cleanly. The curve is $demo/latency.png; your own model: docs/quickstart.md"
