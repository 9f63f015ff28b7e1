#!/usr/bin/env python3
"""Writes into tests/data/onnx modules whose steps attend by chunks of so many, as recognisers of streams do:
to their own chunk and some before it. Weights and cases in the manner of exports.py, one run under each
PyTorch whose exporter is to be tried.
"""

import math
import sys

import torch
from torch import nn
from torch.nn import functional

from exports import SAMPLE, draw_cases, draw_weights, export_open, write_models
from golden import CASES
from lstm_modules import CLASSES, HIDDEN, INPUT

CHUNK = 3
HEADS = 2
LONGEST = 12
STEPS = {0: "batch", 1: "time"}
BATCH = {0: "batch"}


class Chunks(nn.Module):
    """all up to the end of the own chunk, where a chunk ends by a division rounded to 0 (WeNet)"""

    inputs, outputs = {"x": STEPS}, {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(INPUT, HIDDEN, batch_first=True)
        self.q, self.k, self.v, self.out = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        return self.head(self.attend(self.rnn(x)[0], self.mask(x.size(1))))

    def attend(self, h, mask):
        """mask: whether a query attends to a key, [queries, keys]"""
        shape = h.size(0), -1, HEADS, HIDDEN // HEADS
        q, k, v = (layer(h).view(shape).transpose(1, 2) for layer in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(HIDDEN // HEADS)
        weights = self.softmax(scores, mask)
        return h + self.out((weights @ v).transpose(1, 2).reshape(h.size(0), -1, HIDDEN))

    def softmax(self, scores, mask):
        return scores.masked_fill(~mask, float("-inf")).softmax(-1)

    def mask(self, steps):
        numbers = torch.arange(steps)
        ends = (torch.div(numbers, CHUNK, rounding_mode="trunc") + 1) * CHUNK
        return numbers.unsqueeze(0) < ends.unsqueeze(1)


class Left(Chunks):
    """the own chunk and one before it, from where that begins, or the first step (WeNet)"""

    def mask(self, steps):
        numbers = torch.arange(steps)
        chunks = torch.div(numbers, CHUNK, rounding_mode="floor")
        starts = ((chunks - 1) * CHUNK).clamp(min=0)
        ends = (chunks + 1) * CHUNK
        return (numbers[None] < ends[:, None]) & (numbers[None] >= starts[:, None])


class Numbered(Chunks):
    """chunks of later numbers, and of such as are too far before, are masked (icefall)"""

    def mask(self, steps):
        chunks = torch.arange(steps) // CHUNK
        keys, queries = chunks.unsqueeze(0), chunks.unsqueeze(-1)
        return ~torch.logical_or(keys > queries, keys < queries - 1)


class Kept(Chunks):
    """a mask that the module keeps, cut to the steps that there are"""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", Left.mask(self, LONGEST), persistent=False)

    def mask(self, steps):
        return self.kept[:steps, :steps]


class Alone(Chunks):
    """the own chunk alone, weights of other keys made zeros once more (ESPnet)"""

    def mask(self, steps):
        chunks = torch.floor(torch.arange(steps) / CHUNK).long()
        return chunks[None] == chunks[:, None]

    def softmax(self, scores, mask):
        masked = mask[None, None].eq(0)
        return scores.masked_fill(masked, float("-inf")).softmax(-1).masked_fill(masked, 0.0)


class Near(Chunks):
    """chunks beside each other, in an encoder's layer"""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(HIDDEN, HEADS, 2 * HIDDEN, batch_first=True)

    def attend(self, h, mask):
        return self.layer(h, src_mask=~mask)

    def mask(self, steps):
        chunks = torch.arange(steps) // CHUNK
        return (chunks[None] - chunks[:, None]).abs() <= 1


class Distances(Chunks):
    """a number for each distance, within the own chunk and those before it"""

    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(2 * LONGEST + 1, HEADS)

    def softmax(self, scores, mask):
        numbers = torch.arange(mask.size(0))
        distances = (numbers[None] - numbers[:, None]).clamp(-LONGEST, LONGEST) + LONGEST
        return super().softmax(scores + self.bias(distances).permute(2, 0, 1), mask)


class Places(Chunks):
    """each step's place in its chunk, and its chunk's number, looked up"""

    def __init__(self):
        super().__init__()
        self.place, self.number = nn.Embedding(CHUNK, HIDDEN), nn.Embedding(LONGEST, HIDDEN)

    def attend(self, h, mask):
        numbers = torch.arange(h.size(1))
        return h + self.place(numbers % CHUNK) + self.number(numbers // CHUNK)


class Lengths(Chunks):
    """of padded recordings, whose mask a stride has left every other step of"""

    inputs = {"x": STEPS, "lengths": BATCH}
    outputs = {"y": {0: "batch", 1: "frames"}}

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(INPUT, INPUT, 3, 2, padding=1)

    def forward(self, x, lengths):
        there = (torch.arange(x.size(1))[None] < lengths[:, None]).unsqueeze(1)[:, :, ::2]
        h = self.rnn(functional.relu(self.conv(x.transpose(1, 2))).transpose(1, 2))[0]
        return self.head(self.attend(h, there & Numbered.mask(self, h.size(1)).unsqueeze(0)))

    def softmax(self, scores, mask):
        masked = mask.unsqueeze(1).eq(0)
        return scores.masked_fill(masked, float("-inf")).softmax(-1).masked_fill(masked, 0.0)


class Recogniser(Left):
    """frames that a stride leaves, two layers of attention by chunks with a causal convolution between"""

    outputs = {"y": {0: "batch", 1: "frames"}}

    def __init__(self):
        super().__init__()
        self.front = nn.Conv1d(INPUT, HIDDEN, 3, 2)
        self.rnn = nn.GRU(HIDDEN, HIDDEN, batch_first=True)
        self.conv = nn.Conv1d(HIDDEN, HIDDEN, 3, groups=HIDDEN)
        self.second = Left()

    def forward(self, x):
        h = functional.relu(self.front(x.transpose(1, 2))).transpose(1, 2)
        mask = self.mask(h.size(1))
        h = self.attend(h, mask)
        h = h + self.conv(functional.pad(h.transpose(1, 2), (2, 0))).transpose(1, 2)
        return self.head(self.rnn(self.second.attend(h, mask))[0])


MODULES = {
    "chunk_alone": Alone,
    "chunk_distances": Distances,
    "chunk_kept": Kept,
    "chunk_left": Left,
    "chunk_lengths": Lengths,
    "chunk_near": Near,
    "chunk_numbered": Numbered,
    "chunk_places": Places,
    "chunk_recogniser": Recogniser,
    "chunk_to_end": Chunks,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_inputs(module, batch, time, generator):
    x = torch.randint(-8, 9, (batch, time, INPUT), generator=generator) / 8
    lengths = torch.randint(1, time + 1, (batch,), generator=generator)
    return [x, lengths] if "lengths" in module.inputs else [x]


def make_cases(name, module):
    cases = [(1, 3), *CASES[1:]] if name == "chunk_recogniser" else CASES
    return draw_cases(name, module, make_inputs, [*cases, (2, 10)])


def export(module, path, opset):
    batch, time = SAMPLE
    time += time + 1 if isinstance(module, Recogniser) else 0  # of which a stride leaves several
    inputs = make_inputs(module, batch, time, torch.Generator().manual_seed(0))
    export_open(module, path, opset, inputs)


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
