#!/bin/bash
# Runs the blocks of docs/ctc.md and compares the texts that the server reads from random strips with what the
# definition makes of PyTorch's own numbers. Needs a Python with torch; the block for tritonclient runs where that is
# installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/ctc.md strip_model.py strip_serve.sh strip_ask.py
"$torch" strip_model.py >export.log 2>&1 || fail "the export failed"
[ -s my-models/strip/1/model.onnx ] || fail "no model file after the export"
sed 's/^build/exec build/' strip_serve.sh >serve-exec.sh
start_server bash serve-exec.sh

cat >compare.py <<'END'
import json, os, random, sys, urllib.request
import torch
from strip_model import draw, strip

rng = random.Random(3)
right = 0
for _ in range(60):
    text = "".join(rng.choice("0123456789") for _ in range(rng.randint(0, 20)))
    columns = draw(text, rng)
    body = {"inputs": [{"name": "strip", "datatype": "FP32", "shape": [1, *columns.shape], "data": columns.flatten().tolist()}]}
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/strip/infer"
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))
    got = {output["name"]: output["data"] for output in answer["outputs"]}
    with torch.no_grad():
        best = strip(columns[None])[0].max(1)
    runs = [t for t in range(len(columns)) if best.indices[t] != 10 and (t == 0 or best.indices[t] != best.indices[t - 1])]
    wanted = "".join(str(best.indices[t].item()) for t in runs)
    if got["token"] != [wanted] or got["steps"] != runs or got["lengths"] != [len(runs)]:
        sys.exit(f"{text}: {got}, wanted {wanted} at {runs}")
    if any(abs(score - best.values[t].item()) > 1e-4 for score, t in zip(got["scores"], runs, strict=True)):
        sys.exit(f"{text}: scores {got['scores']}")
    right += got["token"] == [text]
if right < 40:
    sys.exit(f"{right} of 60 strips read rightly")
END
HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not those of PyTorch's numbers"
ask_with_tritonclient strip_ask.py '^2026 \['
stop_server
