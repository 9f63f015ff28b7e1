#!/bin/bash
# The server under load on this machine, client included: closed-loop capacity on a tiny chain
# model, CPU time per request, memory after 100,000 and 1,000,000 requests, an open loop at half of
# the capacity, and what a killed client leaves behind. Prints what docs/performance.md records;
# exit status 1 when something was lost, invalid, or left behind. Bounded: about 4 minutes.
#
# Usage: scripts/soak.sh [seconds of the open loop, default 60]
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/daemon/daemon.sh
seconds=${1:-60}
load() { "$OUT/cellbatch-load" --target "$grpc" --model tiny --lengths fixed:5 --json "$@"; }
number() { sed -n "s/.*\"$1\":\([0-9.eE+-]*\).*/\1/p" <<<"$2"; }
cpu_s() { metric process_cpu_seconds_total; }
status=0
failed() {
    echo "FAILED: $*"
    status=1
}

mkdir -p "$daemon_dir/models/tiny/1"
"$OUT/tests/tools/make_model" --input 16 --hidden 16 --seed 1 \
    --out "$daemon_dir/models/tiny/1/model.onnx" >/dev/null || exit 1
daemon_start --model-repository "$daemon_dir/models" || {
    cat "$daemon_dir/log"
    exit 1
}
echo "host: $(nproc) CPUs, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
    "load average $(cut -d ' ' -f 1 /proc/loadavg); commit $(git rev-parse --short HEAD 2>/dev/null)"

# Time that the machine's host gave to others, in per cent of all since the first call.
stolen() {
    awk -v from="${stolen_from:-}" '$1 == "cpu" {
        for (i = 2; i <= 9; i++) all += $i
        if (from == "") { print all, $9; exit }
        split(from, f, " "); printf "%.1f", 100 * ($9 - f[2]) / (all - f[1]); exit }' /proc/stat
}
stolen_from=$(stolen)

# sustained N: N requests, 64 in flight; the line of JSON in $run.
sustained() { run=$(load --concurrency 64 --requests "$1" --warmup 0 --cooldown 0); }

sustained 100000
memory_first=$(metric process_resident_memory_bytes)
capacity=0
for _ in 1 2 3; do
    before=$(cpu_s)
    sustained 300000
    after=$(cpu_s)
    rate=$(number rate_achieved "$run")
    [ "$(number failed "$run")" = 0 ] || failed "requests of the closed loop"
    capacity=$(awk -v a="$capacity" -v b="$rate" 'BEGIN { print (b > a ? b : a) }')
    awk -v r="$rate" -v b="$before" -v a="$after" -v c="$(number cpu_us_each "$run")" 'BEGIN {
        printf "closed loop, 64 in flight: %.0f requests/s, %.1f us of server CPU and %.1f us of client CPU a request\n",
            r, (a - b) / 300000 * 1e6, c }'
done
memory_last=$(metric process_resident_memory_bytes)
awk -v a="$memory_first" -v b="$memory_last" 'BEGIN {
    printf "memory: %.1f MiB after 100,000 requests, %.1f MiB after 1,000,000 (%+.2f %%)\n",
        a / 1048576, b / 1048576, (b / a - 1) * 100; exit !(b <= a * 1.02) }' ||
    failed "memory grew by more than 2 %"

rate=$(awk -v c="$capacity" 'BEGIN { printf "%d", c / 2 }')
run=$(load --rate "$rate" --duration "$seconds")
[ "$(number failed "$run")" = 0 ] || failed "requests of the open loop"
grep -q '"valid":true' <<<"$run" || failed "the open loop is INVALID"
echo "stolen by the host meanwhile: $(stolen) % of the CPUs"
latency=${run##*\"latency_ms\":{}
echo "open loop, $rate/s for $seconds s: achieved $(number rate_achieved "$run")/s, latency ms ${latency%%\}*}"

load --concurrency 64 --duration 30 >/dev/null 2>&1 &
client=$!
sleep 1
kill -KILL "$client"
wait "$client" 2>/dev/null
wait_for 10 metric_is cellbatch_requests_running 0 || failed "requests of a killed client stay"
wait_for 10 metric_is cellbatch_rows_in_use 0 || failed "rows of a killed client stay"
kill -TERM "$daemon_pid"
daemon_wait
[ "$daemon_exit" -eq 0 ] || failed "exit status $daemon_exit"
exit $status
