#!/usr/bin/env python3
"""Trains, measures and exports `langid`, the demo model of models/langid.

A byte-level LSTM that tells English from German. The text is fed as its raw
UTF-8 bytes, one byte a step, and the answer is read at the last step:

    tokens int64 [batch, time], values 0..255
      -> Embedding(256, 64) -> LSTM(64, 128) -> last step
      -> Linear(128, 2) -> Softmax -> probabilities float32 [batch, 2]

Training asks for the language after *every* byte of a span, not only after the
last one. That is what makes two words enough for an answer, and it needs no
packing: padded positions are simply left out of the loss. The exported graph is
for unpadded sequences and looks at the last step alone.

The texts come from the OpenNMT corpus, which is tokenised; the tokenising is
undone first, because clients send sentences as people write them.

The numbers of one machine repeat exactly (fixed seed, one thread); another
machine may round differently and end with slightly different weights.
"""

import argparse
import json
import math
import os
import pathlib
import random
import re
import sys
import time

import numpy
import torch
from torch import nn

SEED = 20240229
LABELS = ["English", "German"]
SIDES = ["src", "tgt"]  # the corpus' names for English and German, in label order

EMBEDDING = 64
HIDDEN = 128

EPOCHS = 8
BATCH_ROWS = 64
POOL_BATCHES = 32  # spans are sorted by length within pools of this many batches
SPAN_BYTES_MAX = 256
LEARNING_RATE = 3e-3
GRADIENT_NORM_MAX = 1.0
LABEL_SMOOTHING = 0.01  # keeps probabilities off exact 0 and 1, where tests see nothing

HELD_OUT_ACCURACY_MIN = 0.99

ENTITIES = [
    ("&quot;", '"'),
    ("&apos;", "'"),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&#91;", "["),
    ("&#93;", "]"),
    ("&#124;", "|"),
    ("&amp;", "&"),  # last, so that nothing is decoded twice
]


# ---- text ---------------------------------------------------------------------------------


def detokenise(line):
    """Turns a line of the corpus back into a sentence as a person would type it."""
    for entity, character in ENTITIES:
        line = line.replace(entity, character)
    line = re.sub(r"[\x00-\x1f\x7f-\x9f\u00ad\ufffd]", " ", line)
    line = re.sub(r"\s+", " ", line).strip()
    line = join_quotes(line)
    line = re.sub(r" ([,.;:!?%)\]}]|\.\.+)(?=\s|$|[,.;:!?\"')])", r"\1", line)
    line = re.sub(r"([(\[{]) ", r"\1", line)
    line = re.sub(r" ' ?(s|t|re|ve|ll|m|d)\b", r"'\1", line)
    line = re.sub(r"(?<=s) '(?= )", "'", line)
    return line


def join_quotes(line):
    """Odd double quotes open and lean right, even ones close and lean left."""
    pieces = line.split('"')
    if len(pieces) % 2 == 0:  # an unpaired quote: nobody can tell which way it leans
        return line
    for i in range(1, len(pieces), 2):
        pieces[i] = pieces[i].strip()
    return '"'.join(pieces)


def check_detokenise():
    for given, wanted in [
        ("It works , does it not ?", "It works, does it not?"),
        ("Parliament &apos;s role isn &apos;t clear .", "Parliament's role isn't clear."),
        ("the members &apos; rights", "the members' rights"),
        ("it ' s own terrace", "it's own terrace"),
        ("&quot; Ja &quot; , sagte sie .", '"Ja", sagte sie.'),
        ("der &quot; Kreuzritter . &quot;", 'der "Kreuzritter."'),
        ("Bed &amp; Breakfast &#91; 1 &#93;", "Bed & Breakfast [1]"),
        ("a &amp;lt; b", "a &lt; b"),
        ("50 % ( fast alle )", "50% (fast alle)"),
        ("und so weiter ...", "und so weiter..."),
        ("Es kostet 3 .5 Euro", "Es kostet 3 .5 Euro"),
        ("ein \u00adTest\t!", "ein Test!"),
    ]:
        got = detokenise(given)
        assert got == wanted, f"{given!r} became {got!r}, wanted {wanted!r}"


def read_side(data, part, label):
    path = data / "text" / f"opennmt_{SIDES[label]}-{part}.txt"
    lines = (detokenise(line) for line in path.read_text(encoding="utf-8").split("\n"))
    return [(line, label) for line in lines if line]


def read_part(data, part):
    return [pair for label in range(len(LABELS)) for pair in read_side(data, part, label)]


def random_span(text, rng):
    """A whole sentence, or some neighbouring words of one, now and then disguised."""
    if rng.random() < 0.7:
        words = text.split(" ")
        count = min(len(words), 1 + int(rng.expovariate(1 / 5)))
        start = 0 if rng.random() < 0.3 else rng.randrange(len(words) - count + 1)
        text = " ".join(words[start : start + count])
    if rng.random() < 0.3:
        text = text.rstrip(".,;:!? \"'") or text
    if rng.random() < 0.2:
        text = text.lower()
    elif rng.random() < 0.05:
        text = text.upper()
    elif rng.random() < 0.2:
        text = text[0].upper() + text[1:]
    return text.encode("utf-8")[:SPAN_BYTES_MAX]


# ---- model --------------------------------------------------------------------------------


class LangId(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, EMBEDDING)
        self.lstm = nn.LSTM(EMBEDDING, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, len(LABELS))

    def logits_each_step(self, tokens):
        """[batch, time] -> [batch, time, labels]"""
        out, _ = self.lstm(self.embedding(tokens))
        return self.head(out)

    def forward(self, tokens):
        out, _ = self.lstm(self.embedding(tokens))
        return torch.softmax(self.head(out[:, -1, :]), dim=1)


def tokens_of(text):
    return torch.tensor([list(text.encode("utf-8"))], dtype=torch.int64)


# ---- training -----------------------------------------------------------------------------


def batches(pairs, rng):
    """One epoch of (tokens, labels, valid), rows of similar length together."""
    spans = [(random_span(text, rng), label) for text, label in pairs]
    rng.shuffle(spans)
    pool_rows = BATCH_ROWS * POOL_BATCHES
    result = []
    for at in range(0, len(spans), pool_rows):
        pool = sorted(spans[at : at + pool_rows], key=lambda span: len(span[0]))
        result += [pool[i : i + BATCH_ROWS] for i in range(0, len(pool), BATCH_ROWS)]
    rng.shuffle(result)
    return [pad(rows) for rows in result]


def pad(rows):
    time_max = max(len(span) for span, _ in rows)
    tokens = torch.zeros(len(rows), time_max, dtype=torch.int64)
    valid = torch.zeros(len(rows), time_max, dtype=torch.bool)
    for i, (span, _) in enumerate(rows):
        tokens[i, : len(span)] = torch.tensor(list(span))
        valid[i, : len(span)] = True
    return tokens, torch.tensor([label for _, label in rows]), valid


def train(pairs, epochs, rng):
    model = LangId()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    loss_of = nn.CrossEntropyLoss(label_smoothing=LABEL_SMOOTHING)
    for epoch in range(epochs):
        start, total = time.monotonic(), 0.0
        epoch_batches = batches(pairs, rng)
        for i, (tokens, labels, valid) in enumerate(epoch_batches):
            done = (epoch + i / len(epoch_batches)) / epochs
            optimizer.param_groups[0]["lr"] = LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * done))
            logits = model.logits_each_step(tokens)[valid]
            loss = loss_of(logits, labels[:, None].expand_as(valid)[valid])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_NORM_MAX)
            optimizer.step()
            total += loss.item()
        print(
            f"epoch {epoch + 1}/{epochs}: loss {total / len(epoch_batches):.4f}, "
            f"{time.monotonic() - start:.0f} s",
            flush=True,
        )
    return model.eval()


def count_right(model, pairs):
    """Right answers over texts, batched by equal byte length so that nothing is padded."""
    by_length = {}
    for text, label in pairs:
        raw = text.encode("utf-8")
        by_length.setdefault(len(raw), []).append((list(raw), label))
    right = 0
    for rows in by_length.values():
        with torch.no_grad():
            answers = model(torch.tensor([raw for raw, _ in rows])).argmax(dim=1)
        right += int((answers == torch.tensor([label for _, label in rows])).sum())
    return right


def measure(model, pairs):
    """Prints held-out accuracy on whole sentences and on their first words."""
    right = count_right(model, pairs)
    print(f"held out, whole sentences: {right}/{len(pairs)} = {right / len(pairs):.4%}")
    for words in (1, 2, 3, 5, 8):
        prefixes = [(" ".join(text.split(" ")[:words]), label) for text, label in pairs]
        prefix_right = count_right(model, prefixes)
        print(f"held out, first {words} word(s): {prefix_right / len(prefixes):.4%}")
    return right / len(pairs)


# ---- what goes into the repository --------------------------------------------------------


def export(model, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        model,
        (tokens_of("Guten Morgen"),),
        str(path),
        input_names=["tokens"],
        output_names=["probabilities"],
        dynamic_axes={
            "tokens": {0: "batch", 1: "time"},
            "probabilities": {0: "batch"},
        },
        opset_version=17,
    )
    print(f"wrote {path.name}: {path.stat().st_size} bytes")


def fill_sentences(model, path):
    """Writes the probabilities of each line's text, one sequence at a time, into the file."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    right = 0
    for row in rows:
        with torch.no_grad():
            probabilities = model(tokens_of(row["text"]))[0]
        row["probabilities"] = [float(f"{p:.9g}") for p in probabilities.tolist()]
        right += LABELS[int(probabilities.argmax())] == row["label"]
        if LABELS[int(probabilities.argmax())] != row["label"]:
            print(f"  mistaken: {row['text']!r} {row['probabilities']}")
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
    print(f"wrote {path.name}: {len(rows)} sentences, {right} labelled right")


def check_with_onnxruntime(path, sentences):
    """Compares the exported file against the stored numbers, where onnxruntime is installed."""
    try:
        import onnxruntime
    except ImportError:
        print("onnxruntime is not installed: exported file not checked")
        return
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = 0.0
    for line in sentences.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        tokens = numpy.array([list(row["text"].encode("utf-8"))], dtype=numpy.int64)
        got = session.run(None, {"tokens": tokens})[0][0]
        worst = max(worst, float(numpy.abs(got - numpy.array(row["probabilities"])).max()))
    print(f"largest difference to onnxruntime {onnxruntime.__version__}: {worst:.2e}")
    assert worst < 1e-5, "the exported file computes something else"


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=os.environ.get("CELLBATCH_DATA"), help="data folder")
    parser.add_argument("--out", type=pathlib.Path, default=root / "models" / "langid")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    check_detokenise()
    if not options.data:
        sys.exit("no data: give --data or set CELLBATCH_DATA")
    data = pathlib.Path(options.data)

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    held_out = read_part(data, "val")
    model = train(read_part(data, "train"), options.epochs, random.Random(SEED))

    accuracy = measure(model, held_out)
    export(model, options.out / "1" / "model.onnx")
    (options.out / "labels.txt").write_text("".join(label + "\n" for label in LABELS))
    fill_sentences(model, options.out / "sentences.jsonl")
    check_with_onnxruntime(options.out / "1" / "model.onnx", options.out / "sentences.jsonl")
    if accuracy <= HELD_OUT_ACCURACY_MIN:
        sys.exit(f"held-out accuracy {accuracy:.4%} is not above {HELD_OUT_ACCURACY_MIN:.0%}")


if __name__ == "__main__":
    main()
