#!/bin/bash
# Real clients against the built cellbatchd: starts it on free ports over models/, `parts`, which is
# langid whose texts may come in parts, and two models of halves, runs each test here, stops it. Ends with `N passed, N failed[, N skipped]`. From the root of the tree; OUT and
# BUILD come from make, which builds build/venv before (make clients).
set -u
: "${OUT:=build/release}"
python=build/venv/bin/python
work=$(mktemp -d)
server=

finish() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT

passed=0 failed=0 skipped=0

# add OUTPUT STATUS: adds a test's closing line; a test without one failed.
add() {
    local last
    last=$(tail -n 1 "$1")
    cat "$1"
    if [ "$2" -eq 77 ]; then
        echo "SKIP: $last"
        skipped=$((skipped + 1))
    elif [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    else
        failed=$((failed + 1))
    fi
}

# port NAME: what the daemon's start block says NAME listens on.
port() {
    sed -n "s/^ *$1  *.*:\([0-9][0-9]*\)\$/\1/p" "$work/log" | head -n 1
}

mkdir "$work/models"
cp -r models/* "$work/models/"
cp -r models/langid "$work/models/parts"
echo 'states: recurrent' >"$work/models/parts/config.yaml"

# serve MODELS OPTION...: starts the daemon and waits until it is ready; its ports are then grpc_port and
# http_port.
serve() {
    local models=$1
    shift
    "$OUT/cellbatchd" --model-repository "$models" --grpc-port 0 --http-port 0 --metrics-port 0 \
        "$@" 2>"$work/log" >&2 &
    server=$!
    for _ in $(seq 300); do
        grpc_port=$(port grpc) http_port=$(port http)
        if [ -n "$grpc_port" ] && [ -n "$http_port" ] &&
            curl -fs "http://127.0.0.1:$http_port/v2/health/ready" >/dev/null; then
            return
        fi
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    echo "cellbatchd is not ready:"
    cat "$work/log"
    echo "0 passed, 1 failed"
    exit 1
}

# stopped: the daemon, which was asked to, must stop by itself.
stopped() {
    if timeout 30 tail --pid="$server" -f /dev/null && wait "$server"; then
        passed=$((passed + 1))
    else
        echo "cellbatchd did not stop with exit status 0:"
        tail -n 20 "$work/log"
        failed=$((failed + 1))
    fi
    server=
}

cp -r "$work/models" "$work/control"
cp -r models/langid "$work/control/late"
cp -r models/langid "$work/control/changing"
serve "$work/control" --model-control-mode explicit --load-model langid,parts
PYTHONDONTWRITEBYTECODE=1 "$python" tests/clients/test_model_control.py "127.0.0.1:$grpc_port" \
    "127.0.0.1:$http_port" "$work/control" >"$work/out" 2>&1
add "$work/out" $?
kill -TERM "$server"
stopped

for model in half_tagger_whole-half1.16-op14 half_brain-dynamo2.15-op20; do
    mkdir -p "$work/models/${model%%-*}/1"
    cp "tests/data/onnx/$model/model.onnx" "$work/models/${model%%-*}/1/"
done
serve "$work/models"
"$python" tests/clients/test_tritonclient.py "127.0.0.1:$grpc_port" "127.0.0.1:$http_port" \
    >"$work/out" 2>&1
add "$work/out" $?
"$python" tests/clients/test_reflection.py "127.0.0.1:$grpc_port" >"$work/out" 2>&1
add "$work/out" $?
bash tests/clients/test_perf_analyzer.sh "127.0.0.1:$grpc_port" "127.0.0.1:$http_port" \
    >"$work/out" 2>&1
add "$work/out" $?

# It must also stop by itself, and not wait for streams that do nothing.
"$python" tests/clients/idle_stream.py "127.0.0.1:$grpc_port" >"$work/idle" 2>&1 &
idle=$!
for _ in $(seq 300); do
    grep -q waiting "$work/idle" && break
    kill -0 "$idle" 2>/dev/null || break
    sleep 0.1
done
kill -TERM "$server"
if wait "$idle"; then
    passed=$((passed + 1))
else
    echo "idle streams did not end as they should:"
    cat "$work/idle"
    failed=$((failed + 1))
fi
stopped

line="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
