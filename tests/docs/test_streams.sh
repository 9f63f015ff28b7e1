#!/bin/bash
# Runs the blocks of docs/streams.md and compares the server's answers, many streams at once, each its
# own chunks with the state that came back, with PyTorch's. Needs a Python with torch; the block for
# tritonclient runs where that is installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/streams.md streams_model.py streams_config.sh streams_ask.py
"$torch" streams_model.py >export.log 2>&1 || fail "the export failed"
for name in voice voice-8k; do
    [ -s my-models/$name/1/model.onnx ] || fail "no model file of $name after the export"
done
sed 's/^build\(.*repository\)/exec build\1/' streams_config.sh >serve-exec.sh
start_server bash serve-exec.sh

cat >compare.py <<'END'
import json, os, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
import torch
from streams_model import detector

RATES = {"voice": (16000, 128), "voice-8k": (8000, 64)}

def ask(name, tensors):
    body = {"inputs": [{"name": n, "datatype": "FP32", "shape": list(t.shape), "data": t.flatten().tolist()}
                       for n, t in tensors.items()]}
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/{name}/infer"
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))
    return {o["name"]: torch.tensor(o["data"]).reshape(o["shape"]) for o in answer["outputs"]}

def stream(seed):
    """The largest difference over all chunks of one stream, or of several in one request."""
    name = list(RATES)[seed % 2]
    rate, samples = RATES[name]
    rows, worst = 1 + seed % 3, 0.0
    generator = torch.Generator().manual_seed(seed)
    state = torch.zeros(2, rows, 64)
    for _ in range(20):
        chunk = torch.randn(rows, samples, generator=generator)
        with torch.no_grad():
            speech, after = detector(chunk, state, torch.tensor(rate))
        got = ask(name, {"chunk": chunk, "state": state})
        for output, right in (("speech", speech), ("next", after)):
            if got[output].shape != right.shape:
                sys.exit(f"{name}: {output} of shape {list(got[output].shape)}")
            worst = max(worst, (got[output] - right).abs().max().item())
        state = got["next"]
    return worst

with ThreadPoolExecutor(16) as pool:
    worst = max(pool.map(stream, range(32)))
print("32 streams of 20 chunks, largest difference from PyTorch:", worst)
sys.exit(worst > 1e-5)
END
HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not PyTorch's"
cat compare.log

# What the client sends all the same.
body='{"inputs":[{"name":"rate","datatype":"INT64","shape":[1],"data":[16000]}]}'
curl -s -d "$body" "http://127.0.0.1:$http_port/v2/models/voice/infer" | grep -q "unexpected input 'rate'\|input 'rate'" ||
    fail "a constant that a client sends is not refused by name"

ask_with_tritonclient streams_ask.py '^\[\['
stop_server
