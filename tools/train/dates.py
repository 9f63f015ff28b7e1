#!/usr/bin/env python3
"""Trains, measures and exports `dates`, the demo model of models/dates.

A seq2seq model with attention (Bahdanau, Cho, Bengio, "Neural Machine Translation by
Jointly Learning to Align and Translate", ICLR 2015) that reads a date as people write it
and answers it as ISO 8601 does:

    the 5th of may 2019  ->  2019-05-05

Text is bytes, one a step, on both sides. Two files, as docs/decoders.md says:

    encoder:  text int64 [batch, time] -> memory [batch, time, 128], keys [batch, time, 64],
              h [batch, 96]
    decoder:  token int64 [rows], h, memory, keys -> token_next, h_next

Clients send and get strings: config.yaml says that ids are bytes.

Days from 1900 to 2099, in the forms of `forms()`, are drawn at random. A tenth of all days,
chosen by a digest, is held out: the model never sees them in any form.
"""

import argparse
import datetime
import hashlib
import json
import math
import os
import pathlib
import random
import re
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read once, by the import
import torch  # noqa: E402
from torch import nn  # noqa: E402

SEED = 20261122
SYMBOLS = 128  # ASCII
START, END = 2, 3  # as the control characters of these numbers: start and end of text

EMBEDDING = 32
ENCODER = 64  # a direction
KEYS = 64
HIDDEN = 96

BATCH_ROWS = 128
POOL_BATCHES = 32
LEARNING_RATE = 4e-3
GRADIENT_NORM_MAX = 1.0
HELD_OUT_PARTS = 10
HELD_OUT_ACCURACY_MIN = 0.99

TEST_ROWS = 10000
EXAMPLES = 300

FIRST_DAY = datetime.date(1900, 1, 1)
DAYS = (datetime.date(2099, 12, 31) - FIRST_DAY).days + 1

MONTHS = (
    "january february march april may june july august september october november december"
).split()
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = (
    "- first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
    "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()


# ---- dates as people write them ------------------------------------------------------------


def number_in_words(number):
    if number < 20:
        return ONES[number]
    return TENS[number // 10] + ("-" + ONES[number % 10] if number % 10 else "")


def ordinal_in_words(day):
    if day <= 20:
        return ORDINALS[day]
    if day == 30:
        return "thirtieth"
    return TENS[day // 10] + "-" + ORDINALS[day % 10]


def ordinal(day):
    suffix = "th" if 10 <= day % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{suffix}"


def year_in_words(year):
    century, rest = divmod(year, 100)
    if year == 2000:
        return "two thousand"
    if century == 20 and rest < 10:
        return "two thousand and " + ONES[rest]
    if rest == 0:
        return number_in_words(century) + " hundred"
    return number_in_words(century) + " " + ("oh " if rest < 10 else "") + number_in_words(rest)


def capitals(text):
    """Of each word, but not of 5th."""
    return re.sub(r"\b[a-z]", lambda match: match[0].upper(), text)


def draw_text(date, rng):
    """A way of writing the date that says which day it is beyond doubt."""
    day, year = date.day, date.year
    month = MONTHS[date.month - 1]
    if len(month) > 4 and rng.random() < 0.3:
        month = month[:3] + rng.choice(["", "."])
    days = rng.choice([str(day), ordinal(day), ordinal(day), ordinal_in_words(day)])
    years = year_in_words(year) if rng.random() < 0.15 else str(year)
    the, of = rng.choice(["", "the "]), rng.choice(["", " of"])
    form = rng.randrange(7)
    if form == 0:
        return rng.choice(["{0}.{1}.{2}", "{0:02}.{1:02}.{2}"]).format(day, date.month, year)
    if form == 1:
        return rng.choice(["{2}/{1}/{0}", "{2}/{1:02}/{0:02}"]).format(day, date.month, year)
    if form <= 4:
        text = f"{the}{days}{of} {month}{rng.choice(['', ','])} {years}"
    else:
        text = f"{month} {the}{days}{rng.choice(['', ','])} {years}"
    if rng.random() < 0.2:
        weekday = WEEKDAYS[date.weekday()]
        weekday = weekday[:3] if rng.random() < 0.3 else weekday
        text = weekday + rng.choice([" ", ", "]) + text
    return rng.choice([str, str, capitals, str.capitalize, str.upper])(text)


def check_words():
    for day, wanted in [
        (datetime.date(2019, 5, 5), "fifth 5th twenty nineteen"),
        (datetime.date(1984, 2, 22), "twenty-second 22nd nineteen eighty-four"),
        (datetime.date(1907, 8, 30), "thirtieth 30th nineteen oh seven"),
        (datetime.date(1900, 1, 11), "eleventh 11th nineteen hundred"),
        (datetime.date(2008, 3, 1), "first 1st two thousand and eight"),
        (datetime.date(2000, 10, 13), "thirteenth 13th two thousand"),
    ]:
        got = f"{ordinal_in_words(day.day)} {ordinal(day.day)} {year_in_words(day.year)}"
        assert got == wanted, f"{day} became {got!r}, wanted {wanted!r}"


def is_held_out(date):
    return hashlib.sha256(date.isoformat().encode()).digest()[0] % HELD_OUT_PARTS == 0


def draw(rng, held_out):
    """(text, answer) of a day that is held out, or of one that is not."""
    while True:
        date = FIRST_DAY + datetime.timedelta(days=rng.randrange(DAYS))
        if is_held_out(date) == held_out:
            return draw_text(date, rng), date.isoformat()


# ---- model --------------------------------------------------------------------------------


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, EMBEDDING)
        self.gru = nn.GRU(EMBEDDING, ENCODER, batch_first=True, bidirectional=True)
        self.keys = nn.Linear(2 * ENCODER, KEYS)
        self.first = nn.Linear(2 * ENCODER, HIDDEN)

    def forward(self, text):
        memory, last = self.gru(self.embedding(text))
        return memory, self.keys(memory), torch.tanh(self.first(torch.cat([last[0], last[1]], 1)))


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, EMBEDDING)
        self.query, self.score = nn.Linear(HIDDEN, KEYS), nn.Linear(KEYS, 1)
        self.cell = nn.GRUCell(EMBEDDING + 2 * ENCODER, HIDDEN)
        self.out = nn.Linear(HIDDEN + 2 * ENCODER, SYMBOLS)

    def logits(self, token, h, memory, keys):
        scores = self.score(torch.tanh(keys + self.query(h).unsqueeze(1))).squeeze(2)
        attended = torch.bmm(torch.softmax(scores, 1).unsqueeze(1), memory).squeeze(1)
        h = self.cell(torch.cat([self.embedding(token), attended], 1), h)
        return self.out(torch.cat([h, attended], 1)), h

    def forward(self, token, h, memory, keys):
        logits, h = self.logits(token, h, memory, keys)
        return logits.argmax(1), h


def answer(encoder, step, texts):
    """Greedy answers to texts of one length, without an end: that of a row is where it stands."""
    with torch.no_grad():
        memory, keys, h = encoder(texts)
        token = torch.full((len(texts),), START)
        answers = []
        for _ in range(12):
            token, h = step(token, h, memory, keys)
            answers.append(token)
    return torch.stack(answers, 1)


def answer_all(encoder, step, pairs):
    """Answers to the texts of pairs as text, in order; texts of one length as one batch."""
    by_length = {}
    for k, (text, _) in enumerate(pairs):
        by_length.setdefault(len(text), []).append(k)
    answers = [None] * len(pairs)
    for places in by_length.values():
        texts = torch.tensor([list(pairs[k][0].encode("ascii")) for k in places])
        for k, ids in zip(places, answer(encoder, step, texts).tolist()):
            ids = ids[: ids.index(END)] if END in ids else ids
            answers[k] = bytes(ids).decode("ascii")
    return answers


# ---- training -----------------------------------------------------------------------------


def batches(rng):
    """Endless batches whose texts have one length each, so that nothing is padded."""
    while True:
        pool = [draw(rng, held_out=False) for _ in range(POOL_BATCHES * BATCH_ROWS)]
        pool.sort(key=lambda pair: len(pair[0]))
        made = []
        at = 0
        while at < len(pool):
            end = at
            while end < len(pool) and end - at < BATCH_ROWS and len(pool[end][0]) == len(pool[at][0]):
                end += 1
            made.append(pool[at:end])
            at = end
        made = [rows for rows in made if len(rows) >= BATCH_ROWS // 4]
        rng.shuffle(made)
        yield from made


def train(encoder, step, count):
    parameters = [*encoder.parameters(), *step.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
    rng = random.Random(SEED)
    source = batches(rng)
    start, total = time.monotonic(), 0.0
    for k in range(count):
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * min(1, (k + 1) / 100) * (
            0.5 * (1 + math.cos(math.pi * k / count))
        )
        rows = next(source)
        texts = torch.tensor([list(text.encode("ascii")) for text, _ in rows])
        wanted = torch.tensor([list(iso.encode("ascii")) + [END] for _, iso in rows])
        memory, keys, h = encoder(texts)
        token = torch.full((len(rows),), START)
        logits = []
        for t in range(wanted.shape[1]):
            scores, h = step.logits(token, h, memory, keys)
            logits.append(scores)
            token = wanted[:, t]
        loss = nn.functional.cross_entropy(torch.stack(logits, 1).flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, GRADIENT_NORM_MAX)
        optimizer.step()
        total += loss.item()
        if (k + 1) % 200 == 0:
            print(f"{k + 1}/{count}: loss {total / 200:.5f}, {time.monotonic() - start:.0f} s", flush=True)
            total = 0.0


def measure(encoder, step):
    rng = random.Random(SEED + 1)
    pairs = [draw(rng, held_out=True) for _ in range(TEST_ROWS)]
    answers = answer_all(encoder, step, pairs)
    wrong = [(text, iso, got) for (text, iso), got in zip(pairs, answers) if got != iso]
    for text, iso, got in wrong[:20]:
        print(f"  {text!r}: {got}, wanted {iso}")
    accuracy = 1 - len(wrong) / len(pairs)
    print(f"held-out days, exact: {len(pairs) - len(wrong)}/{len(pairs)} = {accuracy:.2%}")
    return accuracy


# ---- what goes into the repository --------------------------------------------------------


def export(module, folder, name, example, inputs, outputs):
    path = folder / "1" / f"{name}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    ragged = ("text", "memory", "keys")
    axes = {n: {0: "rows", 1: "time"} if n in ragged else {0: "rows"} for n in inputs + outputs}
    torch.onnx.export(
        module,
        example,
        str(path),
        input_names=inputs,
        output_names=outputs,
        dynamic_axes=axes,
        opset_version=17,
    )
    print(f"wrote {name}.onnx: {path.stat().st_size} bytes")


def write_examples(encoder, step, path):
    """Held-out days with what PyTorch answers to each text alone."""
    rng = random.Random(SEED + 2)
    lines, right = [], 0
    for text, iso in [draw(rng, held_out=True) for _ in range(EXAMPLES)]:
        got = answer_all(encoder, step, [(text, iso)])[0]
        right += got == iso
        lines.append(json.dumps({"text": text, "date": iso, "answer": got}) + "\n")
    path.write_text("".join(lines))
    print(f"wrote {path.name}: {EXAMPLES} texts, {right} answered right")


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=root / "models" / "dates")
    parser.add_argument("--batches", type=int, default=3000)
    options = parser.parse_args()
    check_words()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)

    encoder, step = Encoder(), Step()
    weights = sum(p.numel() for p in [*encoder.parameters(), *step.parameters()])
    print(f"{weights} weights")
    train(encoder, step, options.batches)
    encoder.eval(), step.eval()
    accuracy = measure(encoder, step)

    export(encoder, options.out, "encoder", (torch.zeros(2, 5, dtype=torch.int64),),
           ["text"], ["memory", "keys", "h"])
    memory, keys, h = encoder(torch.zeros(2, 5, dtype=torch.int64))
    export(step, options.out, "decoder", (torch.zeros(2, dtype=torch.int64), h, memory, keys),
           ["token", "h", "memory", "keys"], ["token_next", "h_next"])
    write_examples(encoder, step, options.out / "examples.jsonl")
    if accuracy <= HELD_OUT_ACCURACY_MIN:
        sys.exit(f"held-out accuracy {accuracy:.2%} is not above {HELD_OUT_ACCURACY_MIN:.0%}")


if __name__ == "__main__":
    main()
