#!/usr/bin/env python3
"""Writes into tests/data/onnx loops over time whose body computes with more than an element and its states: the
number of the step, both ends of a sequence, lists that it reads, parts of what it assigns to. Scripted and
exported as loops.py does it. Weights and cases in the manner of exports.py.
"""

import sys
from typing import List, Tuple

import torch
from torch import Tensor, nn

import loops
from exports import draw_cases, draw_weights, write_models
from loop_idioms import BATCH_FIRST, Loop


class Numbered(Loop):
    """0.9 ** t, a mean over the steps so far, rows of tables by t and by t % 3, the bias of a moment"""

    outputs = {"y": BATCH_FIRST, "z": {0: "batch"}}

    def __init__(self):
        super().__init__()
        self.late, self.often = nn.Parameter(torch.zeros(40, 5)), nn.Embedding(3, 5)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        h, mean = torch.zeros(x.size(0), 5), torch.zeros(x.size(0), 5)
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            a = self.over_x(x[:, t])[:, :5] + self.late[t] + self.often(torch.tensor(t % 3))
            h = torch.tanh(a + self.over_h(h)[:, 5:10] * 0.9**t)
            mean = mean + (h - mean) / (t + 1)
            steps.append(mean / (1 - 0.5 ** (t + 1)) + 0.1 * (t // 2))
        return torch.stack(steps, 1), mean


class Clocks(Loop):
    """units of several clocks: by a remainder of each, and by an if"""

    def __init__(self):
        super().__init__()
        self.register_buffer("periods", torch.tensor([1, 2, 2, 3, 5]), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        h, k = torch.zeros(x.size(0), 5), torch.zeros(x.size(0), 5)
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            new = torch.tanh(self.over_x(x[:, t])[:, :5] + self.over_h(h)[:, :5])
            h = torch.where(t % self.periods == 0, new, h)
            if t % 2 == 1:
                k = torch.tanh(self.over_h(k)[:, 5:10] + h)
            steps.append(h + k)
        return torch.stack(steps, 1)


class Ends(Loop):
    """another step at the beginning and at the end, and from the last step down"""

    outputs = {"y": BATCH_FIRST, "z": BATCH_FIRST}

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        h, k, n = torch.zeros(x.size(0), 5), torch.zeros(x.size(0), 5), x.size(1)
        steps, back = torch.zeros(x.size(0), n, 5), torch.zeros(x.size(0), n, 5)
        for t in range(n):
            h = torch.tanh(self.over_x(x[:, t])[:, :5] + self.over_h(h)[:, 5:10])
            if t == 0:
                h = h * 2
            elif t < n - 1 and t > 1:
                h = h + 1
            steps[:, t] = h
        for t in range(n - 1, -1, -1):
            k = torch.tanh(self.over_x(x[:, t])[:, 5:10] + self.over_h(k)[:, :5] * 0.9**t)
            if t >= n - 2:
                k = k - 1
            back[:, t] = k
        return steps, back


class BothEnds(Loop):
    """both directions at once, and one that reads what mirrors the step"""

    def forward(self, x: Tensor) -> Tensor:
        h, k, n = torch.zeros(x.size(0), 5), torch.zeros(x.size(0), 5), x.size(1)
        there: List[Tensor] = []
        back: List[Tensor] = []
        for t in range(n):
            h = torch.tanh(self.over_x(x[:, t])[:, :5] + self.over_h(h)[:, 5:10] + x[:, -1 - t, :5])
            k = torch.tanh(self.over_x(x[:, n - 1 - t])[:, 5:10] + self.over_h(k)[:, :5])
            there.append(h)
            back.insert(0, k)
        return torch.cat([torch.stack(there, 1), torch.stack(back, 1)], 2)


class Listed(Loop):
    """the last element of a list, and the last but two, as states"""

    outputs = {"y": {0: "batch", 1: "longer"}, "z": {0: "batch"}}

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        first = torch.tanh(self.over_x(x[:, 0])[:, 10:])
        steps = [first, first * 2, first * 3]
        for t in range(x.size(1)):
            a = self.over_x(x[:, t])[:, :5] + self.over_h(steps[-1])[:, 5:10]
            steps.append(torch.tanh(a + self.over_h(steps[t])[:, :5]))
        return torch.stack(steps, 1), steps[-1] + steps[1]


class Layered(Loop):
    """states of two layers in a list; and four that wait in a row"""

    outputs = {"y": BATCH_FIRST, "z": {1: "batch"}}

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        layers = [torch.zeros(x.size(0), 5), torch.ones(x.size(0), 5)]
        row = [torch.zeros(x.size(0), 5) for _ in range(4)]
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            layers[0] = torch.tanh(self.over_x(x[:, t])[:, :5] + self.over_h(layers[0])[:, 5:10])
            layers[1] = torch.tanh(self.over_h(layers[1])[:, :5] + layers[0] + row[0])
            row.pop(0)
            row.append(layers[-1])
            steps.append(layers[-1])
        return torch.stack(steps, 1), torch.stack(layers)


class Features(Loop):
    """assigned to parts of the features; the others keep what was there"""

    def forward(self, x: Tensor) -> Tensor:
        h, out = torch.zeros(x.size(0), 5), torch.ones(x.size(0), x.size(1), 14)
        for t in range(x.size(1)):
            h = torch.tanh(self.over_x(x[:, t])[:, :5] + self.over_h(h)[:, 5:10])
            out[:, t, 1:6] = h
            out[:, t, -6:] = x[:, t]
        return out


class Spans(Loop):
    """x[:, t : t + 1], out[:, t : t + 1] = h, rows of a table so"""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(40, 5))

    def forward(self, x: Tensor) -> Tensor:
        h, out = torch.zeros(x.size(0), 1, 5), torch.zeros(x.size(0), x.size(1), 5)
        for t in range(x.size(1)):
            a = self.over_x(x[:, t : t + 1])[:, :, :5] + self.table[t : t + 1]
            h = torch.tanh(a + self.over_h(h)[:, :, 5:10])
            out[:, t : t + 1] = h
        return out


class Beside(Loop):
    """two sequences side by side, zip() of their steps"""

    inputs = {"x": ("x_batch_first", BATCH_FIRST), "x2": ("x_batch_first", BATCH_FIRST)}

    def forward(self, x: Tensor, x2: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), 5)
        steps: List[Tensor] = []
        for a, b in zip(x.unbind(1), x2.unbind(1)):
            h = torch.tanh(self.over_x(a * b)[:, :5] + self.over_h(h)[:, 5:10])
            steps.append(h)
        return torch.stack(steps, 1)


MODULES = {
    "loop_beside": Beside,
    "loop_both_ends": BothEnds,
    "loop_clocks": Clocks,
    "loop_ends": Ends,
    "loop_features": Features,
    "loop_layered": Layered,
    "loop_listed": Listed,
    "loop_numbered": Numbered,
    "loop_spans": Spans,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_cases(name, module):
    return draw_cases(name, module, loops.make_inputs)


export, tool = loops.export, loops.tool


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
