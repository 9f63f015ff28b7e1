#!/usr/bin/env python3
"""Writes into tests/data/onnx ways in which people write loops over time: results assigned into a tensor, steps
taken from the last to the first, lists that grow in front, gates as elements of a list. Scripted and exported as
loops.py does it. Weights and cases in the manner of exports.py.
"""

import sys
from typing import List, Tuple

import torch
from torch import Tensor, nn

import loops
from exports import draw_cases, draw_weights, write_models
from golden import CASES
from lstm_modules import INPUT

BATCH_FIRST = {0: "batch", 1: "time"}
UNITS = 5


class Loop(nn.Module):
    inputs, outputs = {"x": ("x_batch_first", BATCH_FIRST)}, {"y": BATCH_FIRST}

    def __init__(self):
        super().__init__()
        self.over_x, self.over_h = nn.Linear(INPUT, 3 * UNITS), nn.Linear(UNITS, 3 * UNITS)


class Assigned(Loop):
    """out[:, t] = h, and channels first; what is assigned to is read behind the loop"""

    outputs = {"y": BATCH_FIRST, "z": {0: "batch", 2: "time"}}

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        h = torch.zeros(x.size(0), 5)
        out, turned = torch.zeros(x.size(0), x.size(1), 5), torch.empty(x.size(0), 5, x.size(1))
        for t in range(x.size(1)):
            a, b = self.over_x(x[:, t]), self.over_h(h)
            h = torch.tanh(a[:, :5] + b[:, 5:10])
            out[:, t], turned[:, :, t] = h, a[:, 10:]
        return out * 2 + h.unsqueeze(1), turned


class BothWays(Loop):
    """two loops, one down; a loop that begins above what the first has assigned"""

    def forward(self, x: Tensor) -> Tensor:
        h, k = torch.zeros(x.size(0), 5), torch.zeros(x.size(0), 5)
        there, back = torch.zeros(x.size(0), x.size(1), 5), torch.zeros(x.size(0), x.size(1), 5)
        for t in range(x.size(1)):
            h = torch.tanh(self.over_x(x[:, t])[:, :5] + self.over_h(h)[:, 5:10])
            there[:, t] = h
        for t in range(x.size(1) - 1, -1, -1):
            k = torch.tanh(self.over_x(x[:, t])[:, 5:10] + self.over_h(k)[:, :5] + there[:, t])
            back[:, t, :] = k
        return torch.cat([there, back], 2)


class Down(Loop):
    """steps by their number from the end, results put in front of a list"""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), 5)
        steps: List[Tensor] = []
        n = x.size(1)
        for i in range(n):
            h = torch.tanh(self.over_x(x[:, n - 1 - i])[:, :5] + self.over_h(h)[:, 5:10])
            steps.insert(0, h)
        return torch.stack(steps, 1)


class Parts(Loop):
    """gates as elements of chunk(), split() and unbind(); the last result of a list"""

    outputs = {"y": BATCH_FIRST, "z": {0: "batch"}}

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        h = torch.zeros(x.size(0), 5)
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            gates = (self.over_x(x[:, t]) + self.over_h(h)).chunk(3, 1)
            parts = torch.split(gates[0], [2, 3], 1)
            pair = x[:, t].view(-1, 2, 3).unbind(1)
            new = torch.cat([torch.tanh(parts[0]), parts[-1] * pair[1] - pair[0]], 1)
            z = torch.sigmoid(gates[1])
            h = (1 - z) * torch.tanh(new + gates[-1]) + z * h
            steps.append(h)
        return torch.stack(steps, 1), steps[-1]


class Later(Loop):
    """the first step before the loop, which goes over the others; the last result"""

    outputs, more = {"y": {0: "batch", 1: "fewer"}, "z": {0: "batch"}}, 1

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        h = torch.tanh(self.over_x(x[:, 0])[:, :5])
        steps: List[Tensor] = []
        for t in range(1, x.size(1)):
            h = torch.tanh(self.over_x(x[:, t])[:, :5] + self.over_h(h)[:, 5:10] * x[:, t - 1, :1])
            steps.append(h)
        return torch.stack(steps, 1), h


class Between(Loop):
    """what each step differs by from the one before it"""

    outputs, more = {"y": {0: "batch", 1: "fewer"}}, 1

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), 5)
        steps: List[Tensor] = []
        for t in range(x.size(1) - 1):
            h = torch.tanh(self.over_x(x[:, t + 1] - x[:, t])[:, :5] + self.over_h(h)[:, 5:10])
            steps.append(h)
        return torch.stack(steps, 1)


class Begun(Loop):
    """lists that have elements before the loop, one of them two"""

    outputs, more = {"y": BATCH_FIRST, "z": {0: "batch", 1: "longer"}}, 1

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        h = torch.tanh(self.over_x(x[:, 0])[:, :5])
        steps, others = [h], [h.unsqueeze(1)]
        others.append(h.unsqueeze(1) * 2)
        for t in range(1, x.size(1)):
            h = torch.tanh(self.over_x(x[:, t])[:, :5] + self.over_h(h)[:, 5:10])
            steps.append(h)
            others.append(torch.sigmoid(h).unsqueeze(1))
        return torch.stack(steps, 1), torch.cat(others, 1)


MODULES = {
    "loop_assigned": Assigned,
    "loop_begun": Begun,
    "loop_between": Between,
    "loop_both_ways": BothWays,
    "loop_down": Down,
    "loop_later": Later,
    "loop_parts": Parts,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_cases(name, module):
    more = getattr(MODULES[name], "more", 0)  # steps that it has to have besides one
    return draw_cases(name, module, loops.make_inputs, [(batch, time + more) for batch, time in CASES])


export, tool = loops.export, loops.tool


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
