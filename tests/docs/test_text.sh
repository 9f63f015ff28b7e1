#!/bin/bash
# Runs the blocks of docs/text.md and compares the server's tags of random sentences, many lengths in one
# request, with PyTorch's, sentence by sentence. Then a model that answers the ids that it is asked: texts go through
# a file of SentencePiece's and come back as SentencePiece puts them together. Needs a Python with torch; the block for tritonclient
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

cat >echo_model.py <<'END'
import pathlib, torch


class Echo(torch.nn.Module):
    def __init__(self, words):
        super().__init__()
        self.chosen = torch.nn.Embedding.from_pretrained(100 * torch.eye(words))
        self.embedding = torch.nn.Embedding(words, 8)
        self.gru = torch.nn.GRU(8, 8, batch_first=True)
        self.linear = torch.nn.Linear(8, words)

    def forward(self, text):
        return (self.chosen(text) + self.linear(self.gru(self.embedding(text))[0])).argmax(2)


folder = pathlib.Path("my-models/echo/1")
folder.mkdir(parents=True)
(folder.parent / "config.yaml").write_text("vocabularies: [text=sentencepiece:bytes.model, again=sentencepiece:bytes.model]\n")
torch.onnx.export(Echo(700), torch.zeros(2, 5, dtype=torch.int64), str(folder / "model.onnx"), input_names=["text"],
                  output_names=["again"], dynamic_axes={name: {0: "batch", 1: "time"} for name in ["text", "again"]})
END
cat >echo.py <<'END'
import json, os, sys, urllib.request

cases = []
for line in open(sys.argv[1], encoding="ascii"):
    text, ids, again = line.rstrip("\n").split("\t")
    try:
        text = bytes.fromhex(text).decode()
    except UnicodeDecodeError:
        continue  # JSON has none
    if text and ids and "\0" not in text:  # which the server's JSON has none of
        cases.append((text, bytes.fromhex(again).decode()))
if len(cases) < 100:
    sys.exit(f"{len(cases)} cases")
body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [len(cases)], "data": [text for text, _ in cases]}]}
url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/echo/infer"
answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))
for (text, wanted), got in zip(cases, answer["outputs"][0]["data"], strict=True):
    if got != wanted:
        sys.exit(f"{text!r}: {got!r}, wanted {wanted!r}")
END
"$torch" echo_model.py >echo-export.log 2>&1 || fail "the export of a model that answers its ids failed"
cp "$root/tests/data/sentencepiece/bytes.model" my-models/echo/
start_server bash serve-exec.sh
HTTP_PORT=$http_port "$torch" echo.py "$root/tests/data/sentencepiece/bytes.tsv" >echo.log 2>&1 || fail "the texts are not SentencePiece's"
stop_server
