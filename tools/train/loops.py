#!/usr/bin/env python3
"""Writes into tests/data/onnx modules whose forward() loops over time in Python, as people write
cells that PyTorch does not have: scripted, then exported, so the loop is a Loop. Weights and cases
in the manner of exports.py, one run under each PyTorch whose exporter is to be tried.
"""

import inspect
import sys
from typing import List, Tuple

import torch
from torch import Tensor, nn

from exports import SAMPLE, draw_cases, draw_weights, strip_stack_traces, write_models
from lstm_modules import CLASSES, HIDDEN, INPUT
from scans import make_input

TIME_MAJOR = {0: "time", 1: "batch"}
BATCH_FIRST = {0: "batch", 1: "time"}
BATCH = {0: "batch"}


class LstmCell(nn.Module):
    """nn.LSTMCell over x[t], torch.stack; states in and out"""

    inputs = {"x": ("x", TIME_MAJOR), "h": ("state", BATCH), "c": ("state", BATCH)}
    outputs = {"y": TIME_MAJOR, "hn": BATCH, "cn": BATCH}

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(INPUT, HIDDEN)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        steps: List[Tensor] = []
        for t in range(x.size(0)):
            h, c = self.cell(x[t], (h, c))
            steps.append(h)
        return torch.stack(steps), h, c


class TwoCells(nn.Module):
    """two nn.LSTMCells, one above the other, over x[:, t]; torch.stack(dim=1); a Linear over all"""

    inputs = {"x": ("x_batch_first", BATCH_FIRST)}
    outputs = {"p": BATCH_FIRST}

    def __init__(self):
        super().__init__()
        self.low = nn.LSTMCell(INPUT, HIDDEN)
        self.high = nn.LSTMCell(HIDDEN, HIDDEN, bias=False)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        low = torch.zeros(x.size(0), 8)
        low_c = torch.zeros(x.size(0), 8)
        high = torch.zeros(x.size(0), 8)
        high_c = torch.zeros(x.size(0), 8)
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            low, low_c = self.low(x[:, t], (low, low_c))
            high, high_c = self.high(low, (high, high_c))
            steps.append(high)
        return torch.softmax(self.head(torch.stack(steps, 1)), dim=-1)


class Leaky(nn.Module):
    """a leaky unit of its own; only the last state comes out"""

    inputs = {"x": ("x", TIME_MAJOR)}
    outputs = {"hn": BATCH}

    def __init__(self):
        super().__init__()
        self.over_x = nn.Linear(INPUT, HIDDEN)
        self.over_h = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.rate = nn.Parameter(torch.zeros(HIDDEN))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(1), 8)
        rate = torch.sigmoid(self.rate)
        for step in x.unbind(0):
            h = (1 - rate) * h + rate * torch.tanh(self.over_x(step) + self.over_h(h))
        return h


class Normed(nn.Module):
    """an LSTM with nn.LayerNorm over its sums and over c, batch first, gates by chunk; torch.cat"""

    inputs = {"x": ("x_batch_first", BATCH_FIRST), "h": ("state", BATCH), "c": ("state", BATCH)}
    outputs = {"y": BATCH_FIRST, "hn": BATCH, "cn": BATCH}

    def __init__(self):
        super().__init__()
        self.over_x = nn.Linear(INPUT, 4 * HIDDEN, bias=False)
        self.over_h = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)
        self.norm_x = nn.LayerNorm(4 * HIDDEN)
        self.norm_h = nn.LayerNorm(4 * HIDDEN)
        self.norm_c = nn.LayerNorm(HIDDEN)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            sums = self.norm_x(self.over_x(x[:, t])) + self.norm_h(self.over_h(h))
            i, f, g, o = sums.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(self.norm_c(c))
            steps.append(h.unsqueeze(1))
        return torch.cat(steps, 1), h, c


class Gated(nn.Module):
    """a GRU written out, the reset before the product, (1 - z) n + z h"""

    inputs = {"x": ("x", TIME_MAJOR), "h": ("state", BATCH)}
    outputs = {"y": TIME_MAJOR, "hn": BATCH}

    def __init__(self):
        super().__init__()
        self.gates = nn.Linear(INPUT + HIDDEN, 2 * HIDDEN)
        self.new = nn.Linear(INPUT + HIDDEN, HIDDEN)

    def forward(self, x: Tensor, h: Tensor) -> Tuple[Tensor, Tensor]:
        steps: List[Tensor] = []
        for t in range(x.size(0)):
            z, r = torch.sigmoid(self.gates(torch.cat([x[t], h], 1))).chunk(2, 1)
            n = torch.tanh(self.new(torch.cat([x[t], r * h], 1)))
            h = (1 - z) * n + z * h
            steps.append(h)
        return torch.stack(steps), h


class Rows(nn.Module):
    """a unit over steps that are rows of features each, [3, 6], all of them with the same weights; x[:, t]"""

    inputs = {"x": ("x_rows", BATCH_FIRST)}
    outputs = {"y": BATCH_FIRST}

    def __init__(self):
        super().__init__()
        self.over_x = nn.Linear(INPUT, HIDDEN)
        self.over_h = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), 3, 8)
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            h = torch.tanh(self.over_x(x[:, t]) + self.over_h(h))
            steps.append(h)
        return torch.stack(steps, 1)


class Frames(nn.Module):
    """a convolutional GRU (Ballas et al. 2016) over frames [1, 6, 7]"""

    inputs = {"x": ("x_frames", BATCH_FIRST)}
    outputs = {"y": BATCH_FIRST, "hn": BATCH}

    def __init__(self):
        super().__init__()
        self.gates = nn.Conv2d(1 + 2, 2 * 2, 3, padding=1)
        self.new = nn.Conv2d(1 + 2, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        h = torch.zeros(x.size(0), 2, 6, 7)
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            z, r = torch.sigmoid(self.gates(torch.cat([x[:, t], h], 1))).chunk(2, 1)
            n = torch.tanh(self.new(torch.cat([x[:, t], r * h], 1)))
            h = (1 - z) * n + z * h
            steps.append(h)
        return torch.stack(steps, 1), h


MODULES = {
    "loop_frames": Frames,
    "loop_rows": Rows,
    "loop_lstm_cell": LstmCell,
    "loop_two_cells": TwoCells,
    "loop_leaky": Leaky,
    "loop_layer_norm_lstm": Normed,
    "loop_gru": Gated,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_inputs(module, batch, time, generator):
    shapes = {"x_rows": (batch, time, 3, INPUT), "x_frames": (batch, time, 1, 6, 7)}
    kinds = [kind for kind, _ in module.inputs.values()]
    if kinds[0] in shapes:
        return [torch.randint(-8, 9, shapes[kinds[0]], generator=generator) / 8]
    return [make_input(kind, batch, time, generator) for kind in kinds]


def make_cases(name, module):
    return draw_cases(name, module, make_inputs)


def export(module, path, opset):
    axes = {name: dims for name, (_, dims) in module.inputs.items()}
    torch.onnx.export(
        torch.jit.script(module),
        tuple(make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0))),
        str(path),
        input_names=list(module.inputs),
        output_names=list(module.outputs),
        dynamic_axes={**axes, **module.outputs},
        opset_version=opset,
        **({"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}),
    )
    strip_stack_traces(path)


def tool():
    """The newer exporter takes no scripted modules."""
    return "ts", 17


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
