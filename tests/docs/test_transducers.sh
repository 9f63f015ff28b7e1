#!/bin/bash
# Runs the blocks of docs/transducers.md and compares what the server hears in random frames, many requests at a time,
# with the greedy search through PyTorch's own modules, also of recordings in parts, and with one that follows four hypotheses. Needs a Python with
# torch; the block for tritonclient runs where that is installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/transducers.md hearer_model.py hearer_serve.sh hearer_ask.py
"$torch" hearer_model.py >export.log 2>&1 || fail "the export failed"
[ -s my-models/hearer/1/joiner.onnx ] || fail "no model file after the export"
sed 's/^build/exec build/' hearer_serve.sh >serve-exec.sh
mkdir my-models/wide && cp -r my-models/hearer/1 my-models/hearer/letters.txt my-models/wide/
sed 's/^max-symbols.*/max-symbols: 1\nbeam: 4/' my-models/hearer/config.yaml >my-models/wide/config.yaml
mkdir my-models/spoken && cp -r my-models/hearer/1 my-models/hearer/letters.txt my-models/spoken/
sed '$ a states: recurrent' my-models/hearer/config.yaml >my-models/spoken/config.yaml
start_server bash serve-exec.sh

cat >compare.py <<'END'
import concurrent.futures, functools, json, math, os, random, sys, urllib.request
import torch
from hearer_model import BANDS, HIDDEN, LETTERS, encoder, joiner, predictor


def ask(frames, model="hearer", **parameters):
    body = {"parameters": parameters, "inputs": [{"name": "frames", "datatype": "FP32", "shape": [1, *frames.shape], "data": frames.flatten().tolist()}]}
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/{model}/infer"
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))
    return {output["name"]: output["data"] for output in answer["outputs"]}


def ask_in_parts(numbered):
    """Text and scores of all parts, of which the encoder's convolution makes one frame of two."""
    number, frames = numbered
    draw, at, text, scores = random.Random(number), 0, "", []
    while at < len(frames):
        end = min(len(frames), at + draw.randint(1, 9))
        got = ask(frames[at:end], "spoken", sequence_id=f"r{number}", sequence_start=at == 0, sequence_end=end == len(frames))
        text, scores, at = text + got["token"][0], scores + got["scores"], end
    return text, scores


def search(frames):
    text, at, scores = "", [], []
    said, h, c = predictor(torch.tensor([0]), torch.zeros(1, HIDDEN), torch.zeros(1, HIDDEN))
    for t, heard in enumerate(encoder(frames[None])[0]):
        for _ in range(5):
            score, label = joiner(heard[None], said)[0].max(0)
            if label == 0:
                break
            text, at, scores = text + LETTERS[label], at + [t], scores + [score.item()]
            said, h, c = predictor(label[None], h, c)
    return text, at, scores


def search_wide(frames, width=4):
    """Of [labels, score, where each was said and its gain, what the predictor has made of them] the best."""
    beam = [((), 0.0, [], predictor(torch.tensor([0]), torch.zeros(1, HIDDEN), torch.zeros(1, HIDDEN)))]
    for t, heard in enumerate(encoder(frames[None])[0]):
        found = []
        for lane, (labels, score, way, (said, h, c)) in enumerate(beam):
            gains = torch.log_softmax(joiner(heard[None], said)[0], 0).tolist()
            found += [(-score - gain, lane, label, gain) for label, gain in enumerate(gains)]
        next_beam = {}
        for score, lane, label, gain in sorted(found)[:width]:
            labels, _, way, (said, h, c) = beam[lane]
            longer = labels + (label,) if label else labels
            if longer in next_beam:
                best = next_beam[longer]
                best[1] += math.log1p(math.exp(-score - best[1]))
            elif label:
                next_beam[longer] = [longer, -score, [*way, (t, gain)], predictor(torch.tensor([label]), h, c)]
            else:
                next_beam[longer] = [labels, -score, way, (said, h, c)]
        beam = list(next_beam.values())
    labels, _, way, _ = max(beam, key=lambda one: one[1] / (len(one[0]) + 1))
    return "".join(LETTERS[label] for label in labels), [t for t, _ in way], [gain for _, gain in way]


torch.manual_seed(9)
torch.set_num_threads(1)
sounds = [torch.randn(n, BANDS) for n in (1, 2, 3, 5, 17, 40, 64, 99, 120, 200) for _ in range(3)]
with concurrent.futures.ThreadPoolExecutor(8) as pool, torch.no_grad():
    said, others = 0, 0
    for frames, got in zip(sounds, pool.map(functools.partial(ask, model="wide"), sounds), strict=True):
        text, at, scores = search_wide(frames)
        if got["token"] != [text] or got["steps"] != at or got["lengths"] != [len(text)]:
            sys.exit(f"with a beam {got}, wanted {text!r} at {at}")
        if any(abs(a - b) > 1e-4 for a, b in zip(got["scores"], scores, strict=True)):
            sys.exit(f"with a beam scores {got['scores']}, wanted {scores}")
        others += text != search_wide(frames, 1)[0]
    if others < 5:
        sys.exit(f"{others} of {len(sounds)} are others with a beam: it shows little")
    for frames, got in zip(sounds, pool.map(ask, sounds), strict=True):
        text, at, scores = search(frames)
        if got["token"] != [text] or got["steps"] != at or got["lengths"] != [len(text)]:
            sys.exit(f"{got}, wanted {text!r} at {at}")
        if any(abs(a - b) > 1e-3 * (1 + abs(b)) for a, b in zip(got["scores"], scores, strict=True)):
            sys.exit(f"scores {got['scores']}, wanted {scores}")
        said += len(text)
    for frames, (text, scores) in zip(sounds, pool.map(ask_in_parts, enumerate(sounds)), strict=True):
        whole = ask(frames)
        if whole["token"] != [text] or whole["scores"] != scores:
            sys.exit(f"in parts {text!r} {scores}, as a whole {whole}")
    frames = sum((len(sound) + 1) // 2 for sound in sounds)
    if not frames / 8 < said < 4 * frames:
        sys.exit(f"{said} letters in {frames} frames: the search shows little")
END
HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not those of the search through PyTorch"
ask_with_tritonclient hearer_ask.py "^.* at \[[ 0-9]*"
stop_server
