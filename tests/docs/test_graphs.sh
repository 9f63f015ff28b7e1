#!/bin/bash
# Runs the blocks of docs/graphs.md and compares the server's answers, over graphs of many shapes in one
# run, with PyTorch's, node by node. Needs a Python with torch; the block for tritonclient runs where
# that is installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/graphs.md graph_model.py graph_serve.sh graph_ask.py graph_ask.sh
"$torch" graph_model.py >export.log 2>&1 || fail "the export failed"
[ -s my-models/terms/1/join.onnx ] || fail "no model file after the export"
sed 's/^build/exec build/' graph_serve.sh >serve-exec.sh
start_server bash serve-exec.sh

# Random graphs, many at a time, must answer as PyTorch does node by node.
cat >compare.py <<'END'
import json, os, random, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
import torch
from graph_model import word, join, score

WORD, JOIN, SCORE = 0, 1, 2

# Made in an order in which each reads what is there, and then named in any order: per node its cell and
# the nodes that it reads.
def draw(seed):
    rng = random.Random(seed)
    made = [(WORD, ())]
    for _ in range(rng.randint(1, 60)):
        values = [n for n, (cell, _) in enumerate(made) if cell != SCORE]
        cell = rng.choice((WORD, JOIN, JOIN, JOIN, SCORE))
        made.append((cell, tuple(rng.choice(values) for _ in range((0, 2, 1)[cell]))))
    names = list(range(len(made)))
    rng.shuffle(names)
    words = {n: rng.randrange(1000) for n, (cell, _) in enumerate(made) if cell == WORD}
    return made, names, words

def ask(drawn):
    made, names, words = drawn
    cells, edges = [0] * len(made), []
    for n, (cell, reads) in enumerate(made):
        cells[names[n]] = cell
        for place, read in enumerate(reads):
            edges += [[names[read], 0, names[n], 2 * place]]
            edges += [[names[read], 1, names[n], 2 * place + 1]] if cell == JOIN else []
    random.Random(len(edges)).shuffle(edges)
    ids = [words[n] for n in sorted(words, key=lambda n: names[n])]
    body = {"inputs": [{"name": "cells", "datatype": "INT64", "shape": [len(cells)], "data": cells},
                       {"name": "edges", "datatype": "INT64", "shape": [len(edges), 4], "data": edges},
                       {"name": "word.id", "datatype": "INT64", "shape": [len(ids)], "data": ids}]}
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/terms/infer"
    request = urllib.request.Request(url, json.dumps(body).encode())
    outputs = json.load(urllib.request.urlopen(request))["outputs"]
    return {o["name"]: torch.tensor(o["data"]).reshape(o["shape"]) for o in outputs}

def wanted(drawn):
    made, names, words = drawn
    values, rows = [], {WORD: {}, JOIN: {}, SCORE: {}}
    for n, (cell, reads) in enumerate(made):
        if cell == WORD:
            values.append(word(torch.tensor([words[n]])))
        elif cell == JOIN:
            values.append(join(*values[reads[0]], *values[reads[1]]))
        else:
            values.append((score(values[reads[0]][0]),))
        rows[cell][names[n]] = values[-1][0]
    return {c: [rows[c][n] for n in sorted(rows[c])] for c in rows}

with torch.no_grad(), ThreadPoolExecutor(16) as pool:
    graphs = [draw(seed) for seed in range(200)]
    error = 0.0
    for graph, got in zip(graphs, pool.map(ask, graphs)):
        right = wanted(graph)
        for cell, name in ((WORD, "word.h"), (JOIN, "join.h"), (SCORE, "score.scores")):
            if got[name].shape[0] != len(right[cell]):
                sys.exit(f"{name}: {got[name].shape[0]} rows, wanted {len(right[cell])}")
            if right[cell]:
                error = max(error, (got[name] - torch.cat(right[cell])).abs().max().item())
print("200 graphs, largest difference from PyTorch:", error)
sys.exit(error > 1e-4)
END
HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not PyTorch's"
cat compare.log

bash graph_ask.sh >ask-sh.log 2>&1 || fail "the curl block failed"
grep -q '"score.scores"' ask-sh.log || fail "the curl block printed something else"

ask_with_tritonclient graph_ask.py '^\[\[0\.'
stop_server
