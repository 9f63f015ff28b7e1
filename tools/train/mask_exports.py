#!/usr/bin/env python3
"""Writes into tests/data/onnx modules that take padded sequences with their lengths, or a mask, and leave
out what stands behind: in the ways in which people write it without packed sequences. Weights and cases in
the manner of exports.py, one run under each PyTorch whose exporter is to be tried.
"""

import sys
import zlib

import torch
from torch import nn

from exports import WEIGHT_MAX
from exports import as_tuple, strip_stack_traces, tensor, write_models
from lstm_modules import CLASSES, HIDDEN, INPUT

CASES = [(1, 1), (2, 4), (3, 7)]  # batch, steps
SAMPLE = (2, 4)
STEPS = {0: "batch", 1: "time"}
BATCH = {0: "batch"}


class Masked(nn.Module):
    """the mean of the steps that a row has, of a bidirectional LSTM"""

    inputs = {"x": STEPS, "lengths": BATCH}

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
    "mask_gathered": Gathered,
    "mask_given": Given,
    "mask_indexed": Indexed,
    "mask_largest": Largest,
    "mask_mean": Masked,
}


def make_module(name):
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    module = MODULES[name]().eval()
    for _, parameter in sorted(module.named_parameters()):
        values = torch.rand(parameter.shape, generator=generator) * 2 - 1
        parameter.data.copy_(values * WEIGHT_MAX)
    return module


def make_inputs(module, batch, time, generator):
    x = torch.randint(-8, 9, (batch, time, INPUT), generator=generator) / 8
    lengths = torch.randint(1, time + 1, (batch,), generator=generator)
    if "mask" in module.inputs:
        return x, (torch.arange(time)[None] < lengths[:, None]).long()
    return x, time - lengths if "starts" in module.inputs else lengths


def make_cases(name, module):
    generator = torch.Generator().manual_seed(zlib.crc32(b"cases of " + name.encode()))
    cases = []
    for case in CASES:
        inputs = make_inputs(module, *case, generator)
        with torch.no_grad():
            outputs = as_tuple(module(*inputs))
        cases.append(
            {
                "inputs": [tensor(n, v) for n, v in zip(module.inputs, inputs)],
                "outputs": [tensor("y", v) for v in outputs],
            }
        )
    return cases


def export(module, path, opset):
    torch.onnx.export(
        module,
        make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)),
        str(path),
        input_names=list(module.inputs),
        output_names=["y"],
        dynamic_axes={**module.inputs, "y": BATCH},
        opset_version=opset,
    )
    strip_stack_traces(path)


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
