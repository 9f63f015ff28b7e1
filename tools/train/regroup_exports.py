#!/usr/bin/env python3
"""Writes into tests/data/onnx modules that group the steps of a sequence anew: parts of each as steps,
frames of some of them, phases of a stated window, words of sentences. Weights and cases in the manner
of exports.py, one run under each PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import conv_exports
from exports import draw_cases, export_open, write_models
from golden import CASES
from lstm_modules import CLASSES, HIDDEN, INPUT, WORDS

BATCH = {0: "batch"}
TIMED = {0: "batch", 1: "time"}


class LSTNet(nn.Module):
    """LSTNet (Lai et al. 2018): a GRU over a window, one over each of its phases, and a linear part beside both"""

    inputs, outputs, window = {"x": BATCH}, {"y": BATCH}, 14

    def __init__(self, phases=3, linear=5):
        super().__init__()
        self.phases, self.linear, self.periods = phases, linear, (self.window - 2) // phases
        self.conv = nn.Conv2d(1, 4, (3, INPUT))
        self.rnn, self.skip = nn.GRU(4, HIDDEN), nn.GRU(4, 2)
        self.head, self.highway = nn.Linear(HIDDEN + 2 * phases, INPUT), nn.Linear(linear, 1)

    def forward(self, x):
        batch = x.size(0)
        c = torch.relu(self.conv(x.view(-1, 1, self.window, INPUT))).squeeze(3)
        last = self.rnn(c.permute(2, 0, 1).contiguous())[1].squeeze(0)
        s = c[:, :, -self.periods * self.phases :].contiguous()
        s = s.view(batch, 4, self.periods, self.phases).permute(2, 0, 3, 1).contiguous()
        s = self.skip(s.view(self.periods, batch * self.phases, 4))[1].view(batch, self.phases * 2)
        z = x[:, -self.linear :, :].permute(0, 2, 1).contiguous().view(-1, self.linear)
        return self.head(torch.cat((last, s), 1)) + self.highway(z).view(-1, INPUT)


class Shuffled(nn.Module):
    """twice as many steps, of half of the features each; then frames of two of them"""

    inputs, outputs = {"x": TIMED}, {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.wide = nn.Linear(INPUT, 6)
        self.fine, self.coarse = nn.GRU(3, HIDDEN, batch_first=True), nn.GRU(2 * HIDDEN, CLASSES, batch_first=True)

    def forward(self, x):
        batch, steps = x.shape[:2]
        y = self.fine(self.wide(x).reshape(batch, 2 * steps, 3))[0]
        return self.coarse(y.reshape(batch, steps, 2 * HIDDEN))[0]


class Pixels(nn.Module):
    """channels before the steps, of which two make one more step; a convolution over these"""

    inputs, outputs = {"x": TIMED}, {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.wide, self.conv = nn.Conv1d(INPUT, 6, 3, padding=1), nn.Conv1d(3, 4, 3, padding=1)
        self.rnn = nn.GRU(4, HIDDEN, batch_first=True)

    def forward(self, x):
        y = self.wide(x.transpose(1, 2))
        batch, channels, steps = y.shape
        y = y.view(batch, channels // 2, 2, steps).permute(0, 1, 3, 2).reshape(batch, channels // 2, steps * 2)
        return self.rnn(torch.relu(self.conv(y)).transpose(1, 2))[0]


class Repeated(nn.Module):
    """each step three times"""

    inputs, outputs = {"x": TIMED}, {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(INPUT, HIDDEN, batch_first=True)

    def forward(self, x):
        return self.rnn(x.repeat_interleave(3, 1))[0]


class Halves(nn.Module):
    """SCINet's block (Liu et al. 2022), twice: even and odd steps, each scaled by the other, put together again"""

    inputs, outputs = {"x": TIMED}, {"y": TIMED}
    shapes, sample = [(1, 4), (2, 12), (3, 16)], (2, 12)

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(INPUT, INPUT, 3, padding=1) for _ in range(4)])
        self.rnn = nn.GRU(INPUT, HIDDEN, batch_first=True)

    def forward(self, x):
        y = x.transpose(1, 2)
        even, odd = y[:, :, ::2], y[:, :, 1::2]
        left = even * torch.exp(torch.tanh(self.convs[0](odd)))
        right = odd - torch.tanh(self.convs[1](left))
        x = x + torch.stack([left, right], 3).flatten(2).transpose(1, 2)
        even, odd = x[:, ::2].transpose(1, 2), x[:, 1::2].transpose(1, 2)
        left = even * torch.exp(torch.tanh(self.convs[2](odd)))
        right = odd - torch.tanh(self.convs[3](left))
        return self.rnn(x + torch.stack([left, right], 3).permute(0, 2, 3, 1).flatten(1, 2))[0]


class Samples(nn.Module):
    """some samples of each frame, one behind the other, smoothed by a convolution"""

    inputs, outputs = {"x": TIMED}, {"y": {0: "batch", 1: "samples"}}

    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(INPUT, HIDDEN, batch_first=True), nn.Linear(HIDDEN, 5)
        self.smooth = nn.Conv1d(1, 1, 3, padding=1)

    def forward(self, x):
        return self.smooth(self.head(self.rnn(x)[0]).flatten(1).unsqueeze(1)).squeeze(1)


class Pairs(nn.Module):
    """what two steps have in common, and the largest of three, by views of four dimensions"""

    inputs, outputs = {"x": TIMED}, {"y": TIMED}
    shapes, sample = [(1, 6), (2, 12), (3, 18)], (2, 12)

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.GRU(INPUT, HIDDEN, batch_first=True), nn.GRU(HIDDEN, CLASSES, batch_first=True)

    def forward(self, x):
        batch, steps, width = x.shape
        y = self.first(x.view(batch, -1, 2, width).mean(2))[0]
        return self.second(y.view(batch, steps // 6, 3, HIDDEN).amax(2))[0]


class Phases(nn.Module):
    """a stated window in three parts, of which the steps are those within"""

    inputs, outputs, window = {"x": BATCH}, {"y": BATCH}, 12

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.GRU(INPUT, HIDDEN, batch_first=True), nn.GRU(3 * HIDDEN, CLASSES, batch_first=True)

    def forward(self, x):
        y = self.first(x)[0].reshape(-1, 3, 4, HIDDEN).permute(0, 2, 1, 3).reshape(-1, 4, 3 * HIDDEN)
        return self.second(y)[0]


class Means(nn.Module):
    """means of each four steps of a stated window, all of them in a linear layer"""

    inputs, outputs, window = {"x": BATCH}, {"y": BATCH}, 12

    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(INPUT, HIDDEN, batch_first=True), nn.Linear(3 * HIDDEN, CLASSES)

    def forward(self, x):
        return self.head(self.rnn(x)[0].reshape(-1, 3, 4, HIDDEN).mean(2).flatten(1))


class Patches(nn.Module):
    """patches of each channel of a stated window as steps, each channel by itself"""

    inputs, outputs, window = {"x": BATCH}, {"y": BATCH}, 12

    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Linear(4, 5), nn.GRU(5, HIDDEN, batch_first=True)

    def forward(self, x):
        y = self.embed(x.permute(0, 2, 1).reshape(-1, 3, 4))
        return self.rnn(y)[0][:, -1].reshape(-1, INPUT, HIDDEN)


class Sentences(nn.Module):
    """words of three sentences of five words each: a layer over the words, one over the sentences"""

    inputs, outputs = {"x": BATCH}, {"y": BATCH}

    def __init__(self):
        super().__init__()
        self.embedding, self.words = nn.Embedding(WORDS, INPUT), nn.GRU(INPUT, HIDDEN, batch_first=True)
        self.sentences = nn.GRU(HIDDEN, CLASSES, batch_first=True)

    def forward(self, x):
        y = self.words(self.embedding(x).reshape(-1, 5, INPUT))[1][0]
        return self.sentences(functional.relu(y).reshape(-1, 3, HIDDEN))[0]


class Pyramid(nn.Module):
    """a listener's pyramid (Chan et al. 2016): two steps as one, without one that is left over (`% 2`)"""

    inputs, outputs, shapes = {"x": TIMED}, {"y": {0: "batch", 1: "half"}}, [(1, 2), (2, 5), (3, 8)]

    def __init__(self):
        super().__init__()
        self.fine, self.coarse = (
            nn.GRU(width, HIDDEN // 2, bidirectional=True, batch_first=True) for width in (INPUT, 2 * HIDDEN)
        )

    def forward(self, x):
        h = self.fine(x)[0]
        steps = h.size(1) - h.size(1) % 2
        h = h[:, :steps].contiguous().view(h.size(0), steps // 2, 2 * HIDDEN)
        return self.coarse(h)[0]


class Segments(nn.Module):
    """SegRNN (Lin et al. 2023) in small: a GRU over the segments of each reading, and from its state, twice, what
    comes in each of two segments, which are told apart by constants; the readings' batch is that of all"""

    inputs, outputs, window = {"x": BATCH}, {"y": BATCH}, 12

    def __init__(self):
        super().__init__()
        self.wide, self.gru = nn.Linear(4, HIDDEN), nn.GRU(HIDDEN, HIDDEN, batch_first=True)
        self.places, self.readings = nn.Parameter(torch.zeros(2, 3)), nn.Parameter(torch.zeros(INPUT, HIDDEN - 3))
        self.head = nn.Linear(HIDDEN, 4)

    def forward(self, x):
        batch, last = x.size(0), x[:, -1:]
        rows = torch.relu(self.wide((x - last).permute(0, 2, 1).reshape(-1, 3, 4)))
        state = self.gru(rows)[1]
        told = [self.places.unsqueeze(0).repeat(INPUT, 1, 1), self.readings.unsqueeze(1).repeat(1, 2, 1)]
        told = torch.cat(told, -1).view(-1, 1, HIDDEN).repeat(batch, 1, 1)
        y = self.head(self.gru(told, state.repeat(1, 1, 2).view(1, -1, HIDDEN))[1])
        return y.view(-1, INPUT, 8).permute(0, 2, 1) + last


class Embedded(nn.Module):
    """deep clustering (Hershey et al. 2016) in small: for each bin of each frame a vector of length 1, all bins of
    all frames behind each other"""

    inputs, outputs = {"x": TIMED}, {"y": {0: "batch", 1: "bins"}}

    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(INPUT, HIDDEN, batch_first=True), nn.Linear(HIDDEN, INPUT * 3)

    def forward(self, x):
        y = torch.sigmoid(self.head(self.gru(x)[0])).view(x.size(0), -1, 3)
        return functional.normalize(y, dim=2)


MODULES = {
    "regroup_embedded": Embedded,
    "regroup_halves": Halves,
    "regroup_lstnet": LSTNet,
    "regroup_means": Means,
    "regroup_pairs": Pairs,
    "regroup_patches": Patches,
    "regroup_phases": Phases,
    "regroup_pixels": Pixels,
    "regroup_pyramid": Pyramid,
    "regroup_repeated": Repeated,
    "regroup_samples": Samples,
    "regroup_segments": Segments,
    "regroup_sentences": Sentences,
    "regroup_shuffled": Shuffled,
}


def make_module(name):
    return conv_exports.make_module(name, MODULES)


def make_inputs(module, batch, time, generator):
    if isinstance(module, Sentences):
        return (torch.randint(0, WORDS, (batch, 3, 5), generator=generator),)
    steps = getattr(module, "window", time)
    return (torch.randint(-8, 9, (batch, steps, INPUT), generator=generator) / 8,)


def make_cases(name, module):
    return draw_cases(name, module, make_inputs, getattr(module, "shapes", CASES))


def export(module, path, opset):
    # of one row: PyTorch 1.13 writes the batch of the sample into the states of a GRU
    sample = getattr(module, "sample", (1 if opset == 17 else 2, 4))
    export_open(module, path, opset, make_inputs(module, *sample, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
