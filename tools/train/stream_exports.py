#!/usr/bin/env python3
"""Writes into tests/data/onnx models whose steps read earlier ones, and no later ones: what a session can answer in
parts. Weights and cases in the manner of conv_exports.py, one run under each PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import conv_exports
from exports import draw_cases, export_open, write_models
from golden import CASES
from lstm_modules import CLASSES, HIDDEN, INPUT

STEPS, BATCH = {0: "batch", 1: "time"}, {0: "batch"}
BANDS = 8


class Streamed(nn.Module):
    inputs, outputs, width = {"x": STEPS}, {"y": STEPS}, INPUT


class Convolved(Streamed):
    """two dilated convolutions that cut off what padding adds, one behind a shortcut, and nothing recurrent"""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(INPUT, HIDDEN, 3, padding=4, dilation=2)
        self.second = nn.Conv1d(HIDDEN, HIDDEN, 3, padding=8, dilation=4)
        self.linear = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        y = torch.relu(self.first(x.transpose(1, 2))[:, :, :-4])
        y = y + torch.relu(self.second(y)[:, :, :-8])
        return self.linear(y.transpose(1, 2))


class Subsampled(Streamed):
    """one step of four by two convolutions with strides, each of whose windows ends with its own steps; an LSTM over them"""

    outputs, least = {"y": {0: "batch", 1: "fewer"}, "state": BATCH}, 4

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(INPUT, HIDDEN, 5, stride=2), nn.Conv1d(HIDDEN, HIDDEN, 3, stride=2)
        self.lstm, self.linear = nn.LSTM(HIDDEN, HIDDEN, batch_first=True), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        y = torch.relu(self.first(functional.pad(x.transpose(1, 2), (3, 0))))
        y = torch.relu(self.second(functional.pad(y, (1, 0))))
        y = self.lstm(y.transpose(1, 2))[0]
        return y, self.linear(y[:, -1])


class Bands(Streamed):
    """a mask of a spectrum's frames: convolutions over both axes, of frames up to their own, and a GRU"""

    width = BANDS

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=(2, 1)), nn.Conv2d(4, 4, (2, 3), stride=(1, 2))
        self.gru, self.linear = nn.GRU(4 * 3, HIDDEN, batch_first=True), nn.Linear(HIDDEN, BANDS)

    def forward(self, x):
        y = torch.relu(self.first(x[:, None])[:, :, :-2])
        y = torch.relu(self.second(functional.pad(y, (0, 0, 1, 0))))
        return torch.sigmoid(self.linear(self.gru(y.permute(0, 2, 1, 3).flatten(2))[0])) * x


class Shifted(Streamed):
    """the step before mixed into each, changes since then, the largest of three; a GRU"""

    def __init__(self):
        super().__init__()
        self.shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.gru = nn.GRU(3 * INPUT, HIDDEN, batch_first=True)

    def forward(self, x):
        mixed = 0.3 * x + 0.7 * self.shift(x)
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        largest = functional.max_pool1d(functional.pad(x.transpose(1, 2), (2, 0)), 3, 1).transpose(1, 2)
        return self.gru(torch.cat([mixed, x - before, largest], 2))[0]


class Ahead(Streamed):
    """steps shifted in two ways, the last of which are cut off, and convolutions over them that read ahead; a GRU"""

    def __init__(self):
        super().__init__()
        self.shift = nn.ZeroPad2d((0, 0, 2, -2))
        self.first, self.second = nn.Conv1d(INPUT, HIDDEN, 5, padding=2), nn.Conv1d(INPUT, HIDDEN, 3, padding=2)
        self.gru = nn.GRU(2 * HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x):
        first = self.first(self.shift(x).transpose(1, 2))
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        second = self.second(before.transpose(1, 2))[:, :, 1:-1]
        return self.gru(torch.cat([torch.relu(first), second], 1).transpose(1, 2))[0]


class Enhanced(Streamed):
    """strides down to one step of six, an LSTM over these, and up again beside shortcuts, cut to as many as there were: a denoiser"""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(nn.Conv1d(i, HIDDEN, k, s) for i, k, s in ((INPUT, 5, 3), (HIDDEN, 4, 2)))
        self.lstm = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.up = nn.ModuleList(nn.ConvTranspose1d(HIDDEN, o, k, s) for o, k, s in ((HIDDEN, 4, 2), (INPUT, 7, 3)))

    def forward(self, x):
        x = x.transpose(1, 2)
        first = torch.relu(self.down[0](functional.pad(x, (2, 2))))
        y = torch.relu(self.down[1](functional.pad(first, (2, 1))))
        y = self.lstm(y.transpose(1, 2))[0].transpose(1, 2)
        y = torch.relu(self.up[0](y)[:, :, : first.size(2)]) + first
        return (self.up[1](y)[:, :, : x.size(2)] + x).transpose(1, 2)


class Spoken(Streamed):
    """each step twice, a convolution, four of each by a transposed one whose ends are cut off: samples, and changes between them"""

    outputs = {"y": {0: "batch", 1: "made"}, "twice": {0: "batch", 1: "more"}}

    def __init__(self):
        super().__init__()
        self.gru, self.conv = nn.GRU(INPUT, HIDDEN, batch_first=True), nn.Conv1d(HIDDEN, HIDDEN, 3)
        self.up, self.last = nn.ConvTranspose1d(HIDDEN, 3, 10, 4), nn.GRU(3, 2, batch_first=True)

    def forward(self, x):
        y = functional.interpolate(self.gru(x)[0].transpose(1, 2), scale_factor=2)
        y = torch.tanh(self.conv(functional.pad(y, (2, 0))))
        made = self.up(y)[:, :, 3:-3].transpose(1, 2)
        return self.last(made)[0], y.transpose(1, 2)


class Raised(Streamed):
    """four of each step by a transposed convolution alone; of one step one is there at once, as if they were as many"""

    outputs = {"y": {0: "batch", 1: "made"}}

    def __init__(self):
        super().__init__()
        self.up, self.linear = nn.ConvTranspose1d(INPUT, HIDDEN, 10, 4, 3), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        return self.linear(torch.tanh(self.up(x.transpose(1, 2))).transpose(1, 2))


class Causal(nn.Module):
    """padded in front alone, so that a window ends with its own steps; transposed, with what is behind them cut off"""

    def __init__(self, conv, channels, filters, taps, stride):
        super().__init__()
        self.conv, self.more = conv(channels, filters, taps, stride), taps - stride

    def forward(self, x):
        if isinstance(self.conv, nn.Conv1d):
            return self.conv(functional.pad(x, (self.more, 0)))
        y = self.conv(x)
        return y[..., : y.shape[-1] - self.more]


class Coded(Streamed):
    """down by 2 and by 3 and up again, each causal, an LSTM in between: a codec of samples, as of SoundStream"""

    outputs, least, width = {"y": {0: "batch", 1: "made"}}, 6, 1

    def __init__(self):
        super().__init__()
        down, up = nn.Conv1d, nn.ConvTranspose1d
        self.encoder = nn.Sequential(Causal(down, 1, 4, 5, 1), Causal(down, 4, 6, 4, 2), nn.ELU(), Causal(down, 6, 8, 6, 3))
        self.lstm = nn.LSTM(8, 8)
        self.decoder = nn.Sequential(nn.ELU(), Causal(up, 8, 6, 6, 3), nn.ELU(), Causal(up, 6, 4, 4, 2), Causal(down, 4, 1, 5, 1))

    def forward(self, x):
        code = self.encoder(x.transpose(1, 2)).permute(2, 0, 1)
        return self.decoder((self.lstm(code)[0] + code).permute(1, 2, 0)).transpose(1, 2)


class Denoised(Streamed):
    """up by 2, down by 4 and by 4 without padding, up again beside shortcuts that are cut to size, down by 2; as of a causal Demucs"""

    outputs, least, width = {"y": {0: "batch", 1: "made"}}, 18, 1

    def __init__(self):
        super().__init__()
        self.between = nn.Conv1d(1, 1, 4, padding=2)
        self.down = nn.ModuleList(nn.Conv1d(i, HIDDEN, 8, 4) for i in (1, HIDDEN))
        self.lstm = nn.LSTM(HIDDEN, HIDDEN)
        self.up = nn.ModuleList(nn.ConvTranspose1d(HIDDEN, o, 8, 4) for o in (HIDDEN, 1))

    def forward(self, x):
        x = x.transpose(1, 2)
        x = torch.stack([x, self.between(x)[..., 1:]], -1).reshape(x.size(0), 1, -1)
        shortcuts = []
        for down in self.down:
            x = torch.relu(down(x))
            shortcuts.append(x)
        x = self.lstm(x.permute(2, 0, 1))[0].permute(1, 2, 0)
        for up in self.up:
            x = torch.tanh(up(x + shortcuts.pop()[..., : x.shape[-1]]))
        even, odd = x[..., ::2], x[..., 1::2]
        return (0.5 * (even + self.between(odd)[..., :-1])).transpose(1, 2)


class Voiced(Streamed):
    """four and two of each step, behind each the mean of wide convolutions with several dilations: a vocoder, as HiFi-GAN"""

    outputs = {"y": {0: "batch", 1: "made"}}

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(INPUT, 6, 7, padding=3)
        self.up = nn.ModuleList(nn.ConvTranspose1d(i, o, 2 * s, s, s // 2) for i, o, s in ((6, 4, 4), (4, 2, 2)))
        self.wide = nn.ModuleList(
            nn.ModuleList(nn.Conv1d(o, o, k, padding=(k - 1) // 2 * d, dilation=d) for k, d in ((3, 5), (7, 3), (11, 3)))
            for o in (4, 2)
        )
        self.last = nn.Conv1d(2, 1, 7, padding=3)

    def forward(self, x):
        x = self.first(x.transpose(1, 2))
        for up, wide in zip(self.up, self.wide):
            x = up(functional.leaky_relu(x, 0.1))
            x = sum(x + conv(functional.leaky_relu(x, 0.1)) for conv in wide) / len(wide)
        return torch.tanh(self.last(functional.leaky_relu(x, 0.1))).transpose(1, 2)


class Attending(nn.Module):
    """nn.MultiheadAttention to so many steps ahead, and so many back or all; behind it a shortcut"""

    def __init__(self, ahead, back=None):
        super().__init__()
        self.attention, self.norm = nn.MultiheadAttention(HIDDEN, 2, batch_first=True), nn.LayerNorm(HIDDEN)
        self.back, self.ahead = back, ahead

    def forward(self, h):
        number = torch.arange(h.size(1))
        apart = number[None] - number[:, None]
        mask = apart > self.ahead
        if self.back is not None:
            mask = mask | (apart < -self.back)
        return self.norm(h + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0])


class Attended(Streamed):
    """a GRU, attention to the last steps, then to some on either side, a GRU"""

    def __init__(self):
        super().__init__()
        self.gru, self.behind = (nn.GRU(width, HIDDEN, batch_first=True) for width in (INPUT, HIDDEN))
        self.last, self.around = Attending(0, 5), Attending(2, 3)
        self.linear = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        y = self.around(self.last(self.gru(x)[0]))
        return self.linear(self.behind(y)[0])


class Placed(Streamed):
    """steps that are told their places from a table, which bounds them; two layers of attention to all before, an LSTM"""

    def __init__(self):
        super().__init__()
        self.before, self.place = nn.Linear(INPUT, HIDDEN), nn.Embedding(130, HIDDEN)
        self.first, self.second = Attending(0), Attending(0)
        self.lstm, self.linear = nn.LSTM(HIDDEN, HIDDEN, batch_first=True), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        h = self.before(x) + self.place(torch.arange(x.size(1)))
        return self.linear(self.lstm(self.second(self.first(h)))[0])


class Recalling(Streamed):
    """the last four steps, smoothed with the one behind, as far as the input is like its own; an LSTM, attention to all before"""

    def __init__(self):
        super().__init__()
        self.lstm, self.all = nn.LSTM(2 * INPUT, HIDDEN, batch_first=True), Attending(0)
        self.smooth, self.linear = nn.Conv1d(INPUT, INPUT, 3, padding=1), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        number = torch.arange(x.size(1))
        apart = number[None] - number[:, None]
        scores = (x @ x.transpose(1, 2)).masked_fill((apart > 0) | (apart < -3), -1e9)
        smooth = self.smooth(x.transpose(1, 2)).transpose(1, 2)
        h = self.lstm(torch.cat([x, torch.softmax(scores, -1) @ smooth], -1))[0]
        return self.linear(self.all(h))


class Sloped(Streamed):
    """an LSTM; attention to all before, the farther the less, then to the last four by vectors of their distances"""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.q, self.k, self.v, self.linear = (nn.Linear(HIDDEN, width) for width in (HIDDEN, HIDDEN, HIDDEN, CLASSES))
        self.near = nn.Embedding(9, HIDDEN)

    def forward(self, x):
        h = self.lstm(x)[0]
        number = torch.arange(x.size(1))
        apart = number[None] - number[:, None]
        scores = (self.q(h) @ self.k(h).transpose(1, 2) + apart * 0.25).masked_fill(apart > 0, float("-inf"))
        h = h + torch.softmax(scores, -1) @ self.v(h)
        scores = h @ h.transpose(1, 2) + torch.einsum("bid,ijd->bij", h, self.near(torch.clamp(apart, -4, 4) + 4))
        return self.linear(torch.softmax(scores.masked_fill((apart > 1) | (apart < -3), -1e9), -1) @ h)


class Early(Streamed):
    """what is said of each step at once, and what is said again when the next three have come; two more in between"""

    outputs = {"late": STEPS, "early": STEPS, "middle": STEPS, "other": STEPS}

    def __init__(self):
        super().__init__()
        self.gru, self.first = nn.GRU(INPUT, HIDDEN, batch_first=True), nn.Linear(HIDDEN, CLASSES)
        self.one, self.both = nn.Conv1d(HIDDEN, HIDDEN, 3, padding=1), nn.Conv1d(HIDDEN, CLASSES, 5, padding=2)

    def forward(self, x):
        h = self.gru(x)[0]
        y = self.one(h.transpose(1, 2))
        return self.both(y).transpose(1, 2), self.first(h), y.transpose(1, 2), torch.relu(y).transpose(1, 2)


class Encoded(Streamed):
    """an encoder of two layers whose steps attend to the last six, time first, and nothing recurrent"""

    inputs = {"x": {0: "time", 1: "batch"}}
    outputs = {"y": {0: "time", 1: "batch"}}

    def __init__(self):
        super().__init__()
        self.before, self.linear = nn.Linear(INPUT, HIDDEN), nn.Linear(HIDDEN, CLASSES)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(HIDDEN, 2, HIDDEN) for _ in range(2))

    def forward(self, x):
        number = torch.arange(x.size(0))
        apart = number[None] - number[:, None]
        h = self.before(x)
        for layer in self.layers:
            h = layer(h, src_mask=(apart > 0) | (apart < -5))
        return self.linear(h)


class Turned(Encoded):
    """two convolutions, of which one looks ahead, time first, and nothing recurrent"""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(INPUT, HIDDEN, 3, padding=1), nn.Conv1d(HIDDEN, HIDDEN, 3)

    def forward(self, x):
        y = torch.relu(self.first(x.permute(1, 2, 0)))
        return self.linear(self.second(functional.pad(y, (2, 0))).permute(2, 0, 1))


class Counted(Streamed):
    """sines of the step's number, a convolution with strides, attention to some of what it leaves, the mean so far"""

    outputs = {"y": {0: "batch", 1: "fewer"}}

    def __init__(self):
        super().__init__()
        self.conv, self.around = nn.Conv1d(INPUT + 2, HIDDEN, 4, stride=2, padding=1), Attending(1, 2)
        self.gru, self.linear = nn.GRU(HIDDEN, HIDDEN, batch_first=True), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        number = torch.arange(x.size(1)).float().view(1, -1, 1).expand(x.size(0), -1, 1)
        x = torch.cat([x, torch.sin(number * 0.3), torch.cos(number * 0.3)], 2)
        y = self.around(torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2))
        y = self.gru(y)[0]
        count = torch.arange(1, y.size(1) + 1).view(1, -1, 1)
        return self.linear(torch.cumsum(y, 1) / count.float())


class Cached(Streamed):
    """two convolutions over steps kept of before and new ones, one behind a shortcut, a GRU; what is kept is answered"""

    inputs = {"x": STEPS, "first_kept": BATCH, "second_kept": BATCH, "h0": {1: "batch"}}
    outputs = {"y": STEPS, "first_next": BATCH, "second_next": BATCH, "hn": {1: "batch"}}

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(INPUT, HIDDEN, 3), nn.Conv1d(HIDDEN, HIDDEN, 3, dilation=2)
        self.gru = nn.GRU(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x, first_kept, second_kept, h0):
        first = torch.cat([first_kept, x.transpose(1, 2)], 2)
        y = torch.relu(self.first(first))
        second = torch.cat([second_kept, y], 2)
        y, hn = self.gru((y + torch.relu(self.second(second))).transpose(1, 2), h0)
        return y, first[:, :, -2:], second[:, :, -4:], hn


class CachedFour(Cached):
    """the same of four steps, which the file states"""

    inputs, outputs = {**Cached.inputs, "x": BATCH}, {**Cached.outputs, "y": BATCH}


MODULES = {
    "stream_ahead": Ahead,
    "stream_attended": Attended,
    "stream_bands": Bands,
    "stream_cached": Cached,
    "stream_cached_four": CachedFour,
    "stream_coded": Coded,
    "stream_convolved": Convolved,
    "stream_counted": Counted,
    "stream_denoised": Denoised,
    "stream_early": Early,
    "stream_encoded": Encoded,
    "stream_enhanced": Enhanced,
    "stream_placed": Placed,
    "stream_raised": Raised,
    "stream_recalling": Recalling,
    "stream_sloped": Sloped,
    "stream_shifted": Shifted,
    "stream_spoken": Spoken,
    "stream_subsampled": Subsampled,
    "stream_turned": Turned,
    "stream_voiced": Voiced,
}


def make_module(name):
    return conv_exports.make_module(name, MODULES)


def make_inputs(module, batch, time, generator):
    steps = 4 if isinstance(module, CachedFour) else time + getattr(module, "least", 2) - 1
    shapes = [(batch, steps, module.width)]
    if isinstance(module, Encoded):
        shapes = [(steps, batch, module.width)]
    if isinstance(module, Cached):
        shapes += [(batch, INPUT, 2), (batch, HIDDEN, 4), (1, batch, HIDDEN)]
    return tuple(torch.randint(-8, 9, shape, generator=generator) / 8 for shape in shapes)


def make_cases(name, module):
    return draw_cases(name, module, make_inputs, CASES)


def export(module, path, opset):
    # of one row: PyTorch 1.13 writes the batch of the sample into the states of a GRU
    sample = (1 if opset == 17 else 2, 6)
    export_open(module, path, opset, make_inputs(module, *sample, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
