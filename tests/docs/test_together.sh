#!/bin/bash
# The models of quickstart.md, trees.md and decoders.md in one server, asked at the same time: chains
# of 1 to 330 steps, trees of real parses where CELLBATCH_DATA is given, answers that end at different
# steps. Each must be what PyTorch gives for that request alone. Then two models with the same cell,
# one request of each at a time: they must share batches. Needs a Python with torch.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/quickstart.md model.py export.py serve.sh
for block in docs/trees.md:tree_model.py docs/decoders.md:speller_model.py; do
    write_block "${block%:*}" "${block#*:}"
done
for script in export.py tree_model.py speller_model.py; do
    "$torch" "$script" >"$script.log" 2>&1 || fail "the export of $script failed"
done
cp -r my-models/tagger my-models/twin
sed 's/^build/exec build/' serve.sh >serve-exec.sh
start_server bash serve-exec.sh

cat >together.py <<'END'
import json, os, random, sys, threading, urllib.request
from concurrent.futures import ThreadPoolExecutor
import torch
import model as tagger, speller_model as speller, tree_model as tree

def post(name, inputs):
    body = {"inputs": [{"name": n, "datatype": "INT64", "shape": s, "data": d} for n, s, d in inputs]}
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/{name}/infer"
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))
    return {o["name"]: torch.tensor(o["data"]).reshape(o["shape"]) for o in answer["outputs"]}

def parses():
    folder = os.environ.get("CELLBATCH_DATA")
    if folder:
        with open(folder + "/trees/sst_dev.shapes") as file:
            return file.read().split()
    rng = random.Random(7)
    def one(leaves):
        if leaves == 1:
            return "S"
        left = rng.randint(1, leaves - 1)
        return one(left) + one(leaves - left) + "R"
    return [one(rng.randint(1, 40)) for _ in range(200)]

def chain(rng):
    tokens = [rng.randrange(1000) for _ in range(rng.choice((rng.randint(1, 40), rng.randint(1, 330))))]
    got = post("tagger", [("tokens", [1, len(tokens)], tokens)])["tags"]
    return got, tagger.model(torch.tensor([tokens]))

def tree_of(shape, rng):
    words, children, stack = [], [], []
    for letter in shape:
        if letter == "S":
            stack.append(("leaf", len(words)))
            words.append(rng.randrange(1000))
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(("node", len(children)))
            children.append((left, right))
    number = lambda n: n[1] if n[0] == "leaf" else len(words) + n[1]
    pairs = [number(c) for pair in children for c in pair]
    got = post("sentiment", [("word", [len(words)], words), ("children", [len(children), 2], pairs)])
    values = {}
    for i, word in enumerate(words):
        values["leaf", i] = tree.leaf(torch.tensor([word]))
    for i, (left, right) in enumerate(children):
        values["node", i] = tree.node(*values[left], *values[right])
    return got["scores"], tree.root(values[stack[0]][0])

def answer(rng):
    letters = [rng.randrange(speller.LETTERS) for _ in range(rng.randint(1, 40))]
    got = post("speller", [("letters", [1, len(letters)], letters)])
    h, token = speller.encoder(torch.tensor([letters])), torch.tensor([speller.START])
    ids, rows = [], [torch.zeros(0, speller.SOUNDS)]
    while len(ids) < 30:
        token, h, logits = speller.step(token, h)
        if token.item() == speller.END:
            break
        ids.append(token.item())
        rows.append(logits)
    if got["token"].tolist() != [ids]:
        sys.exit(f"{letters}: {got['token'].tolist()}, wanted {ids}")
    return got["logits"][0], torch.cat(rows)

def one(seed):
    rng = random.Random(seed)
    with torch.no_grad():
        if seed % 3 == 0:
            got, right = chain(rng)
        elif seed % 3 == 1:
            got, right = tree_of(rng.choice(shapes), rng)
        else:
            got, right = answer(rng)
    if got.shape != right.shape:
        sys.exit(f"request {seed}: shape {list(got.shape)}, wanted {list(right.shape)}")
    return (got - right).abs().max().item() if got.numel() else 0.0

def metric(name):
    text = urllib.request.urlopen(f"http://127.0.0.1:{os.environ['METRICS_PORT']}/metrics").read().decode()
    lines = [l for l in text.splitlines() if l.startswith(f'cellbatch_cell_{name}{{cell="tagger/lstm"')]
    assert len(lines) == 1 and 'cell="twin/' not in text, "two types for one cell"
    return float(lines[0].split()[-1])

shapes = parses()
with ThreadPoolExecutor(32) as pool:
    error = max(pool.map(one, range(600)))
print("600 requests of three kinds, largest difference from PyTorch:", error)
if error > 1e-4:
    sys.exit(1)

before = metric("batch_rows_sum"), metric("batch_rows_count")
def alone(name):
    for _ in range(40):
        post(name, [("tokens", [1, 330], [5] * 330)])
threads = [threading.Thread(target=alone, args=(name,)) for name in ("tagger", "twin")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
rows, batches = metric("batch_rows_sum") - before[0], metric("batch_rows_count") - before[1]
print(f"two models, one request each at a time: {rows:.0f} rows in {batches:.0f} batches")
# Each on a device of its own they share nothing but the type.
n_devices = int(os.environ.get("CELLBATCH_DEVICE", "cpu:1").rpartition(":")[2])
sys.exit(rows <= batches and n_devices == 1)
END
HTTP_PORT=$http_port METRICS_PORT=$metrics_port "$torch" together.py >together.log 2>&1 ||
    fail "the answers are not PyTorch's"
cat together.log
stop_server
