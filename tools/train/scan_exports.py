#!/usr/bin/env python3
"""Writes into tests/data/onnx modules with torch's own scan(), which its newer exporter makes a Scan: a sequence
beside itself turned round, and the numbers of steps. Weights and cases in the manner of exports.py; run under a
PyTorch that has it.
"""

import sys

import torch
from torch import nn
from torch._higher_order_ops.scan import scan

from exports import SAMPLE, draw_cases, draw_weights, export_open, write_models
from lstm_modules import INPUT

STEPS = {0: "batch", 1: "time"}
UNITS = 5


class Scanned(nn.Module):
    inputs, outputs = {"x": STEPS}, {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.over_x = nn.Linear(INPUT, UNITS)
        self.there, self.back = nn.Parameter(torch.zeros(UNITS)), nn.Parameter(torch.zeros(UNITS))


class BothEnds(Scanned):
    """both directions in one scan, over a sequence and itself turned round"""

    def forward(self, x):
        y, there, back = self.over_x(x).transpose(0, 1), self.there, self.back

        def step(states, given):
            h = torch.tanh(given[0] + states[0] * there)
            k = torch.tanh(given[1] + states[1] * back)
            return (h, k), (h.clone(), k.clone())

        first = (x.new_zeros(x.size(0), UNITS), x.new_ones(x.size(0), UNITS))
        _, (h, k) = scan(step, first, (y, y.flip(0)))
        return torch.cat([h, k.flip(0)], 2).transpose(0, 1)


class Clocks(Scanned):
    """numbers of steps as a sequence: remainders of them, and powers by them"""

    def __init__(self):
        super().__init__()
        self.register_buffer("periods", torch.tensor([1, 2, 2, 3, 5]), persistent=False)

    def forward(self, x):
        y, there, periods = self.over_x(x).transpose(0, 1), self.there, self.periods

        def step(h, given):
            new = torch.tanh(given[0] + h * there * 0.9 ** given[1].float())
            h = torch.where(given[1] % periods == 0, new, h)
            return h, h.clone()

        numbers = torch.arange(x.size(1))
        return scan(step, x.new_zeros(x.size(0), UNITS), (y, numbers))[1].transpose(0, 1)


MODULES = {"scan_both_ends": BothEnds, "scan_clocks": Clocks}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_inputs(_, batch, time, generator):
    return (torch.randint(-8, 9, (batch, time, INPUT), generator=generator) / 8,)


def make_cases(name, module):
    return draw_cases(name, module, make_inputs)


def export(module, path, opset):
    export_open(module, path, opset, make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
