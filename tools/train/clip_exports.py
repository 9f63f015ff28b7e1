#!/usr/bin/env python3
"""Writes into tests/data/onnx modules over clips of a video, [batch, channels, frames, height, width]:
convolutions and pools over three axes, of which the frames are the steps, before a recurrent layer.
Weights and cases in the manner of exports.py, one run under each PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import conv_exports
from exports import SAMPLE, draw_cases, export_open, write_models
from golden import CASES
from lstm_modules import CLASSES, HIDDEN

BATCH = {0: "batch"}
TIMED = {0: "batch", 1: "time"}
FRAMES = {0: "batch", 2: "time"}


def block(inputs, outputs, kernel, stride=1, padding=0, **more):
    return nn.Sequential(nn.Conv3d(inputs, outputs, kernel, stride, padding, **more), nn.BatchNorm3d(outputs), nn.ReLU())


class Clips(nn.Module):
    """self.clip over all frames, a GRU over what it leaves of each"""

    inputs, outputs = {"x": FRAMES}, {"y": TIMED}
    shapes = CASES

    def __init__(self, clip, left):
        super().__init__()
        self.clip = clip
        self.rnn = nn.GRU(left, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        y = self.clip(x).transpose(1, 2)
        return self.head(self.rnn(y.flatten(2))[0])


class Lips(Clips):
    """LipNet (Assael et al. 2016) in small: windows of frames, strides and pools within each, dropout of channels"""

    clip_shape = (3, 12, 16)

    def __init__(self):
        pool = nn.MaxPool3d((1, 2, 2), (1, 2, 2))
        first = nn.Conv3d(3, 4, (3, 5, 5), (1, 2, 2), (1, 2, 2))
        second = nn.Conv3d(4, 3, 3, padding=1)
        super().__init__(nn.Sequential(first, nn.ReLU(), nn.Dropout3d(), pool, second, nn.ReLU(), pool), 6)


class Front(Clips):
    """a reader of lips (Stafylakis, Tzimiropoulos 2017) in small: one convolution over frames, then frames one by one"""

    clip_shape = (1, 13, 12)

    def __init__(self):
        front = block(1, 4, (5, 7, 7), (1, 2, 2), (2, 3, 3), bias=False)
        super().__init__(nn.Sequential(front, nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1))), 5)
        self.frame = nn.Sequential(nn.Conv2d(4, 5, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))

    def forward(self, x):
        y = self.clip(x).transpose(1, 2)
        batch, steps = y.shape[:2]
        y = self.frame(y.reshape(batch * steps, *y.shape[2:])).reshape(batch, steps, -1)
        return self.head(self.rnn(y)[0])


class Parted(Clips):
    """(2+1)D (Tran et al. 2018): kernels within a frame, then along the frames; shortcuts past both"""

    clip_shape = (2, 8, 9)

    class Path(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.within = block(width, 5, (1, 3, 3), padding=(0, 1, 1), bias=False)
            self.along = nn.Conv3d(5, width, (3, 1, 1), padding=(1, 0, 0))

        def forward(self, x):
            return torch.relu(x + self.along(self.within(x)))

    def __init__(self):
        super().__init__(nn.Sequential(block(2, 3, 3, (1, 2, 2), 1), self.Path(3), self.Path(3)), 60)


class Depthwise(Clips):
    """X3D (Feichtenhofer 2020) in small: each channel for itself over all three axes, gates of channels"""

    clip_shape = (2, 7, 8)

    def __init__(self):
        path = [
            nn.Conv3d(2, 4, 1), nn.ReLU(), nn.Conv3d(4, 4, 3, (1, 2, 1), 1, groups=4, bias=False), nn.BatchNorm3d(4), nn.SiLU(),
            nn.Conv3d(4, 6, (3, 1, 3), padding=(1, 0, 1), groups=2),
        ]  # fmt: skip
        super().__init__(nn.Sequential(*path), 192)


class Strided(Clips):
    """fewer frames than came: a stride of two along them, then a pool; dilations along all three axes"""

    clip_shape = (1, 11, 10)

    def __init__(self):
        path = [
            nn.Conv3d(1, 3, (3, 3, 2), (2, 2, 2), (1, 1, 0)), nn.Tanh(), nn.Conv3d(3, 4, (2, 3, 3), padding=(2, 2, 2), dilation=2),
            nn.MaxPool3d((3, 2, 2), (2, 2, 1), (1, 0, 0)),
        ]  # fmt: skip
        super().__init__(nn.Sequential(*path), 48)


class Pooled(Clips):
    """means and largest over all three axes, with padding that counts and does not"""

    clip_shape, shapes = (2, 9, 8), [(1, 3), *CASES[1:]]

    def __init__(self):
        path = [
            nn.AvgPool3d(3, 1, 1, count_include_pad=False), nn.Conv3d(2, 3, (1, 2, 2)), nn.MaxPool3d(3, 1, 1),
            nn.AvgPool3d((2, 3, 2), (1, 2, 2), (1, 1, 0)), nn.AvgPool3d((1, 4, 3)),
        ]  # fmt: skip
        super().__init__(nn.Sequential(*path), 3)


class Causal(Clips):
    """frames of before alone: zeros before the first one, none behind the last"""

    clip_shape = (2, 6, 7)

    def __init__(self):
        super().__init__(nn.Sequential(nn.Conv3d(2, 3, (3, 3, 3)), nn.ReLU()), 60)

    def forward(self, x):
        return super().forward(functional.pad(x, (0, 0, 0, 0, 2, 0)))


class Whole(Clips):
    """all frames' convolutions, one answer a clip from the mean over all three axes beside the GRU's last state"""

    clip_shape, outputs = (1, 8, 8), {"y": BATCH}

    def __init__(self):
        super().__init__(block(1, 3, 3, (1, 2, 2), 1), 48)
        self.head = nn.Linear(HIDDEN + 3, CLASSES)

    def forward(self, x):
        y = self.clip(x)
        last = self.rnn(y.transpose(1, 2).flatten(2))[1][0]
        return self.head(torch.cat([last, y.mean((2, 3, 4))], 1))


class Gated(Clips):
    """each channel times a gate (squeeze and excitation, Hu et al. 2018): convolutions of the means over all three axes"""

    clip_shape = (2, 7, 6)

    class Gate(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.path = nn.Sequential(nn.Conv3d(width, 2, 1), nn.ReLU(), nn.Conv3d(2, width, 1), nn.Sigmoid())

        def forward(self, x):
            return x * self.path(functional.adaptive_avg_pool3d(x, 1))

    def __init__(self):
        super().__init__(nn.Sequential(nn.Conv3d(2, 4, 3, (1, 2, 2), 1), self.Gate(4)), 48)


class Within(Clips):
    """a clip at each step, [batch, time, channels, frames, height, width]: windows over all three axes within it"""

    inputs, clip_shape = {"x": TIMED}, (2, 5, 7, 6)

    def __init__(self):
        path = [
            nn.Conv3d(2, 3, 3, (1, 2, 1), 1), nn.ReLU(), nn.Conv3d(3, 3, (2, 1, 3), padding=(0, 0, 2), groups=3, dilation=(1, 1, 2)),
            nn.MaxPool3d(2, ceil_mode=True), nn.Conv3d(3, 4, (1, 2, 2)), nn.AvgPool3d((2, 1, 1), 1, (1, 0, 0), count_include_pad=False),
        ]  # fmt: skip
        super().__init__(nn.Sequential(*path), 24)

    def forward(self, x):
        batch, steps = x.shape[:2]
        y = self.clip(x.reshape(batch * steps, *x.shape[2:])).reshape(batch, steps, -1)
        return self.head(self.rnn(y)[0])


MODULES = {
    "clips_causal": Causal,
    "clips_depthwise": Depthwise,
    "clips_front": Front,
    "clips_gated": Gated,
    "clips_lips": Lips,
    "clips_parted": Parted,
    "clips_pooled": Pooled,
    "clips_strided": Strided,
    "clips_whole": Whole,
    "clips_within": Within,
}


def make_module(name):
    return conv_exports.make_module(name, MODULES)


def make_inputs(module, batch, time, generator):
    channels, *sides = module.clip_shape
    shape = (batch, time, channels, *sides) if module.inputs["x"] == TIMED else (batch, channels, time, *sides)
    return (torch.randint(-8, 9, shape, generator=generator) / 8,)


def make_cases(name, module):
    return draw_cases(name, module, make_inputs, module.shapes)


def export(module, path, opset):
    export_open(module, path, opset, make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
