#!/bin/bash
# Runs the blocks of docs/sessions.md and compares sequences in random parts, many at once, with what
# PyTorch says of the whole. Needs a Python with torch; the blocks for tritonclient run where that is
# installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/sessions.md sessions_model.py sessions_config.sh sessions_ask.py sessions_curl.sh sessions_move.py \
    sessions_masker.py
"$torch" sessions_model.py >export.log 2>&1 || fail "the export failed"
"$torch" sessions_masker.py >>export.log 2>&1 || fail "the export of the convolutions failed"
[ -s my-models/monitor/1/model.onnx ] || fail "no model file after the export"
sed 's/^build\(.*repository\)/exec build\1/' sessions_config.sh >serve-exec.sh
start_server bash serve-exec.sh
grep -q 'state   state.3 goes on from state.3' server.log || fail "--check-model does not list the states"

cat >compare.py <<'END'
import json, os, random, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
import torch
from sessions_masker import masker
from sessions_model import monitor

URL = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/"
MODELS = {"monitor": (monitor, "readings", 6, ["unusual", "state"]), "masker": (masker, "frames", 16, ["speech"])}

def ask(model, x, **parameters):
    _, name, _, outputs = MODELS[model]
    body = {"parameters": parameters,
            "inputs": [{"name": name, "datatype": "FP32", "shape": list(x.shape), "data": x.flatten().tolist()}]}
    request = urllib.request.Request(URL + model + "/infer", json.dumps(body).encode())
    answer = json.load(urllib.request.urlopen(request))
    if sorted(o["name"] for o in answer["outputs"]) != sorted(outputs):
        sys.exit(f"outputs {answer['outputs']}")
    return {o["name"]: torch.tensor(o["data"]).reshape(o["shape"]) for o in answer["outputs"]}

def session(seed):
    """The largest difference over all parts of one session."""
    model = "masker" if seed % 3 == 0 else "monitor"
    module, _, width, outputs = MODELS[model]
    draw = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1 + seed % 3, draw.randint(1, 60), width, generator=generator)
    steps, at, number, worst = x.shape[1], 0, 0, 0.0
    while at < steps:
        n = draw.randint(1, steps - at)
        got = ask(model, x[:, at : at + n], sequence_id=f"s{seed}" if seed % 2 else seed + 1,
                  sequence_start=at == 0, sequence_end=at + n == steps, sequence_step=number)
        with torch.no_grad():
            right = module(x[:, : at + n])
        for name, of_whole in zip(outputs, right if isinstance(right, tuple) else (right,)):
            of_part = of_whole if name == "state" else of_whole[:, at:]
            worst = max(worst, (got[name] - of_part).abs().max().item())
        at, number = at + n, number + 1
    return worst

with ThreadPoolExecutor(16) as pool:
    worst = max(pool.map(session, range(120)))
print("120 sessions, largest difference from PyTorch:", worst)
names = [tensor["name"] for tensor in json.load(urllib.request.urlopen(URL + "monitor"))["inputs"]]
config = json.load(urllib.request.urlopen(URL + "monitor/config"))
sys.exit(worst > 1e-5 or names != ["readings"] or
         config["sequence_batching"]["max_sequence_idle_microseconds"] != 60000000)
END
HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not PyTorch's"
cat compare.log
metrics=$(curl -s "http://127.0.0.1:$metrics_port/metrics")
grep -q '^cellbatch_sessions_active 0$' <<<"$metrics" || fail "sessions are left"
grep -q '^cellbatch_session_bytes 0$' <<<"$metrics" || fail "memory of sessions is left"

"$root/$OUT/cellbatch-load" --target "127.0.0.1:$grpc_port" --model monitor --concurrency 16 --sequence-length 5 \
    --requests 400 --warmup 0 --cooldown 0 --lengths uniform:1:9 >load.log 2>&1 || fail "the load of sessions failed"
metrics=$(curl -s "http://127.0.0.1:$metrics_port/metrics")
begun=$(sed -n 's/^cellbatch_sessions_total //p' <<<"$metrics")
[ "$begun" -ge 200 ] || fail "$begun sessions have begun"
[ "$begun" -le 240 ] || fail "$begun sessions have begun"

bash sessions_curl.sh >curl.log 2>&1 || fail "curl failed"
grep -q '"name":"unusual"' curl.log || fail "curl was not answered"
bash sessions_curl.sh | grep -q "session '7' has begun already" || fail "a session begins twice"

ask_with_tritonclient sessions_ask.py '^3 steps: \[\['
last=$(tail -n 1 ask-py.log 2>/dev/null | sed 's/^3 steps: //')
ask_with_tritonclient sessions_move.py '^\[\['
[ ! -e ask-py.log ] || [ "$(tail -n 1 ask-py.log)" = "$last" ] ||
    fail "a session that has moved answers otherwise"
stop_server
