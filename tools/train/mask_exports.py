#!/usr/bin/env python3
"""Writes into tests/data/onnx modules that take padded sequences with their lengths, or a mask, and leave
out what stands behind: in the ways in which people write it without packed sequences. Weights and cases in
the manner of exports.py, one run under each PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn

from exports import SAMPLE, draw_cases, draw_weights, export_open, write_models
from lstm_modules import CLASSES, HIDDEN, INPUT

STEPS = {0: "batch", 1: "time"}
BATCH = {0: "batch"}


class Masked(nn.Module):
    """the mean of the steps that a row has, of a bidirectional LSTM"""

    inputs, outputs = {"x": STEPS, "lengths": BATCH}, {"y": BATCH}

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(INPUT, HIDDEN // 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, lengths):
        h = self.rnn(x)[0]
        there = torch.arange(x.size(1))[None] < lengths[:, None]
        return self.head(self.pool(h, there))

    def pool(self, h, there):
        weights = there.unsqueeze(2).float()
        return (h * weights).sum(1) / weights.sum(1)


class Largest(Masked):
    """the largest of the steps that a row has: -inf for the others"""

    def pool(self, h, there):
        return h.masked_fill(~there.unsqueeze(2), float("-inf")).max(1)[0]


class Attended(Masked):
    """attention over the steps that a row has: scores of -inf for the others, which stand in front"""

    inputs = {"x": STEPS, "starts": BATCH}

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(HIDDEN, 1)

    def forward(self, x, starts):
        h = self.rnn(x)[0]
        return self.head(self.pool(h, torch.arange(x.size(1))[None] >= starts[:, None]))

    def pool(self, h, there):
        scores = self.score(torch.tanh(h)).squeeze(2).masked_fill(~there, float("-inf"))
        return (torch.softmax(scores, 1).unsqueeze(2) * h).sum(1)


class Filled(Attended):
    """the same with -1e9, for those behind"""

    inputs = {"x": STEPS, "lengths": BATCH}

    def forward(self, x, lengths):
        return Masked.forward(self, x, lengths)

    def pool(self, h, there):
        scores = self.score(torch.tanh(h)).squeeze(2).masked_fill(~there, -1e9)
        return (torch.softmax(scores, 1).unsqueeze(2) * h).sum(1)


class Given(Masked):
    """a mask of whole numbers as an input"""

    inputs = {"x": STEPS, "mask": STEPS}

    def forward(self, x, mask):
        weights = mask.unsqueeze(2).float()
        return self.head((self.rnn(x)[0] * weights).sum(1) / weights.sum(1))


class Flagged(Attended):
    """attention over the steps that a mask of booleans leaves, and bytes as ids of an embedding"""

    inputs = {"x": STEPS, "mask": STEPS, "bytes": STEPS}

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, INPUT)

    def forward(self, x, mask, bytes):
        h = self.rnn(x + self.embedding(bytes.long()))[0]
        return self.head(self.pool(h, mask))


class Indexed(Masked):
    """the last step that a row has, by its number beside that of the row; forwards alone"""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(INPUT, HIDDEN, batch_first=True)

    def forward(self, x, lengths):
        return self.head(self.rnn(x)[0][torch.arange(x.size(0)), lengths - 1])


class Gathered(Masked):
    """the same by gather(), of both directions; a length of 0 takes the first step"""

    def forward(self, x, lengths):
        h = self.rnn(x)[0]
        last = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, h.size(2))
        return self.head(h.gather(1, last).squeeze(1))


MODULES = {
    "mask_attended": Attended,
    "mask_filled": Filled,
    "mask_flagged": Flagged,
    "mask_gathered": Gathered,
    "mask_given": Given,
    "mask_indexed": Indexed,
    "mask_largest": Largest,
    "mask_mean": Masked,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_inputs(module, batch, time, generator):
    x = torch.randint(-8, 9, (batch, time, INPUT), generator=generator) / 8
    lengths = torch.randint(1, time + 1, (batch,), generator=generator)
    if "bytes" in module.inputs:
        mask = torch.arange(time)[None] < lengths[:, None]
        return x, mask, torch.randint(0, 256, (batch, time), generator=generator).to(torch.uint8)
    if "mask" in module.inputs:
        return x, (torch.arange(time)[None] < lengths[:, None]).long()
    return x, time - lengths if "starts" in module.inputs else lengths


def make_cases(name, module):
    return draw_cases(name, module, make_inputs)


def export(module, path, opset):
    export_open(module, path, opset, make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
