#!/usr/bin/env python3
"""Writes into tests/data/onnx cells of the last years as people write them, a loop in Python over time:
state spaces, exponential gates, matrices as states, linear and liquid units. Scripted and exported as
loops.py does it. Weights and cases in the manner of exports.py.
"""

import math
import sys
from typing import List

import torch
from torch import Tensor, nn
from torch.nn import functional

import loops
from exports import draw_cases, draw_weights, write_models
from lstm_modules import INPUT

BATCH_FIRST = {0: "batch", 1: "time"}
UNITS = 4


class Cell(nn.Module):
    inputs, outputs = {"x": ("x_batch_first", BATCH_FIRST)}, {"y": BATCH_FIRST}


class Mamba(Cell):
    """a block of Mamba (Gu, Dao 2023): a causal convolution, a selective state space, a gate, a shortcut"""

    def __init__(self, wide=8, states=3, rank=2):
        super().__init__()
        self.wide, self.states, self.rank = wide, states, rank
        self.norm, self.over_x = nn.LayerNorm(INPUT), nn.Linear(INPUT, 2 * wide, bias=False)
        self.conv = nn.Conv1d(wide, wide, 4, groups=wide, padding=3)
        self.select, self.rate = nn.Linear(wide, rank + 2 * states, bias=False), nn.Linear(rank, wide)
        self.log_decay, self.past = nn.Parameter(torch.zeros(wide, states)), nn.Parameter(torch.ones(wide))
        self.head = nn.Linear(wide, INPUT, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.over_x(self.norm(x)).split([8, 8], 2)
        u = functional.silu(self.conv(u.transpose(1, 2))[:, :, : x.size(1)].transpose(1, 2))
        rate, b, c = self.select(u).split([2, 3, 3], 2)
        rate = functional.softplus(self.rate(rate))
        decay = -torch.exp(self.log_decay)
        h = torch.zeros(x.size(0), 8, 3)
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            r = rate[:, t].unsqueeze(2)
            h = torch.exp(r * decay) * h + r * b[:, t].unsqueeze(1) * u[:, t].unsqueeze(2)
            steps.append(torch.einsum("bds,bs->bd", h, c[:, t]))
        y = torch.stack(steps, 1) + u * self.past
        return x + self.head(y * functional.silu(gate))


class Exponential(Cell):
    """sLSTM (Beck et al. 2024): exponential gates, kept in bounds by the largest so far"""

    def __init__(self):
        super().__init__()
        self.over_x, self.over_h = nn.Linear(INPUT, 4 * UNITS), nn.Linear(UNITS, 4 * UNITS, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h, c, m = torch.zeros(x.size(0), 4), torch.zeros(x.size(0), 4), torch.zeros(x.size(0), 4)
        n = torch.ones(x.size(0), 4)
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            z, i, f, o = (self.over_x(x[:, t]) + self.over_h(h)).chunk(4, 1)
            f = functional.logsigmoid(f) + m
            m = torch.maximum(f, i)
            i, f = torch.exp(i - m), torch.exp(f - m)
            c, n = f * c + i * torch.tanh(z), f * n + i
            h = torch.sigmoid(o) * c / n
            steps.append(h)
        return torch.stack(steps, 1)


class Matrix(Cell):
    """mLSTM (Beck et al. 2024): the state is a matrix, written by a key and read by a query"""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(INPUT, UNITS) for _ in range(3))
        self.gates, self.out = nn.Linear(INPUT, 2), nn.Linear(INPUT, UNITS)

    def forward(self, x: Tensor) -> Tensor:
        state, norm, m = torch.zeros(x.size(0), 4, 4), torch.zeros(x.size(0), 4), torch.zeros(x.size(0), 1)
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            query, key, value = self.query(x[:, t]), self.key(x[:, t]) / math.sqrt(4.0), self.value(x[:, t])
            i, f = self.gates(x[:, t]).chunk(2, 1)
            f = functional.logsigmoid(f) + m
            m = torch.maximum(f, i)
            i, f = torch.exp(i - m), torch.exp(f - m)
            state = f.unsqueeze(2) * state + i.unsqueeze(2) * (value.unsqueeze(2) * key.unsqueeze(1))
            norm = f * norm + i * key
            found = torch.bmm(state, query.unsqueeze(2)).squeeze(2)
            steps.append(torch.sigmoid(self.out(x[:, t])) * found / (norm * query).sum(1, keepdim=True).abs().clamp(min=1.0))
        return torch.stack(steps, 1)


class Delta(Cell):
    """the delta rule (Schlag et al. 2021): what a key had is replaced, not added to"""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(INPUT, UNITS) for _ in range(3))
        self.rate = nn.Linear(INPUT, 1)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(x.size(0), 4, 4)
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            key = functional.normalize(self.key(x[:, t]), dim=1)
            had = (key.unsqueeze(1) @ state).squeeze(1)
            more = torch.sigmoid(self.rate(x[:, t])) * (self.value(x[:, t]) - had)
            state = state + key.unsqueeze(2) @ more.unsqueeze(1)
            steps.append(torch.einsum("bkv,bk->bv", state, self.query(x[:, t])))
        return torch.stack(steps, 1)


class Mixed(Cell):
    """RWKV 4's mixing over time (Peng et al. 2023), tokens shifted by a padding of 1 and -1"""

    def __init__(self):
        super().__init__()
        self.decay, self.now, self.share = (nn.Parameter(torch.zeros(n)) for n in (INPUT, INPUT, INPUT))
        self.key, self.value, self.gate, self.out = (nn.Linear(INPUT, INPUT, bias=False) for _ in range(4))
        self.shift = nn.ZeroPad2d((0, 0, 1, -1))

    def forward(self, x: Tensor) -> Tensor:
        mixed = x * self.share + self.shift(x) * (1 - self.share)
        k, v, gate = self.key(mixed), self.value(mixed), torch.sigmoid(self.gate(mixed))
        decay = -torch.exp(self.decay)
        above, below = torch.zeros(x.size(0), 6), torch.zeros(x.size(0), 6)
        most = torch.full([x.size(0), 6], -1e30)
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            new = torch.maximum(most, k[:, t] + self.now)
            old, own = torch.exp(most - new), torch.exp(k[:, t] + self.now - new)
            steps.append((old * above + own * v[:, t]) / (old * below + own))
            new = torch.maximum(most + decay, k[:, t])
            old, own = torch.exp(most + decay - new), torch.exp(k[:, t] - new)
            above, below, most = old * above + own * v[:, t], old * below + own, new
        return self.out(gate * torch.stack(steps, 1))


class Liquid(Cell):
    """a closed-form liquid cell (Hasani et al. 2022): the last of x's features is the time since the step before"""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(INPUT - 1 + UNITS, 5)
        self.first, self.second, self.rate, self.offset = (nn.Linear(5, UNITS) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), 4)
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            y = 1.7159 * torch.tanh(0.666 * self.trunk(torch.cat([x[:, t, :-1], h], 1)))
            share = torch.sigmoid(self.rate(y) * x[:, t, -1:] + self.offset(y))
            h = torch.tanh(self.first(y)) * (1 - share) + torch.tanh(self.second(y)) * share
            steps.append(h)
        return torch.stack(steps, 1)


class Linear(Cell):
    """a linear unit with complex eigenvalues (Orvieto et al. 2023), as pairs; minGRU (Feng et al. 2024) above it"""

    def __init__(self):
        super().__init__()
        self.size, self.angle = nn.Parameter(torch.zeros(UNITS)), nn.Parameter(torch.ones(UNITS))
        self.real, self.imaginary = nn.Linear(INPUT, UNITS, bias=False), nn.Linear(INPUT, UNITS, bias=False)
        self.gate, self.new = nn.Linear(2 * UNITS, UNITS), nn.Linear(2 * UNITS, UNITS)

    def forward(self, x: Tensor) -> Tensor:
        size = torch.exp(-torch.exp(self.size))
        a, b, scale = size * torch.cos(self.angle), size * torch.sin(self.angle), torch.sqrt(1 - size * size)
        real, imaginary, h = torch.zeros(x.size(0), 4), torch.zeros(x.size(0), 4), torch.zeros(x.size(0), 4)
        steps: List[Tensor] = []
        for t in range(x.size(1)):
            turned = a * real - b * imaginary + scale * self.real(x[:, t])
            imaginary = a * imaginary + b * real + scale * self.imaginary(x[:, t])
            real = turned
            both = torch.cat([real, imaginary], 1)
            z = torch.sigmoid(self.gate(both))
            h = (1 - z) * h + z * self.new(both)
            steps.append(h)
        return torch.stack(steps, 1)


MODULES = {
    "loop_delta": Delta,
    "loop_exponential": Exponential,
    "loop_linear": Linear,
    "loop_liquid": Liquid,
    "loop_mamba": Mamba,
    "loop_matrix": Matrix,
    "loop_mixed": Mixed,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_cases(name, module):
    return draw_cases(name, module, loops.make_inputs)


export, tool = loops.export, loops.tool


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
