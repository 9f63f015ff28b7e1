#!/usr/bin/env python3
"""Writes into tests/data/onnx modules that make more steps than they read, or more of each: transposed
convolutions and upsampling, as of denoisers, of spectral masks and of speech. Weights and cases in the
manner of conv_exports.py.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import conv_exports
from exports import write_models
from lstm_modules import HIDDEN, INPUT, WORDS

BATCH = {0: "batch"}
MADE = {0: "batch", 1: "made"}
BINS = 9  # of a spectrum


class Denoiser(nn.Module):
    """strided convolutions with GLU, a GRU over what they leave, transposed ones with shortcuts; as of Demucs"""

    kind, outputs, each = "features", {"y": MADE}, 4

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv1d(i, 6, 4, 2, 1), nn.ReLU(), nn.Conv1d(6, 12, 1), nn.GLU(1))
            for i in (INPUT, 6)
        )
        self.gru = nn.GRU(6, 6, batch_first=True)
        self.up = nn.ModuleList(
            nn.Sequential(nn.Conv1d(6, 12, 1), nn.GLU(1), nn.ConvTranspose1d(6, o, 4, 2, 1)) for o in (6, INPUT)
        )

    def forward(self, x):
        x = x.transpose(1, 2)
        shortcuts = []
        for down in self.down:
            x = down(x)
            shortcuts.append(x)
        x = self.gru(x.transpose(1, 2))[0].transpose(1, 2)
        x = torch.relu(self.up[0](x + shortcuts[1]))
        return self.up[1](x + shortcuts[0]).transpose(1, 2)


class Spectral(nn.Module):
    """causal convolutions over frames and bins, a GRU over all bins, transposed ones beside shortcuts: a mask"""

    kind, outputs = "spectrum", {"y": {0: "batch", 2: "made"}}

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 4, (2, 3), (1, 2))
        self.second = nn.Conv2d(4, 4, (2, 2), (1, 2), groups=2)
        self.gru = nn.GRU(8, 8, batch_first=True)
        self.third = nn.ConvTranspose2d(8, 4, (2, 2), (1, 2), groups=4)
        self.last = nn.ConvTranspose2d(8, 1, (2, 3), (1, 2))

    def forward(self, x):
        first = torch.relu(self.first(functional.pad(x, (0, 0, 1, 0))))
        second = torch.relu(self.second(functional.pad(first, (0, 0, 1, 0))))
        y = second.permute(0, 2, 1, 3).flatten(2)
        y = self.gru(y)[0].reshape(y.size(0), -1, 4, 2).permute(0, 2, 1, 3)
        y = torch.relu(self.third(torch.cat([y, second], 1))[:, :, :-1])
        return torch.sigmoid(self.last(torch.cat([y, first], 1))[:, :, :-1]) * x


class Speech(nn.Module):
    """ids; a GRU, each of its steps four times, a convolution, then eight outputs of each, less those at the ends"""

    kind, outputs = "ids", {"y": MADE, "hn": BATCH}

    def __init__(self):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(WORDS, INPUT), nn.GRU(INPUT, HIDDEN, batch_first=True)
        self.conv, self.made = nn.Conv1d(HIDDEN, 4, 3, padding=1), nn.ConvTranspose1d(4, 2, 16, 8, 4)
        self.last = nn.GRU(2, 5, batch_first=True)

    def forward(self, x):
        y = self.gru(self.embedding(x))[0].transpose(1, 2)
        y = torch.tanh(self.conv(functional.interpolate(y, scale_factor=4)))
        y, hn = self.last(self.made(y).transpose(1, 2))
        return y, hn[0]


class Cropped(nn.Module):
    """transposed convolutions that are dilated, of two groups, and padded behind; a bidirectional LSTM, an ordinary one of two groups"""

    kind, outputs = "features", {"y": MADE, "z": {0: "batch", 1: "left"}}

    def __init__(self):
        super().__init__()
        self.dilated = nn.ConvTranspose1d(INPUT, 6, 3, 2, 2, dilation=3, bias=False)
        self.groups = nn.ConvTranspose1d(6, 4, 3, 3, output_padding=2, groups=2)
        self.lstm = nn.LSTM(4, HIDDEN // 2, batch_first=True, bidirectional=True)
        self.back = nn.Conv1d(HIDDEN, 6, 5, 6, 2, groups=2)

    def forward(self, x):
        y = self.groups(torch.relu(self.dilated(x.transpose(1, 2))))
        y = self.lstm(y[:, :, 1:].transpose(1, 2))[0]
        return y, self.back(y.transpose(1, 2)).transpose(1, 2)


class Waveform(nn.Module):
    """samples to samples: spectra by a convolution, a GRU's mask, back by a transposed one, over how often each is added; as of DCCRN"""

    kind, outputs = "samples", {"y": MADE}
    WINDOW, HOP = 12, 4

    def __init__(self):
        super().__init__()
        bins = self.WINDOW // 2 + 1
        # What is not persistent keeps its numbers where weights are drawn anew.
        window = torch.hamming_window(self.WINDOW).sqrt()
        parts = torch.fft.rfft(torch.eye(self.WINDOW))
        basis = torch.cat([parts.real, parts.imag], 1).T
        self.register_buffer("there", (basis * window)[:, None], persistent=False)
        self.register_buffer("back", (torch.linalg.pinv(basis).T * window)[:, None], persistent=False)
        self.register_buffer("window", window[None, :, None], persistent=False)
        self.register_buffer("each", torch.eye(self.WINDOW)[:, None], persistent=False)
        self.gru, self.mask, self.bins = nn.GRU(bins, HIDDEN, batch_first=True), nn.Linear(HIDDEN, bins), bins

    def forward(self, x):
        more = self.WINDOW - self.HOP
        spectra = functional.conv1d(functional.pad(x[:, None], [more, more]), self.there, stride=self.HOP)
        real, imaginary = spectra[:, : self.bins], spectra[:, self.bins :]
        size = torch.sqrt(real**2 + imaginary**2 + 0.01)
        mask = torch.sigmoid(self.mask(self.gru(size.transpose(1, 2))[0])).transpose(1, 2)
        y = functional.conv_transpose1d(torch.cat([real * mask, imaginary * mask], 1), self.back, stride=self.HOP)
        often = self.window.repeat(1, 1, spectra.size(-1)) ** 2
        y = y / (functional.conv_transpose1d(often, self.each, stride=self.HOP) + 1e-8)
        return y[:, 0, more:-more]


class Speakers(nn.Module):
    """a GRU over frames of samples, a mask of them for each of two speakers, who then are rows of the batch:
    a convolution, and a transposed one to samples; as of TasNet"""

    kind, outputs = "samples", {"y": {0: "batch", 2: "made"}}
    HOP, SPEAKERS = 4, 2

    def __init__(self):
        super().__init__()
        self.frames, self.back = nn.Conv1d(1, 5, 5, 4), nn.ConvTranspose1d(3, 1, 5, 4, bias=False)
        self.gru, self.mask = nn.GRU(5, HIDDEN, batch_first=True), nn.Linear(HIDDEN, 5 * self.SPEAKERS)
        self.each = nn.Conv1d(5, 3, 3, padding=1)

    def forward(self, x):
        frames = torch.relu(self.frames(x[:, None]))
        masks = torch.sigmoid(self.mask(self.gru(frames.transpose(1, 2))[0]))
        masks = masks.view(x.size(0), -1, self.SPEAKERS, 5).permute(0, 2, 3, 1)
        rows = (masks * frames[:, None]).reshape(x.size(0) * self.SPEAKERS, 5, -1)
        return self.back(torch.tanh(self.each(rows))).view(x.size(0), self.SPEAKERS, -1)


MODULES = {
    "transposed_cropped": Cropped,
    "transposed_denoiser": Denoiser,
    "transposed_speakers": Speakers,
    "transposed_spectral": Spectral,
    "transposed_speech": Speech,
    "transposed_waveform": Waveform,
}


def make_input(module, batch, time, generator):
    if module.kind == "spectrum":
        return torch.randint(-8, 9, (batch, 1, time, BINS), generator=generator) / 8
    if module.kind == "samples":
        return torch.randint(-8, 9, (batch, time + module.HOP), generator=generator) / 8
    return conv_exports.make_input(module, batch, time, generator)


def make_module(name):
    return conv_exports.make_module(name, MODULES)


def make_cases(name, module):
    return conv_exports.make_cases(name, module, make_input)


def export(module, path, opset):
    axes = {0: "batch", 2: "time"} if module.kind == "spectrum" else None
    conv_exports.export(module, path, opset, make_input, axes)


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
