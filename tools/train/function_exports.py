#!/usr/bin/env python3
"""Writes into tests/data/onnx recurrent models with functions that sensors, speech and forecasts bring along: sines of time and of
angles, powers of magnitudes and with learned exponents, phases, signs, what stands for numbers that are missing, doubles. Weights and cases in
the manner of exports.py, one run under each PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn

from exports import SAMPLE, draw_cases, draw_weights, export_open, write_models
from lstm_modules import CLASSES, HIDDEN, INPUT

STEPS = {0: "batch", 1: "time"}
FRAME, HOP = 20, 8


class Plain(nn.Module):
    """what a subclass does with x, an LSTM, a linear layer, what it does with that"""

    inputs, outputs = {"x": STEPS}, {"y": STEPS}

    def __init__(self, features=INPUT):
        super().__init__()
        self.rnn = nn.LSTM(features, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        return self.behind(self.head(self.rnn(self.before(x))[0]))

    def before(self, x):
        return x

    def behind(self, y):
        return y


class Time2Vec(Plain):
    """linear features beside sines of others (Kazemi et al. 2019)"""

    def __init__(self):
        super().__init__(2 * INPUT)
        self.trend, self.season = nn.Linear(INPUT, INPUT), nn.Linear(INPUT, INPUT)

    def before(self, x):
        return torch.cat([self.trend(x), torch.sin(40 * self.season(x))], -1)


class Snake(Plain):
    """x + sin(a x)^2 / a behind a convolution (Ziyin et al. 2020)"""

    def __init__(self):
        super().__init__(HIDDEN)
        self.convolution = nn.Conv1d(INPUT, HIDDEN, 3, padding=1)
        self.a = nn.Parameter(torch.ones(1, HIDDEN, 1))

    def before(self, x):
        x = self.convolution(x.transpose(1, 2))
        a = self.a.abs() + 0.5
        return (x + torch.sin(a * x).pow(2) / a).transpose(1, 2)


class Energy(Plain):
    """energies by their recent mean, to learned powers (PCEN, Wang et al. 2017)"""

    def __init__(self):
        super().__init__()
        self.gain, self.bias, self.root = (nn.Parameter(torch.ones(INPUT)) for _ in range(3))

    def before(self, x):
        energy = x * x
        mean = nn.functional.avg_pool1d(nn.functional.pad(energy.transpose(1, 2), (3, 0)), 4, 1).transpose(1, 2)
        bias, root = self.bias.abs() + 1, self.root.abs() + 0.25
        return (energy / (0.01 + mean) ** self.gain + bias) ** root - bias**root


class Magnitude(Plain):
    """compressed by a power of 0.3, and from decibels; integers and others as exponents"""

    def before(self, x):
        return (x.abs() + 1e-6) ** 0.3 + (x + 2) ** -1.5 + x**4 + (x + 2) ** -2

    def behind(self, y):
        return 10 ** (y / 20)


class Phase(Plain):
    """magnitude, phase, its sine and cosine, in all quadrants"""

    def __init__(self):
        super().__init__(4)

    def before(self, x):
        re, im = x[..., 0] + 1 / 16, x[..., 1] + 1 / 32
        phase = torch.atan2(im, re)
        return torch.stack([(re * re + im * im).sqrt(), phase, torch.sin(phase), torch.cos(phase)], -1)


class Angles(Plain):
    """tangent and arcs"""

    def behind(self, y):
        y = torch.tanh(y) * 0.9
        return torch.tan(y) + torch.acos(y) - torch.asin(y) + torch.atan(3 * y)


class Hyperbolic(Plain):
    """hyperbolic functions and areas"""

    def behind(self, y):
        t = torch.tanh(y) * 0.9
        return torch.sinh(y) - torch.cosh(y) + torch.asinh(y) + torch.atanh(t) + torch.acosh(2 + t)


class Symlog(Plain):
    """sign(x) log(1 + |x|), and back"""

    def before(self, x):
        return torch.sign(x) * torch.log1p(x.abs())

    def behind(self, y):
        return torch.sign(y) * torch.expm1(y.abs())


class Missing(Plain):
    """logarithms of numbers that may be negative or 0: what is no number, or infinite, is replaced"""

    def before(self, x):
        x = torch.log(x)
        x = torch.where(x.abs() > 3e38, torch.full_like(x, -3.0), x)
        return torch.where(torch.isnan(x) ^ (x > 0.5), torch.zeros_like(x), torch.nan_to_num(x))


class Odds(Plain):
    """that none of several independent events happens (noisy or), of all features and of pairs of them"""

    def __init__(self):
        super().__init__(INPUT + 1)

    def before(self, x):
        return torch.cat([x, (1 - torch.sigmoid(x)).prod(-1, keepdim=True)], -1)

    def behind(self, y):
        none = 1 - torch.sigmoid(y).unsqueeze(-1) * torch.tensor([0.5, 0.25, 1.0])
        return torch.cat([none.prod(3), none.prod(2)], -1)


class Spectrum(Plain):
    """magnitudes of a short-time Fourier transform within the model, and bands of these"""

    inputs, outputs = {"samples": {0: "batch", 1: "samples"}}, {"y": {0: "batch", 1: "frames"}}
    center = False

    def __init__(self):
        super().__init__(INPUT)
        self.bands = nn.Linear(FRAME // 2 + 1, INPUT, bias=False)
        self.register_buffer("window", torch.hann_window(FRAME))

    def before(self, samples):
        parts = torch.stft(samples, FRAME, HOP, window=self.window, center=self.center, return_complex=True)
        energies = torch.view_as_real(parts).pow(2).sum(-1).transpose(1, 2)
        return torch.log(self.bands.weight.abs().matmul(energies.transpose(1, 2)).transpose(1, 2) + 0.01)


class SpectrumCentered(Spectrum):
    """the same with half a frame reflected at either end"""

    center = True


class Doubles(Plain):
    """doubles with features before steps, floats of some of them, and doubles in the answer"""

    def forward(self, x):
        return super().forward(x.transpose(1, 2)[..., :INPUT].float()).double()

    inputs = {"x": {0: "batch", 2: "time"}}


MODULES = {
    "function_angles": Angles,
    "function_doubles": Doubles,
    "function_energy": Energy,
    "function_hyperbolic": Hyperbolic,
    "function_magnitude": Magnitude,
    "function_missing": Missing,
    "function_odds": Odds,
    "function_phase": Phase,
    "function_snake": Snake,
    "function_spectrum": Spectrum,
    "function_spectrum_centered": SpectrumCentered,
    "function_symlog": Symlog,
    "function_time2vec": Time2Vec,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_inputs(module, batch, time, generator):
    if "samples" in module.inputs:
        return [torch.randint(-8, 9, (batch, FRAME + HOP * time + time), generator=generator) / 8]
    if isinstance(module, Doubles):
        return [torch.randint(-8, 9, (batch, INPUT + 1, time), generator=generator).double() / 7]
    return [torch.randint(-8, 9, (batch, time, INPUT), generator=generator) / 8]


def make_cases(name, module):
    return draw_cases(name, module, make_inputs)


def export(module, path, opset):
    export_open(module, path, opset, make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
