#!/bin/bash
# Runs the blocks of docs/trees.md and compares the server's answers, over trees of many shapes in one
# run, with PyTorch's, tree by tree. Needs a Python with torch; the block for tritonclient runs where
# that is installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/trees.md tree_model.py tree_serve.sh tree_ask.py tree_ask.sh
"$torch" tree_model.py >export.log 2>&1 || fail "the export failed"
[ -s my-models/sentiment/1/node.onnx ] || fail "no model file after the export"
sed 's/^build/exec build/' tree_serve.sh >serve-exec.sh
start_server bash serve-exec.sh

# Random forests, many at a time, must answer as PyTorch does node by node.
cat >compare.py <<'END'
import json, os, random, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
import torch
from tree_model import leaf, node, root

def draw(seed):
    rng = random.Random(seed)
    words = [rng.randrange(1000) for _ in range(rng.randint(1, 30))]
    open_roots, children = list(range(len(words))), []
    while len(open_roots) > 1 and rng.random() < 0.97:
        a = open_roots.pop(rng.randrange(len(open_roots)))
        b = open_roots.pop(rng.randrange(len(open_roots)))
        open_roots.append(len(words) + len(children))
        children.append((a, b))
    return words, children, sorted(open_roots)

def ask(forest):
    words, children, _ = forest
    body = {"inputs": [{"name": "word", "datatype": "INT64", "shape": [len(words)], "data": words},
                       {"name": "children", "datatype": "INT64", "shape": [len(children), 2],
                        "data": [c for pair in children for c in pair]}]}
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/sentiment/infer"
    request = urllib.request.Request(url, json.dumps(body).encode())
    answer = json.load(urllib.request.urlopen(request))["outputs"][0]
    return torch.tensor(answer["data"]).reshape(answer["shape"])

def wanted(forest):
    words, children, roots = forest
    values = [leaf(torch.tensor([word])) for word in words]
    for a, b in children:
        values.append(node(*values[a], *values[b]))
    return torch.cat([root(values[r][0]) for r in roots])

with torch.no_grad(), ThreadPoolExecutor(16) as pool:
    forests = [draw(seed) for seed in range(200)]
    error = 0.0
    for forest, got in zip(forests, pool.map(ask, forests)):
        right = wanted(forest)
        if got.shape != right.shape:
            sys.exit(f"shape {list(got.shape)}, wanted {list(right.shape)}")
        error = max(error, (got - right).abs().max().item())
print("200 forests, largest difference from PyTorch:", error)
sys.exit(error > 1e-4)
END
HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not PyTorch's"
cat compare.log

bash tree_ask.sh >ask-sh.log 2>&1 || fail "the curl block failed"
grep -q '"scores"' ask-sh.log || fail "the curl block printed something else"

ask_with_tritonclient tree_ask.py '^\[\[0\.'
stop_server
