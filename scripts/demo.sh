#!/bin/bash
# What `make demo` shows: starts cellbatchd with the demo models on free loopback ports, asks it real
# sentences, measures latency under an open-loop Poisson load, and stops it cleanly. Under a minute.
# Leaves build/demo/: latency.png, latency.csv, server.log. Exit status 1 when anything went wrong.
set -u
cd "$(dirname "$0")/.." || exit 1

: "${OUT:=build/release}"
demo=build/demo
shares="10 25 40 55 70 80 90" # of the measured capacity, in %
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

load() {
    "$OUT/cellbatch-load" --target "127.0.0.1:$grpc_port" --model langid "$@"
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
ask=()
for sentence in "Where is the station?" "Wo ist der Bahnhof?" "Two dogs run through the snow." \
    "Zwei Hunde laufen durch den Schnee." "The weather is nice, and nobody is in a hurry." \
    "Das Wetter ist schön, und niemand hat es eilig."; do
    ask+=(--ask "$sentence")
done
load "${ask[@]}" || fail "the questions were not answered"

python3 -c '
import json
for line in open("models/langid/sentences.jsonl", encoding="utf-8"):
    print(json.loads(line)["text"].replace("\n", " "))' >$demo/sentences.txt ||
    fail "models/langid/sentences.jsonl cannot be read"

echo
echo "== Capacity: 64 requests always in flight, $(wc -l <$demo/sentences.txt) real sentences of 1 to 386 bytes"
load --text $demo/sentences.txt --concurrency 64 --duration "$seconds" --warmup 0.5 --json \
    >$demo/capacity.json || fail "the closed-loop load failed"
capacity=$(number rate_achieved <$demo/capacity.json)
[ "$(number failed <$demo/capacity.json)" = 0 ] || fail "requests failed: $(cat $demo/capacity.json)"
rates=$(awk -v capacity="$capacity" -v shares="$shares" 'BEGIN {
    n = split(shares, share)
    for (i = 1; i <= n; i++) printf "%s%d", (i > 1 ? "," : ""), capacity * share[i] / 100 + 1
}')
printf '%.0f requests/s\n' "$capacity"

echo
echo "== Latency under an open-loop Poisson load, from the planned time of each request"
load --text $demo/sentences.txt --rates "$rates" --duration "$seconds" --warmup 0.5 --cooldown 0.2 \
    --csv $demo/latency.csv --png $demo/latency.png >$demo/load.log
status=$?
# 4: a run missed its schedule, which a busy machine may do; the table says which.
if [ "$status" -ne 0 ] && [ "$status" -ne 4 ]; then
    tail -n 20 $demo/load.log >&2
    fail "the load failed with exit status $status"
fi

# Columns by name, so that the table may gain some.
awk -F, '
NR == 1 {
    for (i = 1; i <= NF; i++) at[$i] = i
    printf "%10s %10s %9s %9s %9s %9s %8s\n", "asked/s", "achieved", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "failed"
    next
}
{
    printf "%10.0f %10.0f %9.3f %9.3f %9.3f %9.3f %8d%s\n", $at["rate_asked"], $at["rate_achieved"],
        $at["latency_p50_ms"], $at["latency_p90_ms"], $at["latency_p99_ms"], $at["latency_p99.9_ms"],
        $at["failed"], ($at["valid"] == "yes" ? "" : "  INVALID: the machine was too busy to send on time")
    failed += $at["failed"]
}
END { exit failed > 0 }' $demo/latency.csv || fail "requests failed"
[ -s $demo/latency.png ] || fail "no $demo/latency.png"

kill -TERM "$server"
wait "$server"
status=$?
server=
[ "$status" -eq 0 ] || fail "cellbatchd ended with exit status $status"
echo
echo "== Stopped cleanly. The curve is $demo/latency.png; your own model: docs/quickstart.md"
