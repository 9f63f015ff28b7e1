#!/bin/bash
# Runs the blocks of docs/quickstart.md and compares the server's answer with PyTorch's. Needs a
# Python with torch; the block for tritonclient runs where that is installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/quickstart.md model.py export.py ask.py serve.sh ask.sh
"$torch" export.py >export.log 2>&1 || fail "the export failed"
[ -s my-models/tagger/1/model.onnx ] || fail "no model file after the export"
sed 's/^build/exec build/' serve.sh >serve-exec.sh
start_server bash serve-exec.sh

# The answer to the request of ask.sh must be PyTorch's.
cat >compare.py <<'END'
import json, re, sys, urllib.request
import torch
from model import model

example = open("ask.sh").read()
body = re.search(r"-d '(.*)'", example, re.S).group(1)
request = urllib.request.Request(re.search(r"http://\S+", example).group(0), body.encode())
answer = json.load(urllib.request.urlopen(request))["outputs"][0]
got = torch.tensor(answer["data"]).reshape(answer["shape"])
wanted = model(torch.tensor([json.loads(body)["inputs"][0]["data"]]))
error = (got - wanted).abs().max().item()
print("largest difference from PyTorch:", error)
sys.exit(error > 1e-5 or got.shape != wanted.shape)
END
"$torch" compare.py >compare.log 2>&1 || fail "the answer is not PyTorch's"
cat compare.log

bash ask.sh >ask-sh.log 2>&1 || fail "the curl block failed"
grep -q '"tags"' ask-sh.log || fail "the curl block printed something else"

ask_with_tritonclient ask.py '^\[\[\[0\.'
stop_server
