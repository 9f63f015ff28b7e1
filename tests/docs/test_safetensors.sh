#!/bin/bash
# Runs the blocks of docs/safetensors.md and compares the server's answers with PyTorch's. Needs a Python
# with torch; where it has no safetensors, a few lines stand in for what is imported of it.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/safetensors.md sentiment_model.py sentiment_save.py sentiment_serve.sh sentiment_ask.sh \
    sentiment_check.sh
if ! "$torch" -c 'import safetensors.torch' 2>/dev/null; then
    mkdir safetensors
    cat >safetensors/torch.py <<'END'
import json, struct

def save_file(tensors, path):
    header, data = {}, b""
    for name, tensor in tensors.items():
        content = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
END
fi
"$torch" sentiment_save.py >save.log 2>&1 || fail "the file was not saved"
[ -s my-models/sentiment/1/model.safetensors ] || fail "no model file"
bash sentiment_check.sh >check.log 2>&1 || fail "the check failed"
grep -q 'output  output FP32 \[batch, 3\]' check.log || fail "the check says something else"
sed 's/^build/exec build/' sentiment_serve.sh >serve-exec.sh
start_server bash serve-exec.sh

cat >compare.py <<'END'
import json, os, random, sys, urllib.request
import torch
from sentiment_model import model

rng = random.Random(1)
url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/sentiment/infer"
worst = 0
for _ in range(20):
    shape = [rng.randint(1, 5), rng.randint(1, 30)]
    ids = [rng.randrange(1000) for _ in range(shape[0] * shape[1])]
    body = {"inputs": [{"name": "input", "datatype": "INT64", "shape": shape, "data": ids}]}
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))["outputs"][0]
    got = torch.tensor(answer["data"]).reshape(answer["shape"])
    wanted = model(torch.tensor(ids).reshape(shape))
    if answer["name"] != "output" or got.shape != wanted.shape:
        sys.exit(f"{answer['name']} {answer['shape']}")
    worst = max(worst, (got - wanted).abs().max().item())
print("largest difference from PyTorch:", worst)
sys.exit(worst > 1e-5)
END
HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not PyTorch's"
cat compare.log

bash sentiment_ask.sh >ask-sh.log 2>&1 || fail "the curl block failed"
grep -q '"name":"output","datatype":"FP32","shape":\[1,3\]' ask-sh.log || fail "the curl block printed something else"
stop_server
