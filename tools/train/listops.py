#!/usr/bin/env python3
"""Trains, measures and exports `listops`, the demo model of models/listops.

An N-ary TreeLSTM (Tai, Socher, Manning, "Improved Semantic Representations From
Tree-Structured Long Short-Term Memory Networks", ACL 2015, section 3.2) that computes
nested operations over digits, the task of ListOps (Nangia, Bowman, NAACL 2018):

    (MAX 2 9 (MIN 4 7) 0)  ->  9

    MAX, MIN: largest, smallest;  MED: the middle value, of an even number the lower of
    the two;  SM: the sum modulo 10

A list is a node, with the operation and its two to five operands as children; words are
leaves. Three files, as docs/trees.md says:

    leaf:  word int64 [rows], lines of words.txt -> h, c [rows, 96]
    node:  h_0 .. h_5, c_0 .. c_5 [rows, 96] -> h, c
    root:  h -> value int64 [rows], scores float32 [rows, 10], a probability for each digit

Clients send the expressions as text: config.yaml names words.txt.

Expressions are drawn at random. What the digest of its text puts into one of ten parts is
held out: never trained on. The loss asks for the value of every list, not only of the
whole. Beside the tree, an LSTM is trained on the same expressions read from left to right,
brackets included, and asked at every closing bracket: what a model makes of them that is
not told the tree. Both see the same number of expressions and have about as many weights.
"""

import argparse
import hashlib
import json
import math
import os
import pathlib
import random
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read once, by the import
import numpy  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

SEED = 20261122
OPERATIONS = {
    "MAX": max,
    "MIN": min,
    "MED": lambda values: sorted(values)[(len(values) - 1) // 2],
    "SM": lambda values: sum(values) % 10,
}
WORDS = [str(digit) for digit in range(10)] + list(OPERATIONS)
BRACKETS = ["(", ")"]
CHILDREN = 6  # the operation and up to five operands
DEPTH_MAX = 6

HIDDEN = 96
LSTM_HIDDEN = 320  # as many weights as the tree's
BATCH_ROWS = 128
POOL_BATCHES = 16
LEARNING_RATE = 3e-3
GRADIENT_NORM_MAX = 1.0
HELD_OUT_PARTS = 10

TEST_ROWS = 5000
EXAMPLES = 200


# ---- expressions --------------------------------------------------------------------------


def draw(rng, depth):
    """A digit, or [operation, operand, ..]."""
    if depth == 0:
        return rng.randrange(10)
    operands = [draw(rng, depth - 1 - rng.randrange(2)) if depth > 1 and rng.random() < 0.35
                else rng.randrange(10) for _ in range(rng.randint(2, CHILDREN - 1))]
    return [rng.choice(list(OPERATIONS))] + operands


def value_of(expression):
    if isinstance(expression, int):
        return expression
    return OPERATIONS[expression[0]]([value_of(operand) for operand in expression[1:]])


def text_of(expression):
    if isinstance(expression, list):
        return "(" + " ".join(text_of(part) for part in expression) + ")"
    return str(expression)


def is_held_out(text):
    return hashlib.sha256(text.encode()).digest()[0] % HELD_OUT_PARTS == 0


def expressions(rng, held_out):
    while True:
        expression = draw(rng, rng.randint(1, DEPTH_MAX))
        if is_held_out(text_of(expression)) == held_out:
            yield expression


def take(source, count):
    return [next(source) for _ in range(count)]


# ---- the tree -----------------------------------------------------------------------------


class Leaf(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), HIDDEN)
        self.gates = nn.Linear(HIDDEN, 3 * HIDDEN)

    def forward(self, word):
        i, o, u = self.gates(self.embedding(word)).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u)
        return torch.sigmoid(o) * torch.tanh(c), c


class Node(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Linear(CHILDREN * HIDDEN, (3 + CHILDREN) * HIDDEN)
        with torch.no_grad():  # children are remembered at first
            self.gates.bias[3 * HIDDEN :].fill_(1)

    def forward(self, *children):
        h, c = children[:CHILDREN], children[CHILDREN:]
        i, o, u, *forget = self.gates(torch.cat(h, 1)).chunk(3 + CHILDREN, 1)
        kept = torch.sigmoid(i) * torch.tanh(u)
        for f_k, c_k in zip(forget, c):
            kept = kept + torch.sigmoid(f_k) * c_k
        return torch.sigmoid(o) * torch.tanh(kept), kept


class Root(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(HIDDEN, 10)

    def logits(self, h):
        return self.linear(h)

    def forward(self, h):
        scores = torch.softmax(self.linear(h), 1)
        return scores.argmax(1), scores


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf, self.node, self.root = Leaf(), Node(), Root()

    def forward(self, plan):
        """Logits of all lists of a plan, level by level, and their values in the same order."""
        h, c = self.leaf(plan["words"])
        zero = torch.zeros(1, HIDDEN)
        h, c, lists = torch.cat([zero, h]), torch.cat([zero, c]), []
        for level in plan["levels"]:
            new_h, new_c = self.node(*[h[k] for k in level.T], *[c[k] for k in level.T])
            h, c = torch.cat([h, new_h]), torch.cat([c, new_c])
            lists.append(new_h)
        return self.root.logits(torch.cat(lists))


def plan_of(batch):
    """Words, then levels of children by number (0 is none), values of all lists, and which
    of the lists are whole expressions."""
    words, lists = [], []

    def add(part, is_root):
        if not isinstance(part, list):
            words.append(WORDS.index(str(part)))
            return ("word", len(words)), 0
        parts = [add(p, False) for p in part]
        height = 1 + max(h for _, h in parts)
        lists.append((height, [p for p, _ in parts], value_of(part), is_root))
        return ("list", len(lists) - 1), height

    for expression in batch:
        add(expression, True)
    order = sorted(range(len(lists)), key=lambda k: lists[k][0])
    number = {k: 1 + len(words) + place for place, k in enumerate(order)}
    levels, at = [], 0
    while at < len(order):
        height = lists[order[at]][0]
        rows = []
        while at < len(order) and lists[order[at]][0] == height:
            ids = [n if kind == "word" else number[n] for kind, n in lists[order[at]][1]]
            rows.append(ids + [0] * (CHILDREN - len(ids)))
            at += 1
        levels.append(torch.tensor(rows))
    return {
        "words": torch.tensor(words),
        "levels": levels,
        "values": torch.tensor([lists[k][2] for k in order]),
        "whole": torch.tensor([lists[k][3] for k in order]),
    }


# ---- the chain ----------------------------------------------------------------------------


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS) + len(BRACKETS), 64)
        self.lstm = nn.LSTM(64, LSTM_HIDDEN, batch_first=True)
        self.head = nn.Linear(LSTM_HIDDEN, 10)

    def forward(self, plan):
        out, _ = self.lstm(self.embedding(plan["tokens"]))
        return self.head(out[plan["rows"], plan["at"]])


def chain_plan_of(batch):
    """Tokens from left to right, and where each list closes."""
    symbols = {symbol: k for k, symbol in enumerate(WORDS + BRACKETS)}
    rows, at, values, whole, texts = [], [], [], [], []
    for row, expression in enumerate(batch):
        tokens = []

        def add(part, is_root):
            if not isinstance(part, list):
                tokens.append(symbols[str(part)])
                return
            tokens.append(symbols["("])
            for p in part:
                add(p, False)
            tokens.append(symbols[")"])
            rows.append(row)
            at.append(len(tokens) - 1)
            values.append(value_of(part))
            whole.append(is_root)

        add(expression, True)
        texts.append(tokens)
    padded = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.int64)
    for row, tokens in enumerate(texts):
        padded[row, : len(tokens)] = torch.tensor(tokens)
    return {
        "tokens": padded,
        "rows": torch.tensor(rows),
        "at": torch.tensor(at),
        "values": torch.tensor(values),
        "whole": torch.tensor(whole),
    }


# ---- training -----------------------------------------------------------------------------


def batches(rng):
    """Endless; expressions of similar size together, so that little of a chain's batch is padding."""
    source = expressions(rng, held_out=False)
    while True:
        pool = sorted(take(source, POOL_BATCHES * BATCH_ROWS), key=lambda row: len(text_of(row)))
        made = [pool[at : at + BATCH_ROWS] for at in range(0, len(pool), BATCH_ROWS)]
        rng.shuffle(made)
        yield from made


def train(name, model, plan, steps):
    source = batches(random.Random(SEED))
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    start, total, right, count = time.monotonic(), 0.0, 0, 0
    for step in range(steps):
        warm = min(1, (step + 1) / 200)
        rate = LEARNING_RATE * warm * 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.param_groups[0]["lr"] = rate
        made = plan(next(source))
        logits = model(made)
        loss = nn.functional.cross_entropy(logits, made["values"])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_NORM_MAX)
        optimizer.step()
        total += loss.item()
        whole = made["whole"]
        right += int((logits.argmax(1) == made["values"])[whole].sum())
        count += int(whole.sum())
        if (step + 1) % 200 == 0:
            print(
                f"{name} {step + 1}/{steps}: loss {total / 200:.4f}, right {right / count:.4f}, "
                f"{time.monotonic() - start:.0f} s",
                flush=True,
            )
            total, right, count = 0.0, 0, 0
    return model.eval()


def measure(name, model, plan, rows):
    right = []  # row by row
    with torch.no_grad():
        for row in rows:
            made = plan([row])
            right.append(int((model(made).argmax(1) == made["values"])[made["whole"]][0]))
    print(f"held out, {name}: {sum(right)}/{len(rows)} = {sum(right) / len(rows):.2%}")
    for operation in OPERATIONS:
        of = [r for r, row in zip(right, rows) if isinstance(row, list) and row[0] == operation]
        print(f"  {operation} outermost: {sum(of) / len(of):.2%} of {len(of)}", flush=True)


def measure_majority(rows):
    values = [value_of(row) for row in rows]
    best = max(range(10), key=values.count)
    print(f"held out, always {best}: {values.count(best) / len(rows):.2%}")


# ---- what goes into the repository --------------------------------------------------------


def export(module, folder, name, inputs, outputs):
    examples = tuple(
        torch.zeros(2, dtype=torch.int64) if i == "word" else torch.zeros(2, HIDDEN) for i in inputs
    )
    path = folder / "1" / f"{name}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        module,
        examples,
        str(path),
        input_names=inputs,
        output_names=outputs,
        dynamic_axes={n: {0: "rows"} for n in inputs + outputs},
        opset_version=17,
    )
    print(f"wrote {name}.onnx: {path.stat().st_size} bytes")


def write_examples(model, path):
    """Held-out expressions with what PyTorch answers to each alone."""
    source = expressions(random.Random(SEED + 2), held_out=True)
    lines, right = [], 0
    for expression in take(source, EXAMPLES):
        made = plan_of([expression])
        with torch.no_grad():
            scores = torch.softmax(model(made)[made["whole"]][0], 0)
        right += int(scores.argmax()) == value_of(expression)
        scores = [float(f"{p:.9g}") for p in scores.tolist()]
        row = {"text": text_of(expression), "value": value_of(expression), "scores": scores}
        lines.append(json.dumps(row) + "\n")
    path.write_text("".join(lines))
    print(f"wrote {path.name}: {EXAMPLES} expressions, {right} answered right")


def weights(model):
    return sum(parameter.numel() for parameter in model.parameters())


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=root / "models" / "listops")
    parser.add_argument("--steps", type=int, default=12000)
    parser.add_argument("--no-chain", action="store_true", help="do not train the LSTM beside it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)

    rows = take(expressions(random.Random(SEED + 1), held_out=True), TEST_ROWS)
    leaves = numpy.array([text_of(row).count(" ") + 1 for row in rows])
    print(f"{TEST_ROWS} held-out expressions, {leaves.min()} to {leaves.max()} words, mean {leaves.mean():.1f}")
    measure_majority(rows)
    tree = train("tree", Tree(), plan_of, options.steps)
    print(f"tree: {weights(tree)} weights")
    measure("tree", tree, plan_of, rows)

    out = options.out
    export(tree.leaf, out, "leaf", ["word"], ["h", "c"])
    children = [f"{state}_{k}" for state in "hc" for k in range(CHILDREN)]
    export(tree.node, out, "node", children, ["h", "c"])
    export(tree.root, out, "root", ["h"], ["value", "scores"])
    (out / "words.txt").write_text("".join(word + "\n" for word in WORDS))
    write_examples(tree, out / "examples.jsonl")

    if not options.no_chain:
        torch.manual_seed(SEED)
        chain = Chain()
        print(f"LSTM: {weights(chain)} weights")
        measure("LSTM", train("LSTM", chain, chain_plan_of, options.steps), chain_plan_of, rows)


if __name__ == "__main__":
    main()
