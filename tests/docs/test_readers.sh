#!/bin/bash
# Runs the blocks of docs/readers.md and compares the server's answers, sequences of many lengths and
# several rows in one run, with PyTorch's. Needs a Python with torch; the block for tritonclient runs
# where that is installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/readers.md readers_model.py readers_serve.sh readers_ask.py
"$torch" readers_model.py >export.log 2>&1 || fail "the export failed"
for name in similarity asr bidaf; do
    [ -s my-models/$name/1/model.onnx ] || fail "no model file of $name after the export"
done
sed 's/^build/exec build/' readers_serve.sh >serve-exec.sh
start_server bash serve-exec.sh

cat >compare.py <<'END'
import json, os, random, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
import torch
from readers_model import asr, bidaf, similarity

NAMES = {"similarity": (similarity, ["query", "documents"], ["score"], 200),
         "asr": (asr, ["question", "text"], ["weights"], 200),
         "bidaf": (bidaf, ["question", "text"], ["begin", "end"], 50)}

def draw(seed):
    rng = random.Random(seed)
    name = list(NAMES)[seed % 3]
    rows = rng.randint(1, 4)
    torch.manual_seed(seed)
    first = torch.randn(1 if name == "similarity" else rows, rng.randint(1, 12), NAMES[name][3])
    return name, (first, torch.randn(rows, rng.randint(1, 30), NAMES[name][3]))

def ask(request):
    name, tensors = request
    body = {"inputs": [{"name": n, "datatype": "FP32", "shape": list(t.shape), "data": t.flatten().tolist()}
                       for n, t in zip(NAMES[name][1], tensors)]}
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/{name}/infer"
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))
    return {o["name"]: torch.tensor(o["data"]).reshape(o["shape"]) for o in answer["outputs"]}

with torch.no_grad(), ThreadPoolExecutor(16) as pool:
    requests = [draw(seed) for seed in range(150)]
    worst = {name: 0.0 for name in NAMES}
    for (name, tensors), got in zip(requests, pool.map(ask, requests)):
        model, _, outputs, _ = NAMES[name]
        wanted = model(*tensors)
        for output, right in zip(outputs, wanted if isinstance(wanted, tuple) else (wanted,)):
            if got[output].shape != right.shape:
                sys.exit(f"{name}: {output} of shape {list(got[output].shape)}, wanted {list(right.shape)}")
            worst[name] = max(worst[name], (got[output] - right).abs().max().item())
print("150 requests, largest differences from PyTorch:", worst)
sys.exit(max(worst.values()) > 1e-5)
END
HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not PyTorch's"
cat compare.log

ask_with_tritonclient readers_ask.py '^\['
stop_server
