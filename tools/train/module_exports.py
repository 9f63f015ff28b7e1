#!/usr/bin/env python3
"""Writes into tests/data/onnx models some of whose modules are functions of the file's own (ONNX: FunctionProto), as PyTorch before
2.6 writes them with export_modules_as_functions. Weights and cases in the manner of exports.py; run under such a PyTorch.
"""

import sys

import torch
from torch import nn

from exports import SAMPLE, draw_cases, draw_weights, strip_stack_traces, write_models
from lstm_modules import CLASSES, HIDDEN, INPUT

STEPS = {0: "batch", 1: "time"}


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.value, self.gate = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return self.value(x) * torch.sigmoid(self.gate(x))


class Norm(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN, eps=eps)

    def forward(self, x):
        return self.norm(x)


class Gates(nn.Module):
    """two gates before a layer and two norms behind it, of which each is a function"""

    inputs, outputs, functions = {"x": STEPS}, {"y": STEPS}, {Gate, Norm}

    def __init__(self):
        super().__init__()
        self.gates = nn.Sequential(Gate(INPUT), Gate(INPUT))
        self.rnn = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.norms = nn.Sequential(Norm(1e-3), Norm(1e-5))
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        return self.head(self.norms(self.rnn(self.gates(x))[0])).tanh()


class Nested(Gates):
    """the same, PyTorch's own modules within them functions too"""

    functions = {Gate, Norm, nn.Linear, nn.LSTM, nn.LayerNorm}


MODULES = {"modules_gates": Gates, "modules_nested": Nested}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_inputs(_, batch, time, generator):
    return [torch.randint(-8, 9, (batch, time, INPUT), generator=generator) / 8]


def make_cases(name, module):
    return draw_cases(name, module, make_inputs)


def tool():
    return "ts", 15


def export(module, path, opset):
    x = make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0))
    torch.onnx.export(
        module,
        tuple(x),
        str(path),
        input_names=list(module.inputs),
        output_names=list(module.outputs),
        dynamic_axes={**module.inputs, **module.outputs},
        opset_version=opset,
        export_modules_as_functions=module.functions,
    )
    strip_stack_traces(path)


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
