#!/usr/bin/env python3
"""Writes into tests/data/onnx modules with convolutions over two axes, one of which is time: the columns
of a line of text, the frames of a spectrogram. Weights and cases in the manner of exports.py, one run
under each PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import conv_exports
from exports import write_models
from lstm_modules import CLASSES, HIDDEN

BATCH = {0: "batch"}
LEFT = {0: "batch", 1: "left"}


def conv(inputs, outputs, kernel, stride=1, padding=0, **more):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, padding, **more), nn.BatchNorm2d(outputs), nn.ReLU())


class Crnn(nn.Module):
    """CRNN (Shi, Bai, Yao 2015) in small: convolutions and pools until one row is left, two bidirectional LSTMs"""

    height, least, outputs = 16, 8, {"p": {0: "left", 1: "batch"}}

    def __init__(self):
        super().__init__()
        narrow = {"kernel_size": (2, 2), "stride": (2, 1), "padding": (0, 1)}
        self.front = nn.Sequential(
            nn.Conv2d(1, 4, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2, 2),
            nn.Conv2d(4, 6, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2, 2),
            conv(6, 8, 3, 1, 1), nn.Conv2d(8, 8, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(**narrow),
            conv(8, 10, 2),
        )  # fmt: skip
        self.lstm = nn.LSTM(10, HIDDEN // 2, num_layers=2, bidirectional=True)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        y = self.front(x).squeeze(2).permute(2, 0, 1)
        return torch.log_softmax(self.head(self.lstm(y)[0]), 2)


class Speech(nn.Module):
    """Deep Speech 2 (Amodei et al. 2015) in small: strided convolutions over a spectrogram, clipped, a bidirectional GRU"""

    height, outputs = 21, {"y": LEFT}

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(1, 3, (7, 5), (2, 2), (3, 2)), nn.BatchNorm2d(3), nn.Hardtanh(0, 20),
            nn.Conv2d(3, 5, (5, 3), (2, 1), (2, 1)), nn.BatchNorm2d(5), nn.Hardtanh(0, 20),
        )  # fmt: skip
        self.gru = nn.GRU(5 * 6, HIDDEN // 2, bidirectional=True)

    def forward(self, x):
        y = self.front(x)
        y = y.view(y.size(0), y.size(1) * y.size(2), y.size(3))
        return self.gru(y.permute(2, 0, 1))[0].transpose(0, 1)


class Frames(nn.Module):
    """features [batch, channels, time, bins]: convolutions whose height is behind the steps, flattened for a GRU"""

    height, is_time_first, outputs = 9, True, {"y": LEFT, "hn": BATCH}

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(conv(2, 5, (3, 4), (2, 1), (1, 2)), conv(5, 4, (2, 3), (1, 2)))
        self.gru = nn.GRU(4 * 4, HIDDEN, batch_first=True)

    def forward(self, x):
        y, hn = self.gru(self.front(x).transpose(1, 2).flatten(2))
        return y, hn[0]

    least = 3


class Depthwise(nn.Module):
    """depthwise and pointwise convolutions with strides, as MobileNet has them; an LSTM over columns, channels last"""

    height, outputs = 12, {"y": LEFT}

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(
            conv(3, 4, 3, (2, 1), 1),
            conv(4, 4, (5, 3), (2, 1), (2, 1), groups=4), conv(4, 6, 1),
            conv(6, 6, 3, (1, 2), 1, groups=6, bias=False), nn.Conv2d(6, 5, 1),
        )  # fmt: skip
        self.lstm = nn.LSTM(3 * 5, HIDDEN, batch_first=True)

    channels = 3

    def forward(self, x):
        y = self.front(x).permute(0, 3, 2, 1)
        return self.lstm(y.reshape(y.size(0), y.size(1), 15))[0]


class Residual(nn.Module):
    """two residual blocks, one with a strided shortcut; the mean of the height, a GRU, whose steps stand behind its units"""

    height, channels, outputs = 10, 2, {"y": {0: "batch", 2: "left"}}

    def __init__(self):
        super().__init__()
        self.first, self.second = conv(2, 2, 3, 1, 1), nn.Conv2d(2, 2, 3, 1, 1)
        self.third, self.fourth = conv(2, 5, 3, 2, 1), nn.Conv2d(5, 5, 3, 1, 1)
        self.short = nn.Sequential(nn.Conv2d(2, 5, 1, 2, bias=False), nn.BatchNorm2d(5))
        self.gru = nn.GRU(5, HIDDEN, batch_first=True)

    def forward(self, x):
        y = torch.relu(x + self.second(self.first(x)))
        y = torch.relu(self.short(y) + self.fourth(self.third(y)))
        return self.gru(y.mean(2).transpose(1, 2))[0].transpose(1, 2)


class Block(nn.Module):
    """two convolutions and a shortcut, of one where channels change"""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.first, self.second = conv(inputs, outputs, 3, 1, 1), nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.short = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        return torch.relu(self.short(x) + self.second(self.first(x)))


class Resnet(nn.Module):
    """the residual network of 29 layers that readers of text in scenes have (Cheng et al. 2017), in small; two bidirectional LSTMs"""

    height, least, outputs = 32, 8, {"y": LEFT}

    def __init__(self):
        super().__init__()
        narrow = {"kernel_size": (2, 2), "stride": (2, 1), "padding": (0, 1)}
        self.front = nn.Sequential(
            conv(1, 2, 3, 1, 1), conv(2, 3, 3, 1, 1), nn.MaxPool2d(2, 2),
            *self.blocks(1, 3, 4), conv(4, 4, 3, 1, 1), nn.MaxPool2d(2, 2),
            *self.blocks(2, 4, 5), conv(5, 5, 3, 1, 1), nn.MaxPool2d(**narrow),
            *self.blocks(5, 5, 6), conv(6, 6, 3, 1, 1),
            *self.blocks(3, 6, 6), conv(6, 6, 2, (2, 1), (0, 1)), conv(6, 6, 2),
        )  # fmt: skip
        self.lstm = nn.LSTM(6, HIDDEN // 2, num_layers=2, bidirectional=True, batch_first=True)

    @staticmethod
    def blocks(n, inputs, outputs):
        return [Block(inputs if i == 0 else outputs, outputs) for i in range(n)]

    def forward(self, x):
        return self.lstm(self.front(x).squeeze(2).transpose(1, 2))[0]


class Pools(nn.Module):
    """overlapping, padded and rounded pools, their results side by side; the largest of the height"""

    height, channels, outputs = 11, 3, {"y": LEFT}

    def __init__(self):
        super().__init__()
        self.largest, self.mean = nn.MaxPool2d(3, (2, 2), 1), nn.AvgPool2d(3, (2, 2), 1, count_include_pad=False)
        self.all, self.part = nn.AvgPool2d(3, 1, 1, count_include_pad=False), nn.MaxPool2d((2, 1), (2, 1), ceil_mode=True)
        self.gru = nn.GRU(6, HIDDEN, batch_first=True)

    def forward(self, x):
        y = torch.cat([self.largest(x), self.mean(torch.tanh(x))], 1)
        y = self.part(self.all(y))
        return self.gru(y.max(2)[0].transpose(1, 2))[0]


class Dilated(nn.Module):
    """zeros around the picture, dilations along both axes, a kernel as high as what is left; the last state of a GRU"""

    height, outputs = 13, {"hn": BATCH}

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(1, 3, (3, 3), 1, (2, 2), dilation=(2, 2)), nn.Tanh(),
            nn.Conv2d(3, 4, (3, 1), (2, 1), (1, 0), dilation=(3, 1)), nn.Tanh(),
            nn.Conv2d(4, 6, (6, 2), 1, (0, 1)),
        )  # fmt: skip
        self.gru = nn.GRU(6, HIDDEN, batch_first=True)

    def forward(self, x):
        y = self.front(functional.pad(x, (1, 0, 2, 1)))
        return self.gru(y[:, :, 0].transpose(1, 2))[1][0]


class Turned(nn.Module):
    """features of a step as a matrix, plus its transpose, times a matrix, turned again; an LSTM"""

    height, channels, outputs = 4, 4, {"y": LEFT}

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.zeros(4, 4))
        self.lstm = nn.LSTM(16, HIDDEN, batch_first=True)

    def forward(self, x):
        y = x.permute(0, 3, 1, 2)
        y = torch.tanh(y + y.transpose(2, 3) * self.factor) * self.factor
        return self.lstm((y.transpose(2, 3) - y[:, :, :1]).flatten(2))[0]


class Gated(nn.Module):
    """channels weighted by what all of the picture says (MobileNetV3's squeeze and excitation), all its activations"""

    height, channels, outputs = 8, 4, {"y": LEFT}

    def __init__(self):
        super().__init__()
        self.front, self.back = nn.Conv2d(4, 4, 3, 1, 1), nn.Conv2d(4, 3, (8, 1))
        self.squeeze, self.excite = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)
        self.pool, self.slope = nn.AdaptiveAvgPool2d(1), nn.PReLU(3)
        self.lstm = nn.LSTM(3, HIDDEN, batch_first=True)

    def forward(self, x):
        y = functional.hardswish(self.front(x))
        scale = self.excite(functional.leaky_relu(self.squeeze(self.pool(y)), 0.1))
        y = functional.elu(y * functional.hardsigmoid(scale), 0.5)
        y = functional.softsign(self.slope(self.back(y))[:, :, 0])
        return self.lstm(y.transpose(1, 2))[0]


class Normed(nn.Module):
    """convolutions over a spectrogram, each channel normalised over all of it, then in two groups; a GRU"""

    height, outputs = 8, {"y": LEFT}

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 6, 3, padding=1), nn.Conv2d(6, 4, (2, 3), (2, 1), (0, 1))
        self.channel, self.group = nn.InstanceNorm2d(6, affine=True), nn.GroupNorm(2, 4)
        self.gru = nn.GRU(4 * 4, HIDDEN // 2, bidirectional=True)

    def forward(self, x):
        y = torch.relu(self.channel(self.first(x)))
        y = torch.relu(self.group(self.second(y)))
        return self.gru(y.flatten(1, 2).permute(2, 0, 1))[0].transpose(0, 1)


class Subsampled(nn.Module):
    """two strided convolutions in front of a GRU, as of speech; sizes by view(), which the default exporter computes"""

    height, is_time_first, channels, least, outputs = 11, True, 1, 7, {"y": LEFT}

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Conv2d(1, 3, 3, 2), nn.ReLU(), nn.Conv2d(3, 4, 3, 2), nn.ReLU())
        self.gru = nn.GRU(4 * 2, HIDDEN, batch_first=True)

    def forward(self, x):
        y = self.front(x)
        batch, channels, time, bins = y.size()
        return self.gru(y.transpose(1, 2).contiguous().view(batch, time, channels * bins))[0]


class Averaged(nn.Module):
    """convolutions over a line of text, of its columns [batch, columns, channels, height] the mean of the
    rows of each channel, a GRU over that"""

    height, outputs = 8, {"y": LEFT}

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(conv(1, 4, 3, 2, 1), nn.Conv2d(4, 5, 3, (2, 1), 1))
        self.pool = nn.AdaptiveAvgPool2d((None, 1))
        self.gru = nn.GRU(5, HIDDEN, batch_first=True)

    def forward(self, x):
        return self.gru(self.pool(torch.relu(self.front(x)).permute(0, 3, 1, 2)).squeeze(3))[0]


MODULES = {
    "picture_averaged": Averaged,
    "picture_crnn": Crnn,
    "picture_depthwise": Depthwise,
    "picture_dilated": Dilated,
    "picture_frames": Frames,
    "picture_gated": Gated,
    "picture_normed": Normed,
    "picture_pools": Pools,
    "picture_residual": Residual,
    "picture_resnet": Resnet,
    "picture_speech": Speech,
    "picture_subsampled": Subsampled,
    "picture_turned": Turned,
}


def make_module(name):
    return conv_exports.make_module(name, MODULES)


def make_input(module, batch, time, generator):
    time += getattr(module, "least", 1) - 1
    channels = getattr(module, "channels", 2 if is_time_first(module) else 1)
    shape = (time, module.height) if is_time_first(module) else (module.height, time)
    return torch.randint(-8, 9, (batch, channels, *shape), generator=generator) / 8


def is_time_first(module):
    return getattr(module, "is_time_first", False)


def make_cases(name, module):
    return conv_exports.make_cases(name, module, make_input)


def export(module, path, opset):
    axes = {0: "batch", 2 if is_time_first(module) else 3: "time"}
    conv_exports.export(module, path, opset, make_input, axes)


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
