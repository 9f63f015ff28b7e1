#!/usr/bin/env python3
"""Writes into tests/data/onnx modules with recurrent layers over the bands of each step and over the
steps of each band, as dual-path networks of speech have them, and over the letters of each word. Weights
and cases in the manner of conv_exports.py.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import conv_exports
import transposed_exports
from exports import strip_stack_traces, tensor, write_models
from lstm_modules import WORDS

BATCH = {0: "batch"}
TIMED = {0: "batch", 1: "time"}
BINS = transposed_exports.BINS
LETTERS = 5  # of a word
BANDS = 4  # what a convolution of stride 2 leaves of the bins


class Grouped(nn.Module):
    """two GRUs side by side, each over half of the features, as of GTCRN"""

    def __init__(self, width, hidden, bidirectional):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.GRU(width // 2, hidden // 2, batch_first=True, bidirectional=bidirectional) for _ in range(2)
        )

    def forward(self, x):
        halves = torch.chunk(x, 2, -1)
        return torch.cat([layer(half)[0] for layer, half in zip(self.layers, halves)], -1)


class Block(nn.Module):
    """over the bands, then over the steps; behind each a Linear, a norm and what came in"""

    def __init__(self, inner, outer, width, left):
        super().__init__()
        self.inner, self.outer = inner, outer
        self.inner_head, self.outer_head = nn.Linear(left[0], width), nn.Linear(left[1], width)
        self.inner_norm, self.outer_norm = nn.LayerNorm((BANDS, width)), nn.LayerNorm((BANDS, width))

    def forward(self, x):  # [batch, time, bands, width]
        batch, time, bands, width = x.shape
        y = self.inner_head(self.inner(x.reshape(batch * time, bands, width)))
        x = x + self.inner_norm(y.view(batch, -1, bands, width))
        y = self.outer_head(self.outer(x.permute(0, 2, 1, 3).reshape(batch * bands, -1, width)))
        return x + self.outer_norm(y.view(batch, bands, -1, width).permute(0, 2, 1, 3))


class Layer(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


class Masked(nn.Module):
    """a convolution over bins, two blocks of grouped GRUs over bands and steps, a transposed one: a mask"""

    kind, outputs = "spectrum", {"y": {0: "batch", 2: "time"}}

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 4, (1, 3), (1, 2))
        self.blocks = nn.Sequential(
            *(Block(Grouped(4, 4, True), Grouped(4, 4, False), 4, (8, 4)) for _ in range(2))
        )
        self.up = nn.ConvTranspose2d(4, 1, (1, 3), (1, 2))

    def forward(self, x):
        y = torch.relu(self.down(x)).permute(0, 2, 3, 1)
        return torch.sigmoid(self.up(self.blocks(y).permute(0, 3, 1, 2))) * x


class Both(nn.Module):
    """LSTMs in both directions over bands and over steps, causal convolutions before them; a Linear over all bands"""

    kind, outputs = "spectrum", {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 6, (2, 3), (1, 2))
        self.block = Block(
            Layer(nn.LSTM(6, 5, batch_first=True, bidirectional=True)),
            Layer(nn.LSTM(6, 7, batch_first=True, bidirectional=True)),
            6,
            (10, 14),
        )
        self.head = nn.Linear(6 * BANDS, 3)

    def forward(self, x):
        y = torch.tanh(self.down(functional.pad(x, (0, 0, 1, 0)))).permute(0, 2, 3, 1)
        return self.head(self.block(y).flatten(2))


class Deep(nn.Module):
    """two RNN layers over bands, time first, whose last states go to two GRU layers; another two go along each band"""

    kind, outputs = "spectrum", {"y": TIMED, "z": TIMED, "hn": BATCH}

    def __init__(self):
        super().__init__()
        self.inner = nn.RNN(3, 5, 2, nonlinearity="relu", bidirectional=True)
        self.all = nn.GRU(10, 6, 2, batch_first=True)
        self.each = nn.GRU(10, 4, 2, bidirectional=True)

    def forward(self, x):
        batch, _, time, bins = x.shape
        bands = x.reshape(batch * time, bins // 3, 3).transpose(0, 1)
        y, hn = self.inner(bands)
        last = torch.cat([hn[2], hn[3]], 1).reshape(batch, time, 10)
        steps = y.reshape(bins // 3, batch, time, 10).permute(2, 1, 0, 3)
        z, state = self.each(steps.reshape(time, batch * (bins // 3), 10))
        z = z.reshape(time, batch, -1).transpose(0, 1)
        state = state[-1].reshape(batch, -1)
        return self.all(last)[0], z, state


class Lone(nn.Module):
    """an LSTM over the bands of each step, and no other layer: its last state, the mean over the bands"""

    kind, outputs = "spectrum", {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 6, batch_first=True)

    def forward(self, x):
        batch, _, time, bins = x.shape
        y, (hn, _) = self.lstm(x.reshape(batch * time, bins, 1))
        return torch.cat([hn[0], y.mean(1)], 1).reshape(batch, time, 12)


class Frames(nn.Module):
    """small pictures, one a step: convolutions over both of their axes, a depthwise one and one of stride 2; a GRU"""

    kind, outputs = "frames", {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=(0, 1))
        self.depth = nn.Conv2d(4, 4, (2, 3), padding=(1, 0), groups=4)
        self.last = nn.Conv2d(4, 3, 2, (2, 1), dilation=(1, 2))
        self.gru = nn.GRU(18, 5, batch_first=True)

    def forward(self, x):
        batch, time, channels, height, width = x.shape
        y = torch.relu(self.first(x.reshape(batch * time, channels, height, width)))
        y = torch.tanh(self.last(torch.relu(self.depth(y))))
        return self.gru(y.reshape(batch, time, -1))[0]


class Spelled(nn.Module):
    """ids of the letters of each word; an LSTM in both directions over them, its last states to one over the words"""

    kind, outputs = "letters", {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 4)
        self.letters = nn.LSTM(4, 3, batch_first=True, bidirectional=True)
        self.words = nn.LSTM(6, 5, batch_first=True)

    def forward(self, x):
        batch, time, letters = x.shape
        _, (hn, _) = self.letters(self.embedding(x.reshape(batch * time, letters)))
        return self.words(hn.permute(1, 0, 2).reshape(batch, time, -1))[0]


class Document(nn.Module):
    """ids of the words of each sentence; a GRU over them, attention over what it leaves, a GRU over the sentences"""

    kind, outputs = "letters", {"y": BATCH}

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 4)
        self.words = nn.GRU(4, 4, batch_first=True, bidirectional=True)
        self.key, self.score = nn.Linear(8, 6), nn.Linear(6, 1, bias=False)
        self.sentences = nn.GRU(8, 5, batch_first=True)

    def forward(self, x):
        batch, time, words = x.shape
        y = self.words(self.embedding(x).reshape(batch * time, words, 4))[0]
        weights = torch.softmax(self.score(torch.tanh(self.key(y))), 1)
        y = (weights * y).sum(1).reshape(batch, time, 8)
        return self.sentences(y)[1][0]


class Stream(nn.Module):
    """one frame at a time, all sizes stated: the last two frames and the state of each band come with it and go back"""

    kind, outputs = "stream", {"y": None, "cache_out": None, "depth_out": None, "h_out": None}

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, (1, 2))
        self.depth = nn.Conv2d(4, 4, (2, 3), padding=(0, 1), groups=4)
        self.inner = nn.GRU(4, 3, batch_first=True, bidirectional=True)
        self.outer = nn.GRU(6, 5, batch_first=True)
        self.up = nn.ConvTranspose2d(5, 1, (1, 3), (1, 2))

    def forward(self, x, cache, depth, h):
        frames = torch.cat([cache, x], 2)
        y = torch.relu(self.down(frames))
        deep = torch.cat([depth, y], 2)
        y = torch.tanh(self.depth(deep)).permute(0, 2, 3, 1)
        y = self.inner(y.reshape(y.size(0) * y.size(1), BANDS, 4))[0].reshape(1, 1, BANDS, 6)
        y, h = self.outer(y.permute(0, 2, 1, 3).reshape(BANDS, 1, 6), h)
        y = self.up(y.reshape(1, BANDS, 1, 5).permute(0, 3, 2, 1))
        return torch.sigmoid(y) * x, frames[:, :, 1:], deep[:, :, 1:], h


STREAM = {"x": (1, 1, 1, BINS), "cache": (1, 1, 2, BINS), "depth": (1, 4, 1, BANDS), "h": (1, BANDS, 5)}


def make_stream(module, generator):
    """Frames of one stream, each with what the one before has left."""
    given = [torch.zeros(shape) for shape in STREAM.values()]
    cases = []
    for _ in range(4):
        given[0] = torch.randint(-8, 9, STREAM["x"], generator=generator) / 8
        with torch.no_grad():
            outputs = module(*given)
        inputs = [tensor(name, value) for name, value in zip(STREAM, given)]
        cases.append({"inputs": inputs, "outputs": [tensor(n, v) for n, v in zip(module.outputs, outputs)]})
        given = [given[0], *outputs[1:]]
    return cases


MODULES = {
    "bands_both": Both,
    "bands_deep": Deep,
    "bands_document": Document,
    "bands_frames": Frames,
    "bands_lone": Lone,
    "bands_masked": Masked,
    "bands_spelled": Spelled,
    "bands_stream": Stream,
}


def make_input(module, batch, time, generator):
    if module.kind == "letters":
        return torch.randint(0, WORDS, (batch, time, LETTERS), generator=generator)
    if module.kind == "frames":
        return torch.randint(-8, 9, (batch, time, 2, 5, 7), generator=generator) / 8
    return transposed_exports.make_input(module, batch, time, generator)


def make_module(name):
    return conv_exports.make_module(name, MODULES)


def make_cases(name, module):
    if module.kind == "stream":
        return make_stream(module, torch.Generator().manual_seed(5))
    return conv_exports.make_cases(name, module, make_input)


def export(module, path, opset):
    if module.kind == "stream":
        names = {"input_names": list(STREAM), "output_names": list(module.outputs)}
        example = tuple(torch.zeros(shape) for shape in STREAM.values())
        torch.onnx.export(module, example, str(path), opset_version=opset, **names)
        strip_stack_traces(path)
        return
    axes = {0: "batch", 2: "time"} if module.kind == "spectrum" else {0: "batch", 1: "time"}
    conv_exports.export(module, path, opset, make_input, axes)

if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
