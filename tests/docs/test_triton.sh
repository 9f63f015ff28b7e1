#!/bin/bash
# Runs the blocks of docs/triton.md and compares sequences in random parts, many at once, with what
# PyTorch says of the whole. Needs a Python with torch; the block for tritonclient runs where that is
# installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/triton.md triton_model.py triton_config.sh triton_ask.py
"$torch" triton_model.py >export.log 2>&1 || fail "the export failed"
[ -s my-models/pump/1/pump.onnx ] || fail "no model file after the export"
sed 's/^build\(.*repository\)/exec build\1/' triton_config.sh >serve-exec.sh
start_server bash serve-exec.sh
grep -q 'state   c0 goes on from cn' server.log || fail "--check-model does not list the states"

cat >compare.py <<'END'
import json, os, random, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
import torch
from triton_model import pump

URL = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/pump"

def ask(readings, **parameters):
    body = {"parameters": parameters,
            "inputs": [{"name": "readings", "datatype": "FP32", "shape": list(readings.shape),
                        "data": readings.flatten().tolist()}]}
    answer = json.load(urllib.request.urlopen(urllib.request.Request(URL + "/infer", json.dumps(body).encode())))
    if [o["name"] for o in answer["outputs"]] != ["unusual"]:
        sys.exit(f"outputs {answer['outputs']}")
    return torch.tensor(answer["outputs"][0]["data"]).reshape(answer["outputs"][0]["shape"])

def session(seed):
    """The largest difference over all parts of one session."""
    draw = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    readings = torch.randn(1 + seed % 3, draw.randint(1, 40), 6, generator=generator)
    steps, at, got = readings.shape[1], 0, []
    while at < steps:
        n = draw.randint(1, steps - at)
        got.append(ask(readings[:, at : at + n], sequence_id=seed + 1, sequence_start=at == 0,
                       sequence_end=at + n == steps))
        at += n
    state = torch.zeros(len(readings), 2, 64)
    with torch.no_grad():
        return (torch.cat(got, 1) - pump(readings, state, state)[0]).abs().max().item()

with ThreadPoolExecutor(16) as pool:
    worst = max(pool.map(session, range(60)))
print("60 sessions, largest difference from PyTorch:", worst)
names = [tensor["name"] for tensor in json.load(urllib.request.urlopen(URL))["inputs"]]
sys.exit(worst > 1e-5 or names != ["readings"])
END
HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not PyTorch's"
cat compare.log
ask_with_tritonclient triton_ask.py '^8 readings: \['
stop_server

sed -i 's/-1, 6/-1, 7/' my-models/pump/config.pbtxt
"$root/$OUT/cellbatchd" --check-model my-models/pump/1/pump.onnx >check.log 2>&1 &&
    fail "sizes that the file has not are accepted"
grep -q "readings" check.log || fail "nobody says which input has other sizes"
