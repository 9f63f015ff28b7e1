#!/bin/bash
# Runs the blocks of docs/quickstart.md as they stand, in an empty folder, with free ports in place
# of 8000 and 8001, and compares the server's answer with PyTorch's. Needs a Python with torch; the
# blocks for tritonclient and curl run where those are installed.
set -u
: "${OUT:=build/release}"
root=$PWD
work=$(mktemp -d)
server=

finish() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT

fail() {
    echo "$*"
    cat "$work"/*.log 2>/dev/null
    exit 1
}

skip() {
    echo "$*"
    exit 77
}

# The block after <!-- run: NAME -->, with our ports.
block() {
    awk -v mark="<!-- run: $1 -->" '
        $0 == mark { wanted = 1; next }
        wanted && /^```/ { if (inside) exit; inside = 1; next }
        inside { print }' "$root/docs/quickstart.md" |
        sed -e "s/:8000/:$http_port/" -e "s/:8001/:$grpc_port/"
}

# First Python that has all the given modules, or nothing.
python_with() {
    local python module
    for python in "$root/build/venv/bin/python" python3 /usr/bin/python3; do
        local has=1
        for module in "$@"; do
            "$python" -c "import $module" 2>/dev/null || has=0
        done
        if [ "$has" -eq 1 ]; then
            echo "$python"
            return
        fi
    done
}

[ -x "$OUT/cellbatchd" ] || skip "no $OUT/cellbatchd"
torch=$(python_with torch numpy)
[ -n "$torch" ] || skip "no Python with PyTorch (Debian: python3-torch)"

read -r http_port grpc_port metrics_port < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(s.getsockname()[1] for s in sockets))')

mkdir -p "$work/build"
ln -s "$root/$OUT" "$work/build/release"
cd "$work" || exit 1
for name in model.py export.py ask.py serve.sh ask.sh; do
    block "$name" >"$work/$name"
    [ -s "$work/$name" ] || fail "docs/quickstart.md has no block $name"
done

"$torch" export.py >export.log 2>&1 || fail "the export failed"
[ -s my-models/tagger/1/model.onnx ] || fail "no model file after the export"

export CELLBATCH_HTTP_PORT=$http_port CELLBATCH_GRPC_PORT=$grpc_port CELLBATCH_METRICS_PORT=$metrics_port
sed 's/^build/exec build/' serve.sh >serve-exec.sh
bash serve-exec.sh >serve.log 2>&1 &
server=$!
for ((i = 0; ; i++)); do
    python3 -c "import urllib.request as r; r.urlopen('http://127.0.0.1:$http_port/v2/health/ready')" \
        2>/dev/null && break
    kill -0 "$server" 2>/dev/null || fail "the server ended"
    [ "$i" -lt 300 ] || fail "the server was not ready after 30 s"
    sleep 0.1
done

# The answer to the request of ask.sh must be PyTorch's.
cat >compare.py <<'END'
import json, re, sys, urllib.request
import torch
from model import model

body = re.search(r"-d '(.*)'", open("ask.sh").read(), re.S).group(1)
url = re.search(r"http://\S+", open("ask.sh").read()).group(0)
answer = json.load(urllib.request.urlopen(urllib.request.Request(url, body.encode())))["outputs"][0]
got = torch.tensor(answer["data"]).reshape(answer["shape"])
wanted = model(torch.tensor([json.loads(body)["inputs"][0]["data"]]))
error = (got - wanted).abs().max().item()
print("largest difference from PyTorch:", error)
sys.exit(error > 1e-5 or got.shape != wanted.shape)
END
"$torch" compare.py >compare.log 2>&1 || fail "the answer is not PyTorch's"
cat compare.log

triton=$(python_with tritonclient.grpc numpy)
if [ -n "$triton" ]; then
    "$triton" ask.py >ask-py.log 2>&1 || fail "the tritonclient block failed"
    grep -q '^\[\[\[0\.' ask-py.log || fail "the tritonclient block printed something else"
else
    echo "without the tritonclient block (make deps-py)"
fi
if command -v curl >/dev/null; then
    bash ask.sh >ask-sh.log 2>&1 || fail "the curl block failed"
    grep -q '"tags"' ask-sh.log || fail "the curl block printed something else"
else
    echo "without the curl block (no curl)"
fi

kill -TERM "$server"
wait "$server"
status=$?
server=
[ "$status" -eq 0 ] || fail "the server's exit status was $status"
