#!/usr/bin/env bash
# The daemon as its users run it: start, answers, bad starts, drain, lost clients.
set -u
. tests/daemon/daemon.sh
load=$OUT/cellbatch-load

# A failing start: exit status 1 and a line that says why.
fails_with() {
    local text=$1
    shift
    "$OUT/cellbatchd" "$@" >"$daemon_dir/out" 2>"$daemon_dir/log"
    [ $? -eq 1 ] && grep -q -- "$text" "$daemon_dir/log"
}

asks() { "$load" --target "$grpc" --ask "$1" | grep -q "^$2 "; }

check 'version' grep -q '^cellbatch [0-9]' <("$OUT/cellbatchd" --version)
check 'no repository' fails_with 'model-repository' --grpc-port 0
check 'missing folder' fails_with '/no/such' --model-repository /no/such --grpc-port 0
check 'not a number' fails_with '80x' --model-repository models --grpc-port 80x

mkdir -p "$daemon_dir/broken/bad/1"
head -c 1000 models/langid/1/model.onnx >"$daemon_dir/broken/bad/1/model.onnx"
check 'broken model names its file' fails_with 'bad/1/model.onnx' \
    --model-repository "$daemon_dir/broken" --grpc-port 0 --http-port 0 --metrics-port 0
check 'check-model names its file' fails_with 'bad/1/model.onnx' \
    --check-model "$daemon_dir/broken/bad/1/model.onnx"

check 'starts' daemon_start --model-repository models
check 'English' asks 'Where is the station?' English
check 'German' asks 'Wo ist der Bahnhof?' German
check 'port in use' fails_with "${grpc##*:}" --model-repository models --grpc-port "${grpc##*:}" \
    --http-port 0 --metrics-port 0

# A client that is killed in the middle leaves nothing behind.
"$load" --target "$grpc" --concurrency 64 --duration 30 --lengths fixed:2000 >/dev/null 2>&1 &
client=$!
sleep 1
kill -KILL "$client"
wait "$client" 2>/dev/null
check 'requests of a lost client end' wait_for 10 metric_is cellbatch_requests_running 0
check 'rows of a lost client are free' wait_for 10 metric_is cellbatch_rows_in_use 0
check 'serves on' asks 'Where is the station?' English

# Drain: what is in flight is answered, the exit is clean.
"$load" --target "$grpc" --concurrency 8 --requests 8 --lengths fixed:4000 \
    --warmup 0 --cooldown 0 --json \
    >"$daemon_dir/load.json" 2>&1 &
client=$!
wait_for 10 metric_is cellbatch_requests_running 8
kill -TERM "$daemon_pid"
daemon_wait
wait "$client"
check 'drained exit status' [ "$daemon_exit" -eq 0 ]
check 'in-flight requests were answered' grep -q '"ok": *8' "$daemon_dir/load.json"

check 'a broken model beside a good one' daemon_start --exit-on-error=false \
    --strict-readiness=false --model-repository "$daemon_dir/broken"
check 'is unavailable' daemon_says 'unavailable'
kill -INT "$daemon_pid"
daemon_wait
check 'SIGINT exits cleanly' [ "$daemon_exit" -eq 0 ]

report
