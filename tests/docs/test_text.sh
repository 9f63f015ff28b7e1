#!/bin/bash
# Runs the blocks of docs/text.md and compares the server's tags of random sentences, many lengths in one
# request, with PyTorch's, sentence by sentence. Needs a Python with torch; the block for tritonclient
# runs where that is installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/text.md tagger_model.py tagger_serve.sh tagger_ask.py tagger_ask.sh
"$torch" tagger_model.py >export.log 2>&1 || fail "the export failed"
[ -s my-models/tagger/1/model.onnx ] || fail "no model file after the export"
sed 's/^build/exec build/' tagger_serve.sh >serve-exec.sh
start_server bash serve-exec.sh

cat >compare.py <<'END'
import json, os, random, sys, urllib.request
import torch
from tagger_model import TAGS, WORDS, tagger

rng = random.Random(1)
draw = lambda: " ".join(rng.choice(WORDS + ["dragon"]) for _ in range(rng.randint(1, 40)))
for _ in range(20):
    texts = [draw() for _ in range(rng.randint(1, 30))]
    body = {"inputs": [{"name": "words", "datatype": "BYTES", "shape": [len(texts)], "data": texts}]}
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/tagger/infer"
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))
    got = answer["outputs"][0]
    if got["datatype"] != "BYTES" or got["shape"] != [len(texts)]:
        sys.exit(f"{got['datatype']} {got['shape']}")
    for text, tags in zip(texts, got["data"]):
        ids = [WORDS.index(word) if word in WORDS else 0 for word in text.split()]
        wanted = " ".join(TAGS[i] for i in tagger(torch.tensor([ids]))[0].tolist())
        if tags != wanted:
            sys.exit(f"{text}: {tags}, wanted {wanted}")
END
HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not PyTorch's"

bash tagger_ask.sh >ask-sh.log 2>&1 || fail "the curl block failed"
grep -q 'article noun verb preposition article noun mark' ask-sh.log || fail "the curl block printed something else"
curl -s "http://127.0.0.1:$http_port/v2/models/tagger" >metadata.log
grep -q '"name":"words","datatype":"BYTES","shape":\[-1\]' metadata.log || fail "the metadata says something else"

ask_with_tritonclient tagger_ask.py '^article noun verb mark$'
stop_server
