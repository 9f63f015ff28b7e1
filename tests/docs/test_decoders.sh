#!/bin/bash
# Runs the blocks of docs/decoders.md and compares the server's answers, words of many lengths in one
# run, with PyTorch's, word by word. Needs a Python with torch; the block for tritonclient runs where
# that is installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/decoders.md speller_model.py reader_model.py speller_serve.sh speller_ask.py \
    speller_ask.sh speller_parts.py speller_parts.sh
for name in speller reader; do
    "$torch" ${name}_model.py >$name-export.log 2>&1 || fail "the export of $name failed"
    [ -s my-models/$name/1/decoder.onnx ] || fail "no model file after the export"
done
sed 's/^build/exec build/' speller_serve.sh >serve-exec.sh
start_server bash serve-exec.sh

cat >compare.py <<'END'
import json, os, random, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
import torch
import reader_model, speller_model
from speller_model import LETTERS, SOUNDS, START, END

def draw(seed):
    rng = random.Random(seed)
    steps = rng.randint(1, 40)
    return [[rng.randrange(LETTERS) for _ in range(steps)] for _ in range(rng.randint(1, 3))]

def join(parts, words):
    """Of parts of an answer, the answer: rows are those of the batch, which one row leaves out."""
    joined = {name: None for name in ("token", "logits")}
    for part in parts:
        for name in joined:
            tensor = torch.tensor(part[name]).reshape(len(words), -1, *([SOUNDS] if name == "logits" else []))
            joined[name] = tensor if joined[name] is None else torch.cat([joined[name], tensor], 1)
    return {**joined, "lengths": torch.tensor(parts[-1]["lengths"]).reshape(-1)}

def ask_in_parts(model, words):
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/{model}/generate_stream"
    body = {"letters": words if len(words) > 1 or len(words[0]) % 2 else words[0]}
    answer = urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())).read().decode()
    return join([json.loads(event.removeprefix("data: ")) for event in answer.split("\n\n") if event], words)

def ask(request):
    model, words = request
    if len(words[0]) % 3 == 0:
        return ask_in_parts(model, words)
    body = {"inputs": [{"name": "letters", "datatype": "INT64", "shape": [len(words), len(words[0])],
                        "data": [letter for word in words for letter in word]}]}
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/{model}/infer"
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))
    return {o["name"]: torch.tensor(o["data"]).reshape(o["shape"]) for o in answer["outputs"]}

def wanted(model, word):
    model = speller_model if model == "speller" else reader_model
    made = model.encoder(torch.tensor([word]))
    *memories, h = made if isinstance(made, tuple) else (made,)
    token, ids, rows = torch.tensor([START]), [], []
    while len(ids) < 30:
        token, h, logits = model.step(token, h, *memories)
        if token.item() == END:
            break
        ids.append(token.item())
        rows.append(logits)
    return ids, torch.cat(rows) if rows else torch.zeros(0, SOUNDS)

with torch.no_grad(), ThreadPoolExecutor(16) as pool:
    requests = [(("speller", "reader")[seed % 2], draw(seed)) for seed in range(400)]
    error, lengths = 0.0, set()
    for (model, words), got in zip(requests, pool.map(ask, requests)):
        right = [wanted(model, word) for word in words]
        longest = max(len(ids) for ids, _ in right)
        if list(got["token"].shape) != [len(words), longest]:
            sys.exit(f"shape {list(got['token'].shape)}, wanted {[len(words), longest]}")
        for row, (ids, logits) in enumerate(right):
            lengths.add(len(ids))
            padded = ids + [END] * (longest - len(ids))
            if got["token"][row].tolist() != padded or got["lengths"][row].item() != len(ids):
                sys.exit(f"{words[row]}: {got['token'][row].tolist()}, wanted {padded}")
            if ids:
                error = max(error, (got["logits"][row][:len(ids)] - logits).abs().max().item())
            if got["logits"][row][len(ids):].any():
                sys.exit("logits behind the end")
if len(lengths) < 8:
    sys.exit(f"too few different lengths: {sorted(lengths)}")
print(f"400 requests, {len(lengths)} lengths, largest difference from PyTorch:", error)
sys.exit(error > 1e-4)
END
HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not PyTorch's"
cat compare.log

bash speller_ask.sh >ask-sh.log 2>&1 || fail "the curl block failed"
grep -q '"lengths"' ask-sh.log || fail "the curl block printed something else"

bash speller_parts.sh >parts-sh.log 2>&1 || fail "the curl block of parts failed"
grep -q '^data: .*"lengths"' parts-sh.log || fail "the curl block of parts printed something else"

ask_with_tritonclient speller_ask.py '^\[\[[0-9]'
ask_with_tritonclient speller_parts.py '^\[\[[0-9]'
stop_server
