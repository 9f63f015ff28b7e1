#!/usr/bin/env python3
"""Writes into tests/data/onnx what denoisers have: linear layers of groups of the features, rows that are cut as
another tensor is, and a frame of a stream whose bands are unfolded and whose caches are assigned to in parts. Weights and cases in the manner of exports.py, one run under each
PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn

from exports import SAMPLE, draw_cases, draw_weights, export_open, write_models
from lstm_modules import HIDDEN, INPUT

STEPS = {0: "batch", 1: "time"}
GROUPS = 2


class Grouped(nn.Module):
    """a linear layer of each group of the features, all of them one weight and an Einsum"""

    inputs, outputs = {"x": STEPS}, {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.weight = nn.Parameter(torch.zeros(GROUPS, HIDDEN // GROUPS, 3))

    def forward(self, x):
        h = self.rnn(x)[0]
        groups = h.view(h.shape[0], h.shape[1], GROUPS, -1)
        return torch.einsum("btgi,gih->btgh", groups, self.weight).flatten(2)


class Viewed(nn.Module):
    """the features cut into bands as another input is, by its sizes"""

    inputs, outputs = {"x": STEPS, "skip": STEPS}, {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.weight = nn.Parameter(torch.zeros(GROUPS, HIDDEN // GROUPS))

    def forward(self, x, skip):
        b, t, f, _ = skip.shape
        h = torch.tanh(x).matmul(self.rnn.weight_ih_l0[:HIDDEN].t())
        bands = h.view(b, t, f, -1) * self.weight + skip
        return self.rnn(x)[0] + bands.flatten(2)


class Streamed(nn.Module):
    """a frame of a stream, all sizes stated: three bands side by side, a GRU over the bands and one over the
    frames, and a cache of which a part is new"""

    inputs = {"x": {}, "cache": {}, "h0": {}}
    outputs = {"y": {}, "cache_next": {}, "hn": {}}

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, HIDDEN // 2, batch_first=True)
        self.inter = nn.GRU(HIDDEN // 2, HIDDEN // 2, batch_first=True)

    def forward(self, x, cache, h0):
        bands = nn.functional.unfold(x.view(1, 1, 1, BANDS), (1, 3), padding=(0, 1))
        h = self.rnn(bands.transpose(1, 2))[0]
        cache = cache.clone()
        cache[:, :, 1:2] = h.view(1, BANDS, 1, -1)
        cache[:, :, 2:] = cache[:, :, 2:] * 0.5
        frame, hn = self.inter(h.transpose(0, 1), h0)
        return frame.transpose(0, 1) + cache.sum(2), cache, hn


class Regrouped(nn.Module):
    """bands and channels flattened and grouped anew, beside others; a state whose rows the file leaves open, of inputs of one row"""

    inputs = {"x": {1: "time"}, "h0": {1: "rows"}}
    outputs = {"y": {1: "time"}, "hn": {1: "rows"}}

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(GROUPS, 6, 6))
        self.rnn = nn.GRU(12, HIDDEN, batch_first=True)

    def forward(self, x, h0):
        bands = torch.tanh(x.transpose(2, 3)).flatten(2)
        groups = bands.view(bands.shape[0], bands.shape[1], GROUPS, -1)
        mixed = torch.einsum("btgi,gih->btgh", groups, self.weight).flatten(2)
        return self.rnn(torch.relu(mixed) + bands, h0)


class Deconvolved(nn.Module):
    """a frame of a stream beside those before it: transposed convolutions over frames and bands, depthwise and dilated"""

    inputs, outputs = {"x": {}, "h0": {}}, {"y": {}, "hn": {}}

    def __init__(self):
        super().__init__()
        self.wide = nn.ConvTranspose2d(4, 6, (2, 3), dilation=(2, 1), padding=(1, 1), groups=2)
        self.deep = nn.ConvTranspose2d(6, 6, (3, 3), dilation=(2, 1), padding=(4, 1), groups=6)
        self.rnn = nn.GRU(BANDS, HIDDEN, batch_first=True)
        self.inter = nn.GRU(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x, h0):
        x = self.deep(torch.relu(self.wide(x)))
        y = self.rnn(x[:, :, 0])[0]
        frame, hn = self.inter(y.transpose(0, 1), h0)
        return frame, hn


BANDS = 5
MODULES = {"group_deconvolved": Deconvolved, "group_einsum": Grouped, "group_regrouped": Regrouped, "group_streamed": Streamed, "group_viewed": Viewed}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_inputs(module, batch, time, generator):
    if "cache" in module.inputs:
        x = torch.randint(-8, 9, (1, BANDS), generator=generator) / 8
        cache = torch.randint(-8, 9, (1, BANDS, 4, HIDDEN // 2), generator=generator) / 8
        return x, cache, torch.randint(-8, 9, (1, BANDS, HIDDEN // 2), generator=generator) / 8
    if isinstance(module, Deconvolved):
        x = torch.randint(-8, 9, (1, 4, 5, BANDS), generator=generator) / 8
        return x, torch.randint(-8, 9, (1, 6, HIDDEN), generator=generator) / 8
    if isinstance(module, Regrouped):
        x = torch.randint(-8, 9, (1, time, 4, 3), generator=generator) / 8
        return x, torch.randint(-8, 9, (1, 1, HIDDEN), generator=generator) / 8
    x = torch.randint(-8, 9, (batch, time, INPUT), generator=generator) / 8
    skip = torch.randint(-8, 9, (batch, time, GROUPS, HIDDEN // GROUPS), generator=generator) / 8
    return (x, skip) if "skip" in module.inputs else (x,)


def make_cases(name, module):
    if isinstance(module, (Deconvolved, Streamed)):
        return draw_cases(name, module, make_inputs, ((1, 1), (1, 1)))
    if isinstance(module, Regrouped):
        return draw_cases(name, module, make_inputs, ((1, 5), (1, 1), (1, 9)))
    return draw_cases(name, module, make_inputs)


def export(module, path, opset):
    export_open(module, path, opset, make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
