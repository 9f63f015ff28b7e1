#!/bin/bash
# Runs the curl commands of docs/http.md as they stand, with a free port in place of 8000, against
# the daemon with the demo model, and compares what each prints with the block that follows it.
# CELLBATCH_UPDATE_DOCS=1 writes what was printed into the document instead.
set -u
: "${OUT:=build/release}"
document=docs/http.md
work=$(mktemp -d)
server=

finish() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT

fail() {
    echo "$*"
    cat "$work/server.log" 2>/dev/null
    exit 1
}

skip() {
    echo "$*"
    exit 77
}

[ -x "$OUT/cellbatchd" ] || skip "no $OUT/cellbatchd"
command -v curl >/dev/null || skip "no curl"

read -r http_port grpc_port metrics_port < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(s.getsockname()[1] for s in sockets))')

# Each ```sh block goes to N.sh, the block after it to N.want.
awk -v work="$work" '
    /^```sh$/ { n++; file = work "/" n ".sh"; next }
    /^```(json|text)$/ && n { file = work "/" n ".want"; next }
    /^```/ { file = ""; next }
    file { print > file }' "$document"

CELLBATCH_HTTP_PORT=$http_port CELLBATCH_GRPC_PORT=$grpc_port CELLBATCH_METRICS_PORT=$metrics_port \
    "$OUT/cellbatchd" --model-repository models >"$work/server.log" 2>&1 &
server=$!
for ((i = 0; ; i++)); do
    curl -sf "http://127.0.0.1:$http_port/v2/health/ready" >/dev/null && break
    kill -0 "$server" 2>/dev/null || fail "the server ended"
    [ "$i" -lt 300 ] || fail "the server was not ready after 30 s"
    sleep 0.1
done

passed=0
failed=0
for ((n = 1; ; n++)); do
    [ -e "$work/$n.sh" ] || break
    sed "s/localhost:8000/127.0.0.1:$http_port/" "$work/$n.sh" >"$work/run.sh"
    bash "$work/run.sh" >"$work/$n.got" 2>"$work/errors"
    [ -z "$(tail -c 1 "$work/$n.got")" ] || echo >>"$work/$n.got"
    if [ -s "$work/errors" ] || ! cmp -s "$work/$n.got" "$work/$n.want"; then
        failed=$((failed + 1))
        echo "FAIL: $(cat "$work/$n.sh" "$work/errors")"
        diff "$work/$n.want" "$work/$n.got"
    else
        passed=$((passed + 1))
    fi
done

if [ -n "${CELLBATCH_UPDATE_DOCS:-}" ]; then
    awk -v work="$work" '
        /^```sh$/ { n++ }
        skipping && /^```$/ { skipping = 0 }
        !skipping { print }
        /^```(json|text)$/ && n {
            file = work "/" n ".got"
            while ((getline line < file) > 0) print line
            skipping = 1
        }' "$document" >"$work/new" && cp "$work/new" "$document"
fi

# The daemon ends cleanly.
kill -TERM "$server"
wait "$server" || {
    failed=$((failed + 1))
    echo "FAIL: exit status after SIGTERM"
}
server=
[ "$passed" -gt 0 ] || failed=$((failed + 1))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
