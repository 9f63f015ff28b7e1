# Shared by the tests that run the documents' examples; sourced from the root of the tree.
# shellcheck shell=bash
#
# A block is marked in the document by <!-- run: NAME --> above it. Examples run as they stand, in an
# empty folder, except that free ports stand in for 8000, 8001 and 8002.
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
    tail -n 40 "$work"/*.log 2>/dev/null
    exit 1
}

skip() {
    echo "$*"
    exit 77
}

for program in cellbatchd cellbatch-load; do
    [ -x "$OUT/$program" ] || fail "no $OUT/$program; run make first"
done
[ "${BUILD:-release}" != tsan ] || skip "gRPC is not built for ThreadSanitizer"

read -r http_port grpc_port metrics_port < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(s.getsockname()[1] for s in sockets))')

# write_block DOCUMENT NAME: the block into the file NAME of the work folder.
write_block() {
    awk -v mark="<!-- run: $2 -->" '
        $0 == mark { wanted = 1; next }
        wanted && /^```/ { if (inside) exit; inside = 1; next }
        inside { print }' "$root/$1" |
        sed -e "s/:8000/:$http_port/" -e "s/:8001/:$grpc_port/" -e "s/:8002/:$metrics_port/" >"$work/$2"
    [ -s "$work/$2" ] || fail "$1 has no block $2"
}

# python_with MODULE...: the first Python that has all of them, or nothing.
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

# start_server COMMAND...: in the background with our ports, until it is ready.
start_server() {
    CELLBATCH_HTTP_PORT=$http_port CELLBATCH_GRPC_PORT=$grpc_port \
        CELLBATCH_METRICS_PORT=$metrics_port "$@" >"$work/server.log" 2>&1 </dev/null &
    server=$!
    local i
    for ((i = 0; i < 300; i++)); do
        kill -0 "$server" 2>/dev/null || fail "the server ended"
        if python3 -c "import urllib.request as r; r.urlopen('http://127.0.0.1:$http_port/v2/health/ready')" \
            2>/dev/null; then
            return
        fi
        sleep 0.1
    done
    fail "the server was not ready after 30 s"
}

stop_server() {
    kill -TERM "$server"
    local status=0
    wait "$server" || status=$?
    server=
    [ "$status" -eq 0 ] || fail "the server's exit status was $status"
}

# ask_with_tritonclient BLOCK PATTERN: the block's output has such a line; where that client is
# installed.
ask_with_tritonclient() {
    local triton
    triton=$(python_with tritonclient.grpc numpy)
    if [ -z "$triton" ]; then
        echo "without the tritonclient block (make deps-py)"
        return
    fi
    "$triton" "$1" >ask-py.log 2>&1 || fail "the tritonclient block failed"
    grep -q "$2" ask-py.log || fail "the tritonclient block printed something else"
}

# prepare_pytorch DOCUMENT BLOCK...: the blocks in the work folder, which becomes the current one, with
# the programs where they expect them; sets torch to a Python with PyTorch, or skips the test.
prepare_pytorch() {
    local document=$1 name
    shift
    torch=$(python_with torch numpy)
    [ -n "$torch" ] || skip "no Python with PyTorch (Debian: python3-torch)"
    for name in "$@"; do
        write_block "$document" "$name"
    done
    mkdir -p "$work/build"
    ln -s "$root/$OUT" "$work/build/release"
    cd "$work" || exit 1
}

# compare_models: runs compare.py of the work folder, which ends with compare(MODELS, draw) of asking.py:
# of names to (module, input, datatype), and of a seed to a name and a tensor. 60 requests at once must
# be answered within 1e-5 of PyTorch.
compare_models() {
    cat >asking.py <<'END'
import json, os, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
import torch

def ask(models, name, x):
    body = {"inputs": [{"name": models[name][1], "datatype": models[name][2], "shape": list(x.shape), "data": x.flatten().tolist()}]}
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/{name}/infer"
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))
    output = answer["outputs"][0]
    return torch.tensor(output["data"]).reshape(output["shape"])

def compare(models, draw):
    with torch.no_grad(), ThreadPoolExecutor(16) as pool:
        requests = [draw(seed) for seed in range(60)]
        worst = {name: 0.0 for name in models}
        for (name, x), got in zip(requests, pool.map(lambda request: ask(models, *request), requests)):
            right = models[name][0](x)
            if got.shape != right.shape:
                sys.exit(f"{name}: shape {list(got.shape)}, wanted {list(right.shape)}")
            worst[name] = max(worst[name], (got - right).abs().max().item())
    print("60 requests, largest differences from PyTorch:", worst)
    sys.exit(max(worst.values()) > 1e-5)
END
    HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not PyTorch's"
    cat compare.log
}
