#!/usr/bin/env python3
"""Writes into tests/data/onnx modules whose steps are pictures, as the frames of a video: convolutions
and pools over both axes of each frame, before a recurrent layer or within a cell. Weights and cases in
the manner of exports.py, one run under each PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import conv_exports
from exports import SAMPLE, draw_cases, export_open, write_models
from lstm_modules import CLASSES, HIDDEN

BATCH = {0: "batch"}
TIMED = {0: "batch", 1: "time"}


def block(inputs, outputs, kernel, stride=1, padding=0, **more):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, padding, **more), nn.BatchNorm2d(outputs), nn.ReLU())


class Frames(nn.Module):
    """frames one by one through self.frame, then a GRU over what it leaves of each"""

    inputs, outputs = {"x": TIMED}, {"y": TIMED}

    def __init__(self, frame, left):
        super().__init__()
        self.frame = frame
        self.rnn = nn.GRU(left, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        batch, steps = x.shape[:2]
        y = self.frame(x.reshape(batch * steps, *x.shape[2:])).reshape(batch, steps, -1)
        return self.head(self.rnn(y)[0])


class Plain(Frames):
    """two convolutions and pools, one place left of each frame"""

    frame_shape = (1, 12, 11)

    def __init__(self):
        pool = nn.MaxPool2d(2)
        super().__init__(nn.Sequential(block(1, 3, 3, padding=1), pool, block(3, 4, 3), nn.AdaptiveAvgPool2d(1)), 4)


class Shuffled(Frames):
    """frames of a quarter of the places and four times the channels (PixelUnshuffle), a convolution, and back (PixelShuffle)"""

    frame_shape = (2, 6, 8)

    def __init__(self):
        frame = nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(8, 4, 3), nn.Tanh(), nn.PixelShuffle(2))
        super().__init__(frame, 8)


class Strided(Frames):
    """strides and paddings that differ along both axes, kernels of even size; all that is left as features"""

    frame_shape = (2, 13, 14)

    def __init__(self):
        first = nn.Conv2d(2, 3, (5, 2), stride=(2, 3), padding=(2, 1))
        super().__init__(nn.Sequential(first, nn.Tanh(), nn.Conv2d(3, 4, (2, 4), stride=(3, 1))), 16)


class Dilated(Frames):
    """kernels whose taps stand apart, along one axis and along both"""

    frame_shape = (2, 12, 12)

    def __init__(self):
        first = nn.Conv2d(2, 3, 3, padding=2, dilation=2)
        super().__init__(nn.Sequential(first, nn.ReLU(), nn.Conv2d(3, 2, (3, 2), stride=2, dilation=(1, 3))), 50)


class Depthwise(Frames):
    """MobileNet v2 (Sandler et al. 2018) in small: depthwise convolutions between those of one place, shortcuts"""

    frame_shape = (3, 16, 15)

    class Inverted(nn.Module):
        def __init__(self, width, stride):
            super().__init__()
            wide = nn.Conv2d(2 * width, 2 * width, 3, stride, 1, groups=2 * width, bias=False)
            self.path = nn.Sequential(
                nn.Conv2d(width, 2 * width, 1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU6(),
                wide, nn.BatchNorm2d(2 * width), nn.ReLU6(), nn.Conv2d(2 * width, width, 1),
            )  # fmt: skip
            self.is_shortcut = stride == 1

        def forward(self, x):
            return x + self.path(x) if self.is_shortcut else self.path(x)

    def __init__(self):
        path = [block(3, 4, 3, 2, 1), self.Inverted(4, 1), self.Inverted(4, 2), nn.AdaptiveAvgPool2d(1)]
        super().__init__(nn.Sequential(*path), 4)


class Residual(Frames):
    """ResNet (He et al. 2016) in small: shortcuts past two convolutions, one of them with a stride"""

    frame_shape = (1, 12, 12)

    class Basic(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.first, self.norm = block(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs)
            self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
            self.past = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

        def forward(self, x):
            return torch.relu(self.norm(self.second(self.first(x))) + self.past(x))

    def __init__(self):
        path = [block(1, 3, 5, padding=2), self.Basic(3, 3, 1), self.Basic(3, 4, 2), nn.AdaptiveMaxPool2d(1)]
        super().__init__(nn.Sequential(*path), 4)


class Pooled(Frames):
    """pools that overlap, with padding that counts and does not, with sizes rounded up"""

    frame_shape = (2, 17, 15)

    def __init__(self):
        path = [
            nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.MaxPool2d(3, 1, 1), nn.Conv2d(2, 3, 3),
            nn.AvgPool2d((2, 3), (2, 1), (0, 1)), nn.MaxPool2d(2, 2, ceil_mode=True),
        ]  # fmt: skip
        super().__init__(nn.Sequential(*path), 18)


class Mixed(Frames):
    """branches with kernels of several sizes side by side, gates by what each channel is on the whole"""

    frame_shape = (3, 9, 10)

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.of_one = nn.Conv2d(3, 2, 1)
            self.wide = nn.Conv2d(3, 2, (1, 5), padding=(0, 2))
            self.high = nn.Conv2d(3, 2, (5, 1), padding=(2, 0))
            self.gate = nn.Conv2d(9, 9, 1)

        def forward(self, x):
            y = torch.cat([self.of_one(x), self.wide(x), self.high(x), functional.max_pool2d(x, 3, 1, 1)], 1)
            return y * torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))

    def __init__(self):
        super().__init__(nn.Sequential(self.Branches(), nn.Conv2d(9, 4, 3), nn.AdaptiveAvgPool2d(1)), 4)


class Grown(Frames):
    """an hourglass: to half the size, and back by repeating and by a transposed convolution"""

    frame_shape = (1, 8, 10)

    def __init__(self):
        path = [nn.Conv2d(1, 3, 3, 2, 1), nn.ReLU(), nn.Upsample(scale_factor=2), nn.ConvTranspose2d(3, 1, 3, padding=1)]
        super().__init__(nn.Sequential(*path), 80)


class Between(Frames):
    """an hourglass that grows back by elements between two, to twice the size and then to the first"""

    frame_shape = (1, 9, 8)

    def __init__(self):
        between = {"mode": "bilinear", "align_corners": True}
        path = [
            nn.Conv2d(1, 3, 3, 2, 1), nn.ReLU(), nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Conv2d(3, 2, 3, padding=1), nn.Upsample((9, 8), **between),
        ]  # fmt: skip
        super().__init__(nn.Sequential(*path), 144)


class Doubled(Frames):
    """twice to half the size, and back by transposed convolutions with strides, as autoencoders of frames"""

    frame_shape = (1, 9, 8)

    def __init__(self):
        path = [
            nn.Conv2d(1, 3, 3, 2, 1), nn.ReLU(), nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(4, 3, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(3, 1, 4, 2, 1),
        ]  # fmt: skip
        super().__init__(nn.Sequential(*path), 60)


class Last(Frames):
    """frames whose channels come last, padded by reflection"""

    frame_shape = (9, 8, 2)

    def __init__(self):
        super().__init__(nn.Sequential(nn.ReflectionPad2d((1, 2, 1, 0)), nn.Conv2d(2, 3, 3, 2)), 60)

    def forward(self, x):
        return super().forward(x.permute(0, 1, 4, 2, 3))


class ConvCell(nn.Module):
    """the cell of a convolutional LSTM (Shi et al. 2015), whose states the caller keeps"""

    inputs, outputs = dict.fromkeys("xhc", BATCH), {"y": BATCH, "hn": BATCH, "cn": BATCH}
    channels = 2

    def __init__(self):
        super().__init__()
        self.gates = nn.Conv2d(1 + self.channels, 4 * self.channels, 3, padding=1)
        self.head = nn.Conv2d(self.channels, 1, 1)

    def step(self, x, h, c):
        i, f, o, g = self.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, x, h, c):
        h, c = self.step(x, h, c)
        return self.head(h), h, c


class ConvSteps(ConvCell):
    """three steps of that cell, written out"""

    inputs, outputs = {"x": BATCH}, {"y": BATCH}

    def forward(self, x):
        h = torch.zeros(x.shape[0], self.channels, *x.shape[3:])
        c = torch.zeros_like(h)
        for step in range(3):
            h, c = self.step(x[:, step], h, c)
        return self.head(h)


MODULES = {
    "frames": Plain,
    "frames_between": Between,
    "frames_cell": ConvCell,
    "frames_depthwise": Depthwise,
    "frames_dilated": Dilated,
    "frames_doubled": Doubled,
    "frames_grown": Grown,
    "frames_last": Last,
    "frames_mixed": Mixed,
    "frames_pooled": Pooled,
    "frames_residual": Residual,
    "frames_shuffled": Shuffled,
    "frames_steps": ConvSteps,
    "frames_strided": Strided,
}


def make_module(name):
    return conv_exports.make_module(name, MODULES)


def make_inputs(module, batch, time, generator):
    if isinstance(module, Frames):
        shapes = [(batch, time, *module.frame_shape)]
    elif isinstance(module, ConvSteps):
        shapes = [(batch, 3, 1, 6, 7)]
    else:
        shapes = [(batch, n, 6, 7) for n in (1, module.channels, module.channels)]
    return tuple(torch.randint(-8, 9, shape, generator=generator) / 8 for shape in shapes)


def make_cases(name, module):
    return draw_cases(name, module, make_inputs)


def export(module, path, opset):
    export_open(module, path, opset, make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
