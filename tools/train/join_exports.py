#!/usr/bin/env python3
"""Writes into tests/data/onnx models that join steps to steps: padding by reflection and by the edges, class
tokens, frames kept of before, sequences shifted, turned round and repeated; and rows and features repeated. Weights and cases in the manner of
exports.py, one run under each PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn

from exports import SAMPLE, draw_cases, draw_weights, export_open, write_models
from lstm_modules import HIDDEN, INPUT

STEPS = {0: "batch", 1: "time"}
KEPT = 3  # frames of before
STATED = 10


class Joined(nn.Module):
    """an LSTM over what `join` makes of the sequence"""

    inputs, outputs = {"x": STEPS}, {"y": {0: "batch", 1: "longer"}, "last": {0: "batch"}}
    width = INPUT

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(self.width, HIDDEN, batch_first=True)

    def forward(self, x):
        y, (h, _) = self.rnn(self.join(x))
        return y, h[0]


class Reflected(Joined):
    """padded by reflection, before and behind"""

    def join(self, x):
        return nn.functional.pad(x.transpose(1, 2), (2, 3), mode="reflect").transpose(1, 2)


class Repeated(Joined):
    """padded by the first and the last step, and convolved"""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(INPUT, INPUT, 4)

    def join(self, x):
        x = nn.functional.pad(torch.tanh(x).transpose(1, 2), (3, 1), mode="replicate")
        return self.conv(x).transpose(1, 2)


class Spectrum(Joined):
    """single samples, padded by reflection, and frames of them, whose means are padded by hand with frames turned round"""

    inputs, width = {"x": {0: "batch", 1: "samples"}}, 4

    def __init__(self):
        super().__init__()
        self.frames = nn.Conv1d(1, self.width, 6, stride=2, bias=False)
        self.smooth = nn.Conv1d(1, 1, 5, bias=False)

    def join(self, x):
        x = nn.functional.pad(x.unsqueeze(1), (2, 2), mode="reflect")
        x = torch.tanh(self.frames(x))
        mean = x.mean(dim=1, keepdim=True)
        mean = torch.cat([mean[:, :, 1:3].flip(2), mean, mean[:, :, -3:-1].flip(2)], 2)
        return (x - self.smooth(mean)).transpose(1, 2)


class Classified(Joined):
    """a class token before the sequence and one behind it"""

    def __init__(self):
        super().__init__()
        self.before = nn.Parameter(torch.zeros(1, 1, INPUT))
        self.behind = nn.Parameter(torch.zeros(1, 1, INPUT))

    def join(self, x):
        n = x.shape[0]
        return torch.cat([self.before.expand(n, -1, -1), x, self.behind.expand(n, -1, -1)], 1)


class Cached(nn.Module):
    """a causal convolution over frames that the client keeps, the newest of which are handed out"""

    inputs = {"x": STEPS, "cache": {0: "batch"}}
    outputs = {"y": STEPS, "next": {0: "batch"}}

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(INPUT, INPUT, KEPT + 1)
        self.rnn = nn.LSTM(INPUT, HIDDEN, batch_first=True)

    def forward(self, x, cache):
        joined = torch.cat([cache, x.transpose(1, 2)], 2)
        return self.rnn(self.conv(joined).transpose(1, 2))[0], joined[:, :, -KEPT:]


class Shifted(Joined):
    """each step beside the one before it"""

    width = 2 * INPUT

    def join(self, x):
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        return torch.cat([x, before], 2)


class Mirrored(Joined):
    """the sequence and then the same turned round"""

    def join(self, x):
        return torch.cat([x, x.flip(1)], 1)


class Backwards(nn.Module):
    """a layer over the sequence turned round, whose steps are answered as they come, added to those of the sequence,
    convolved, and read in both directions"""

    inputs = {"x": STEPS}
    outputs = {"y": STEPS, "sum": STEPS, "conv": STEPS, "both": STEPS}

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.linear = nn.Linear(INPUT, HIDDEN)
        self.conv = nn.Conv1d(HIDDEN, 3, 3, padding=1)
        self.both = nn.LSTM(HIDDEN, HIDDEN, batch_first=True, bidirectional=True)

    def forward(self, x):
        y = self.rnn(x.flip(1))[0]
        conv = self.conv(torch.tanh(y).transpose(1, 2)).transpose(1, 2)
        return y, y + self.linear(x), conv, self.both(y)[0]


class Endings(nn.Module):
    """parts of a sequence that is turned round: all but the newest step, and the newest two"""

    inputs = {"x": STEPS}
    outputs = {"y": {0: "batch", 1: "fewer"}, "last": {0: "batch"}}

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(INPUT, HIDDEN, batch_first=True)

    def forward(self, x):
        y = self.rnn(x.flip(1))[0]
        return torch.tanh(y)[:, 1:], self.rnn(x.flip(1)[:, :2])[1][0][0]


class Stated(Joined):
    """of so many steps in each request, of which some come twice"""

    inputs = {"x": {0: "batch"}}
    outputs = {"y": {0: "batch"}, "last": {0: "batch"}}

    def join(self, x):
        return torch.cat([x[:, 4:6].flip(1), torch.tanh(x), x[:, :3]], 1)


class Layered(nn.Module):
    """the state of one layer before the first step of the next"""

    inputs, outputs = {"x": STEPS}, {"y": {0: "batch", 1: "longer"}}

    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.second = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x):
        y, (h, _) = self.first(x)
        return self.second(torch.cat([h.transpose(0, 1), y, h.transpose(0, 1)], 1))[0]


class Spread(nn.Module):
    """a row that is the same at each of a stated number of steps"""

    inputs, outputs = {"x": {0: "batch"}}, {"y": {0: "batch"}}

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(INPUT, HIDDEN, batch_first=True)

    def forward(self, x):
        return self.rnn(torch.tanh(x).expand(-1, STATED, -1))[0]


class Autoencoder(nn.Module):
    """the last row of one layer at as many steps of another, by repeat()"""

    inputs, outputs = {"x": STEPS}, {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.second = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x):
        _, (h, _) = self.first(x)
        return self.second(h[-1].unsqueeze(1).repeat(1, x.shape[1], 1))[0]


class Static(nn.Module):
    """what is known of a whole sequence, twice behind each step of it, with states that are parameters"""

    inputs, outputs = {"x": STEPS, "known": {0: "batch"}}, {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.h, self.c = nn.Parameter(torch.zeros(1, 1, HIDDEN)), nn.Parameter(torch.zeros(1, 1, HIDDEN))
        self.rnn = nn.LSTM(INPUT + 2 * KEPT, HIDDEN, batch_first=True)

    def forward(self, x, known):
        rows = x.shape[0]
        known = known.repeat(1, 2).unsqueeze(1).repeat(1, x.shape[1], 1)
        return self.rnn(torch.cat([x, known], 2), (self.h.repeat(1, rows, 1), self.c.expand(-1, rows, -1).contiguous()))[0]


class Rolled(Joined):
    """each step beside the one before it, the last one before the first, and beside the second behind it"""

    width = 3 * INPUT

    def join(self, x):
        behind = torch.roll(torch.tanh(x).transpose(1, 2), -2, 2).transpose(1, 2)
        return torch.cat([x, torch.roll(x, 1, 1), behind], 2)


class Channels(nn.Module):
    """features repeated where they stand before the steps"""

    inputs, outputs = {"x": STEPS}, {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.first = nn.GRU(INPUT, HIDDEN, batch_first=True)
        self.second = nn.GRU(3 * HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x):
        return self.second(self.first(x)[0].transpose(1, 2).repeat(1, 3, 1).transpose(1, 2))[0]


MODULES = {
    "joined_backwards": Backwards,
    "joined_cached": Cached,
    "joined_classified": Classified,
    "joined_endings": Endings,
    "joined_layered": Layered,
    "joined_mirrored": Mirrored,
    "joined_reflected": Reflected,
    "joined_repeated": Repeated,
    "joined_rolled": Rolled,
    "joined_shifted": Shifted,
    "joined_spectrum": Spectrum,
    "joined_spread": Spread,
    "joined_stated": Stated,
    "repeated_autoencoder": Autoencoder,
    "repeated_channels": Channels,
    "repeated_static": Static,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_inputs(module, batch, time, generator):
    if isinstance(module, Spectrum):
        return (torch.randint(-8, 9, (batch, 7 + 2 * time), generator=generator) / 8,)
    steps = {Stated: STATED, Spread: 1, Reflected: time + 3, Endings: time + 1, Rolled: time + 2}.get(type(module), time)
    x = torch.randint(-8, 9, (batch, steps, INPUT), generator=generator) / 8
    cache = torch.randint(-8, 9, (batch, INPUT, KEPT), generator=generator) / 8
    if isinstance(module, Static):
        return x, cache[:, 0]
    return (x, cache) if isinstance(module, Cached) else (x,)


def make_cases(name, module):
    return draw_cases(name, module, make_inputs)


def export(module, path, opset):
    export_open(module, path, opset, make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
