#!/bin/bash
# Runs the blocks of docs/bands.md and compares the server's answers, requests of many lengths and
# several rows in one run, with PyTorch's. Needs a Python with torch; the block for tritonclient runs
# where that is installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/bands.md bands_model.py bands_serve.sh bands_ask.py
"$torch" bands_model.py >export.log 2>&1 || fail "the export failed"
for name in denoiser tagger; do
    [ -s my-models/$name/1/model.onnx ] || fail "no model file of $name after the export"
done
sed 's/^build/exec build/' bands_serve.sh >serve-exec.sh
start_server bash serve-exec.sh

cat >compare.py <<'END'
import json, os, random, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
import torch
from bands_model import denoiser, tagger

MODELS = {"denoiser": (denoiser, "frames", "FP32"), "tagger": (tagger, "words", "INT64")}

def draw(seed):
    rng = random.Random(seed)
    name = list(MODELS)[seed % 2]
    torch.manual_seed(seed)
    batch, steps = rng.randint(1, 3), rng.randint(1, 60)
    return name, torch.randn(batch, 1, steps, 65) if name == "denoiser" else torch.randint(0, 128, (batch, steps, 12))

def ask(request):
    name, x = request
    body = {"inputs": [{"name": MODELS[name][1], "datatype": MODELS[name][2], "shape": list(x.shape), "data": x.flatten().tolist()}]}
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/{name}/infer"
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))
    output = answer["outputs"][0]
    return torch.tensor(output["data"]).reshape(output["shape"])

with torch.no_grad(), ThreadPoolExecutor(16) as pool:
    requests = [draw(seed) for seed in range(60)]
    worst = {name: 0.0 for name in MODELS}
    for (name, x), got in zip(requests, pool.map(ask, requests)):
        right = MODELS[name][0](x)
        if got.shape != right.shape:
            sys.exit(f"{name}: shape {list(got.shape)}, wanted {list(right.shape)}")
        worst[name] = max(worst[name], (got - right).abs().max().item())
print("60 requests, largest differences from PyTorch:", worst)
sys.exit(max(worst.values()) > 1e-5)
END
HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not PyTorch's"
cat compare.log

ask_with_tritonclient bands_ask.py '^\['
stop_server
