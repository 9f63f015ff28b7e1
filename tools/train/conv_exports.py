#!/usr/bin/env python3
"""Writes into tests/data/onnx modules with convolutions along the steps, before and behind recurrent
layers, as of speech and OCR. Weights and cases in the manner of exports.py, one run under each
PyTorch whose exporter is to be tried.
"""

import sys
import zlib

import torch
from torch import nn
from torch.nn import functional

from exports import SAMPLE, WEIGHT_MAX
from exports import as_tuple, strip_stack_traces, tensor, write_models
from golden import CASES
from lstm_modules import CLASSES, HIDDEN, INPUT, WORDS

BATCH = {0: "batch"}
TIMED = {0: "batch", 1: "time"}


class Front(nn.Module):
    """batch norm, Conv1d of 5 taps and ReLU over features [batch, time, ..]; a bidirectional LSTM"""

    kind, outputs = "features", {"p": TIMED}

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(INPUT, 10, 5, padding=2), nn.BatchNorm1d(INPUT)
        self.lstm = nn.LSTM(10, HIDDEN // 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        y = torch.relu(self.conv(self.norm(x.transpose(1, 2)))).transpose(1, 2)
        return torch.softmax(self.head(self.lstm(y)[0]), 2)


class Deep(nn.Module):
    """three convolutions, a dilated one and one without bias among them; the last state of a GRU"""

    kind, outputs = "features", {"hn": BATCH}

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(INPUT, 7, 3, padding=1)
        self.dilated = nn.Conv1d(7, 5, 3, padding=4, dilation=4)
        self.point = nn.Conv1d(5, 9, 1, bias=False)
        self.gru = nn.GRU(9, HIDDEN, batch_first=True)

    def forward(self, x):
        y = torch.tanh(self.first(x.transpose(1, 2)))
        y = self.point(torch.relu(self.dilated(y)))
        return self.gru(y.transpose(1, 2))[1][0]


class Behind(nn.Module):
    """an LSTM, behind it a depthwise and a pointwise convolution"""

    kind, outputs = "features", {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.depth = nn.Conv1d(HIDDEN, HIDDEN, 3, padding=1, groups=HIDDEN)
        self.point = nn.Conv1d(HIDDEN, CLASSES, 1)

    def forward(self, x):
        return self.point(self.depth(self.lstm(x)[0].transpose(1, 2))).transpose(1, 2)


class Ends(nn.Module):
    """a convolution over an embedding: its largest and last step beside the last state of a GRU"""

    kind, outputs = "ids", {"p": BATCH}

    def __init__(self):
        super().__init__()
        self.embedding, self.conv = nn.Embedding(WORDS, INPUT), nn.Conv1d(INPUT, HIDDEN, 3, padding=1)
        self.gru, self.head = nn.GRU(HIDDEN, HIDDEN, batch_first=True), nn.Linear(3 * HIDDEN, CLASSES)

    def forward(self, x):
        y = self.conv(self.embedding(x).transpose(1, 2))
        state = self.gru(y.transpose(1, 2))[1][0]
        return torch.softmax(self.head(torch.cat([y.max(2)[0], y[:, :, -1], state], 1)), 1)


class Pools(nn.Module):
    """the largest and the mean of the steps around each, which stay as many; a GRU over both"""

    kind, outputs = "features", {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.largest, self.mean = nn.MaxPool1d(3, 1, 1), nn.AvgPool1d(5, 1, 2, count_include_pad=False)
        self.gru = nn.GRU(2 * INPUT, HIDDEN, batch_first=True)

    def forward(self, x):
        steps = x.transpose(1, 2)
        y = torch.cat([self.largest(steps), self.mean(torch.tanh(steps))], 1)
        return self.largest(self.gru(y.transpose(1, 2))[0].transpose(1, 2)).transpose(1, 2)


class Strided(nn.Module):
    """two convolutions of stride 2 with ReLU; a bidirectional LSTM and a Linear over what is left"""

    kind, outputs = "features", {"y": {0: "batch", 1: "left"}}

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(INPUT, 8, 3, 2, 1), nn.Conv1d(8, 10, 3, 2, 1)
        self.lstm = nn.LSTM(10, HIDDEN // 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        y = torch.relu(self.second(torch.relu(self.first(x.transpose(1, 2)))))
        return self.head(self.lstm(y.transpose(1, 2))[0])


class Pooled(nn.Module):
    """a convolution, the largest and the mean of every two steps of it, a GRU, its last state"""

    kind, outputs = "features", {"y": {0: "batch", 1: "left"}, "hn": BATCH}

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(INPUT, 8, 5, padding=2)
        self.largest, self.mean = nn.MaxPool1d(2, ceil_mode=True), nn.AvgPool1d(2, ceil_mode=True)
        self.gru = nn.GRU(16, HIDDEN, batch_first=True)

    def forward(self, x):
        y = self.conv(x.transpose(1, 2))
        y, hn = self.gru(torch.cat([self.largest(y), self.mean(y)], 1).transpose(1, 2))
        return y, hn[0]


class Residual(nn.Module):
    """a strided block with a shortcut, a pool with zeros around it, a causal convolution, a GRU from zeros"""

    kind, outputs = "features", {"y": {0: "batch", 1: "left"}}

    def __init__(self):
        super().__init__()
        self.wide, self.short = nn.Conv1d(INPUT, 8, 3, 2, 1), nn.Conv1d(INPUT, 8, 1, 2)
        self.mean, self.causal = nn.AvgPool1d(3, 1, 1), nn.Conv1d(8, 8, 3)
        self.gru = nn.GRU(8, HIDDEN)

    def forward(self, x):
        steps = x.transpose(1, 2)
        y = self.mean(torch.relu(self.wide(steps) + self.short(steps)))
        y = self.causal(functional.pad(y, (2, 0))).permute(2, 0, 1)
        zeros = torch.zeros(1, y.size(1), HIDDEN)
        return self.gru(y, zeros)[0].transpose(0, 1)


class Unpadded(nn.Module):
    """convolutions that shorten the sequence, of an embedding; the mean of a GRU behind them"""

    kind, outputs, least = "ids", {"p": BATCH}, 7

    def __init__(self):
        super().__init__()
        self.embedding, self.conv = nn.Embedding(WORDS, INPUT), nn.Conv1d(INPUT, HIDDEN, 3)
        self.dilated = nn.Conv1d(HIDDEN, HIDDEN, 3, dilation=2)
        self.gru, self.head = nn.GRU(HIDDEN, HIDDEN, batch_first=True), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        y = self.dilated(torch.tanh(self.conv(self.embedding(x).transpose(1, 2))))
        return torch.softmax(self.head(self.gru(y.transpose(1, 2))[0].mean(1)), 1)


class Skipping(nn.Module):
    """gated convolutions that shorten the sequence, as WaveNet's: to what each makes the last steps
    of its input are added, and of the sum so far; a GRU over that"""

    kind, outputs, least = "features", {"y": {0: "batch", 1: "left"}}, 5

    def __init__(self):
        super().__init__()
        self.taken, self.gates = nn.ModuleList(), nn.ModuleList()
        self.back, self.skips = nn.ModuleList(), nn.ModuleList()
        for dilation in (1, 3):
            self.taken.append(nn.Conv1d(INPUT, 4, 2, dilation=dilation))
            self.gates.append(nn.Conv1d(INPUT, 4, 2, dilation=dilation))
            self.back.append(nn.Conv1d(4, INPUT, 1))
            self.skips.append(nn.Conv1d(4, 6, 1))
        self.gru = nn.GRU(6, HIDDEN, batch_first=True)

    def forward(self, x):
        x, total = x.transpose(1, 2), None
        for taken, gate, back, skip in zip(self.taken, self.gates, self.back, self.skips):
            z = torch.tanh(taken(x)) * torch.sigmoid(gate(x))
            y = skip(z)
            total = y if total is None else y + total[:, :, -y.size(2) :]
            x = back(z) + x[:, :, x.size(2) - z.size(2) :]
        y = total + x[:, :, -total.size(2) :].mean(1, keepdim=True)
        return self.gru(y.transpose(1, 2))[0]


class Segments(nn.Module):
    """the mean of each segment of four steps, for all its steps, with that of all a gate; a GRU; as of CAM++"""

    kind, outputs = "features", {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.conv, self.gate = nn.Conv1d(INPUT, HIDDEN, 3, padding=1), nn.Conv1d(INPUT, HIDDEN, 1)
        self.gru = nn.GRU(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x):
        x = x.transpose(1, 2)
        means = functional.avg_pool1d(x, 4, 4, ceil_mode=True)
        means = means.unsqueeze(-1).expand(*means.shape, 4).reshape(*means.shape[:-1], -1)[..., : x.size(-1)]
        gate = torch.sigmoid(self.gate(x.mean(-1, keepdim=True) + means))
        return self.gru((self.conv(x) * gate).transpose(1, 2))[0]


class Attended(nn.Module):
    """an LSTM over all steps, which attend to a bidirectional GRU over every second one"""

    kind, outputs = "features", {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.conv, self.all = nn.Conv1d(INPUT, 5, 3, 2, 1), nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.left = nn.GRU(5, HIDDEN // 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        left = self.left(torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2))[0]
        scores = torch.bmm(self.all(x)[0], left.transpose(1, 2))
        return torch.bmm(torch.softmax(scores, 2), left)


class Bare(nn.Module):
    """a pool without padding straight over the input; ends, mean and maximum of a GRU"""

    kind, outputs, least = "features", {"y": BATCH}, 3

    def __init__(self):
        super().__init__()
        self.pool, self.gru = nn.MaxPool1d(3, 2), nn.GRU(INPUT, HIDDEN, batch_first=True)

    def forward(self, x):
        y = self.gru(self.pool(x.transpose(1, 2)).transpose(1, 2))[0]
        return torch.cat([y[:, 0], y[:, -1], y.mean(1), y.max(1)[0]], 1)


class Block(nn.Module):
    """A causal, dilated convolution whose last steps are cut off, beside its input."""

    def __init__(self, dilation):
        super().__init__()
        self.conv, self.extra = nn.Conv1d(INPUT, INPUT, 3, padding=2 * dilation, dilation=dilation), 2 * dilation

    def forward(self, x):
        return x + torch.relu(self.conv(x)[:, :, : -self.extra])


class Causal(nn.Module):
    """causal convolutions of growing dilation that cut off what padding adds, with shortcuts; a GRU"""

    kind, outputs = "features", {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(1), Block(2), Block(4))
        self.gru = nn.GRU(INPUT, HIDDEN, batch_first=True)

    def forward(self, x):
        return self.gru(self.blocks(x.transpose(1, 2)).transpose(1, 2))[0]


class Change(nn.Module):
    """each step beside its difference from the one before; an LSTM over all but the first"""

    kind, outputs, least = "features", {"y": {0: "batch", 1: "left"}}, 2

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2 * INPUT, HIDDEN, batch_first=True)

    def forward(self, x):
        return self.lstm(torch.cat([x[:, 1:], x[:, 1:] - x[:, :-1]], 2))[0]


class Thinned(nn.Module):
    """an LSTM, every third of its steps, and a bidirectional GRU over those"""

    kind, outputs = "features", {"y": {0: "batch", 1: "left"}}

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.gru = nn.GRU(HIDDEN, HIDDEN // 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.gru(self.lstm(x)[0][:, ::3])[0]


class InstanceNormed(nn.Module):
    """an input normalised over its steps, a strided convolution so too, LeakyReLU; a bidirectional LSTM"""

    kind, outputs, least = "features", {"y": TIMED}, 4

    def __init__(self):
        super().__init__()
        self.before, self.behind = nn.InstanceNorm1d(INPUT, affine=True), nn.InstanceNorm1d(7)
        self.conv = nn.Conv1d(INPUT, 7, 3, stride=2, padding=1)
        self.lstm = nn.LSTM(7, HIDDEN // 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        y = self.behind(self.conv(self.before(x.transpose(1, 2))))
        return self.lstm(functional.leaky_relu(y).transpose(1, 2))[0]


class GroupNormed(nn.Module):
    """a convolution normalised over all steps in groups of channels, twice, the second time in one; a GRU"""

    kind, outputs = "features", {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(INPUT, 12, 3, padding=1), nn.GroupNorm(3, 12)
        self.gru, self.last = nn.GRU(12, HIDDEN, batch_first=True), nn.GroupNorm(1, HIDDEN)

    def forward(self, x):
        y = torch.relu(self.norm(self.conv(x.transpose(1, 2))))
        return self.last(self.gru(y.transpose(1, 2))[0].transpose(1, 2)).transpose(1, 2)


class Standardised(nn.Module):
    """features less their mean by their deviation over the steps; mean and deviation of an LSTM, as of an x-vector"""

    kind, outputs, least = "features", {"p": BATCH}, 2

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(INPUT, HIDDEN, batch_first=True), nn.Linear(2 * HIDDEN, CLASSES)

    def forward(self, x):
        x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 0.01)
        y = self.lstm(x)[0]
        return self.head(torch.cat([y.mean(1), y.std(1)], 1))


class Queried(nn.Module):
    """attention over the steps by products with a vector, without a matrix"""

    kind, outputs = "features", {"p": BATCH}

    def __init__(self):
        super().__init__()
        self.lstm, self.query = nn.LSTM(INPUT, HIDDEN, batch_first=True), nn.Parameter(torch.zeros(HIDDEN))

    def forward(self, x):
        y = self.lstm(x)[0]
        return (torch.softmax(y @ self.query, 1).unsqueeze(2) * y).sum(1)


class Positioned(nn.Module):
    """embeddings of the steps' numbers, and a table's first steps behind a stride of 2; the last step, a GRU"""

    kind, outputs = "features", {"last": BATCH, "y": TIMED}

    def __init__(self):
        super().__init__()
        self.numbers, self.conv = nn.Embedding(40, INPUT), nn.Conv1d(INPUT, 7, 3, stride=2, padding=1)
        self.register_buffer("table", torch.zeros(1, 30, 7))
        self.gru = nn.GRU(7, HIDDEN, batch_first=True)

    def forward(self, x):
        x = x + self.numbers(torch.arange(x.size(1), device=x.device))
        y = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return x[:, -1], self.gru(y + self.table[:, : y.size(1)])[0]


class Forecast(nn.Module):
    """an LSTM, a GRU over its last four steps, of which two are answered; its last three as features"""

    kind, outputs, least = "features", {"y": {0: "batch"}, "p": BATCH}, 4

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.gru, self.head = nn.GRU(HIDDEN, 5, batch_first=True), nn.Linear(3 * HIDDEN, CLASSES)

    def forward(self, x):
        y = self.lstm(x)[0]
        return self.gru(y[:, -4:])[0][:, -2:], self.head(y[:, -3:].flatten(1))


class Pyramid(nn.Module):
    """three GRUs, each over the steps of the one before in pairs, as of a pyramid that listens"""

    kind, outputs, each = "features", {"y": TIMED, "hn": BATCH}, 4

    def __init__(self):
        super().__init__()
        self.first = nn.GRU(INPUT, HIDDEN // 2, batch_first=True, bidirectional=True)
        self.second = nn.GRU(2 * HIDDEN, HIDDEN, batch_first=True)
        self.third = nn.GRU(2 * HIDDEN, 5, batch_first=True)

    def forward(self, x):
        y = self.first(x)[0]
        y = self.second(y.reshape(y.size(0), y.size(1) // 2, 2 * HIDDEN))[0]
        y, hn = self.third(y.reshape(y.size(0), -1, 2 * HIDDEN))
        return y, hn[0]


class Cumulative(nn.Module):
    """features less the mean of all so far, a GRU, sums so far of what it gives"""

    kind, outputs = "features", {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(INPUT, HIDDEN, batch_first=True)

    def forward(self, x):
        number = torch.cumsum(torch.ones_like(x[:, :, :1]), 1)
        return torch.cumsum(self.gru(x - torch.cumsum(x, 1) / number)[0], 1)


class Paired(nn.Module):
    """even steps beside odd ones; a strided convolution and a pool that is added to it; a GRU"""

    kind, outputs, each = "features", {"y": TIMED}, 4

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2 * INPUT, 2 * INPUT, 3, stride=2, padding=1)
        self.gru = nn.GRU(2 * INPUT, HIDDEN, batch_first=True)

    def forward(self, x):
        x = torch.cat([x[:, 0::2], x[:, 1::2]], 2).transpose(1, 2)
        return self.gru((self.conv(x) + functional.max_pool1d(x, 2)).transpose(1, 2))[0]


class Reflected(nn.Module):
    """features between some of their own turned round, as reflection pads, and added to all of them so; an LSTM"""

    kind, outputs = "features", {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(INPUT + 4, HIDDEN, batch_first=True)

    def forward(self, x):
        ends = x[:, :, 1:3].flip(2), x[:, :, -3:-1].flip(2)
        return self.lstm(torch.cat([ends[0], x + x.flip(2), ends[1]], 2))[0]


class Circular(nn.Module):
    """a convolution that goes round from the last step to the first, as Autoformer's and Informer's do, features likewise; an LSTM"""

    kind, outputs, least = "features", {"y": TIMED}, 2

    def __init__(self):
        super().__init__()
        self.round = nn.Conv1d(INPUT, HIDDEN, 5, padding=2, padding_mode="circular", bias=False)
        self.lstm = nn.LSTM(HIDDEN + 3, HIDDEN, batch_first=True)

    def forward(self, x):
        y = self.round(x.transpose(1, 2)).transpose(1, 2)
        return self.lstm(nn.functional.pad(y, (1, 2), mode="circular"))[0]


class Frames(nn.Module):
    """features of two steps as one, without a last one that is left over; an LSTM"""

    kind, outputs, least = "features", {"y": TIMED}, 2

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2 * INPUT, HIDDEN, batch_first=True)

    def forward(self, x):
        pairs = x.size(1) // 2
        return self.lstm(x[:, : 2 * pairs].reshape(x.size(0), pairs, 2 * INPUT))[0]


class Cut(nn.Module):
    """an LSTM in both directions, its steps cut to an even number and joined in pairs by half of what is left, a GRU"""

    kind, outputs, least = "features", {"y": {0: "batch", 1: "fewer"}}, 2

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(INPUT, HIDDEN // 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(2 * HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x):
        y = self.lstm(x)[0]
        y = y[:, : y.size(1) // 2 * 2]
        return self.gru(y.reshape(y.size(0), y.size(1) // 2, 2 * HIDDEN))[0]


class Deltas(nn.Module):
    """features, their slopes over five steps with the edges repeated, and the slopes of these; an LSTM"""

    kind, outputs = "features", {"y": TIMED}

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3 * INPUT, HIDDEN, batch_first=True)
        self.register_buffer("kernel", torch.arange(-2.0, 3.0).repeat(INPUT, 1, 1) / 10)

    def slopes(self, x):
        return functional.conv1d(functional.pad(x, (2, 2), mode="replicate"), self.kernel, groups=INPUT)

    def forward(self, x):
        y = x.transpose(1, 2)
        slopes = self.slopes(y)
        return self.lstm(torch.cat([y, slopes, self.slopes(slopes)], 1).transpose(1, 2))[0]


class Between(nn.Module):
    """a GRU, twice as many steps between its own, a convolution over them, another GRU"""

    kind, outputs = "features", {"y": {0: "batch", 1: "more"}}

    def __init__(self):
        super().__init__()
        self.first, self.conv = nn.GRU(INPUT, HIDDEN, batch_first=True), nn.Conv1d(HIDDEN, 5, 3, padding=1)
        self.second = nn.GRU(5, HIDDEN, batch_first=True)

    def forward(self, x):
        y = functional.interpolate(self.first(x)[0].transpose(1, 2), scale_factor=2, mode="linear")
        return self.second(self.conv(y).transpose(1, 2))[0]


class Middle(nn.Module):
    """a GRU's step in the middle, over which all others are weighed, and that of what strides leave"""

    kind, outputs = "features", {"y": BATCH, "z": BATCH}

    def __init__(self):
        super().__init__()
        self.gru, self.query = nn.GRU(INPUT, HIDDEN, batch_first=True), nn.Linear(HIDDEN, HIDDEN)
        self.conv = nn.Conv1d(HIDDEN, 4, 3, 2, 1)

    def forward(self, x):
        y = self.gru(x)[0]
        weights = torch.softmax(torch.bmm(y, self.query(y[:, y.size(1) // 2]).unsqueeze(2)).squeeze(2), 1)
        z = self.conv(y.transpose(1, 2))
        return torch.bmm(weights.unsqueeze(1), y).squeeze(1), z[:, :, z.size(2) // 3 * 2]


class Taken(nn.Module):
    """a GRU's third step and its last but two, its first four steps, a convolution over some near the end"""

    kind, outputs, least = "features", {"one": BATCH, "y": {0: "batch"}, "z": {0: "batch"}}, 5

    def __init__(self):
        super().__init__()
        self.gru, self.conv = nn.GRU(INPUT, HIDDEN, batch_first=True), nn.Conv1d(HIDDEN, 4, 3, padding=1)

    def forward(self, x):
        y = self.gru(x)[0]
        few = self.conv(y.transpose(1, 2)[:, :, -5:-1])
        return y[:, 2] + y[:, -3], y[:, :4] - y[:, -4:], few.transpose(1, 2)


class Viewed(nn.Module):
    """what a stride and a pool leave, viewed by its shape, which exporters compute before the convolution"""

    kind, outputs, least = "features", {"y": {0: "batch", 1: "fewer"}}, 3

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(INPUT, HIDDEN, 5, stride=2, padding=2), nn.Conv1d(HIDDEN, HIDDEN, 3, padding=1)
        self.gru = nn.GRU(HIDDEN, HIDDEN, bidirectional=True)

    def forward(self, x):
        y = torch.relu(self.second(torch.relu(self.first(x.transpose(1, 2)))))
        rows, channels, steps = y.shape
        y = y.view(rows, 2, channels // 2, steps).mean(1)
        y = torch.cat([y, y], 1).view(rows, channels, steps).permute(2, 0, 1)
        y = self.gru(y)[0]
        return y.view(y.size(0), y.size(1), 2, -1).sum(2).transpose(0, 1)


class Largest(nn.Module):
    """k-max pooling: the three largest steps of an LSTM, and the two smallest of a convolution of it"""

    kind, outputs, least = "features", {"y": BATCH, "z": BATCH}, 3

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.conv = nn.Conv1d(HIDDEN, CLASSES, 3, padding=1)

    def forward(self, x):
        y = self.lstm(x)[0]
        z = self.conv(y.transpose(1, 2)).topk(2, dim=2, largest=False)[0]
        return torch.topk(y, 3, dim=1)[0].flatten(1), z.mean(2)


MODULES = {
    "conv_attended": Attended,
    "conv_bare": Bare,
    "conv_behind": Behind,
    "conv_between": Between,
    "conv_causal": Causal,
    "conv_circular": Circular,
    "conv_change": Change,
    "conv_cumulative": Cumulative,
    "conv_cut": Cut,
    "conv_deep": Deep,
    "conv_deltas": Deltas,
    "conv_ends": Ends,
    "conv_forecast": Forecast,
    "conv_frames": Frames,
    "conv_front": Front,
    "conv_group_normed": GroupNormed,
    "conv_instance_normed": InstanceNormed,
    "conv_largest": Largest,
    "conv_middle": Middle,
    "conv_paired": Paired,
    "conv_pooled": Pooled,
    "conv_pools": Pools,
    "conv_positioned": Positioned,
    "conv_pyramid": Pyramid,
    "conv_queried": Queried,
    "conv_reflected": Reflected,
    "conv_residual": Residual,
    "conv_segments": Segments,
    "conv_skipping": Skipping,
    "conv_standardised": Standardised,
    "conv_strided": Strided,
    "conv_taken": Taken,
    "conv_thinned": Thinned,
    "conv_unpadded": Unpadded,
    "conv_viewed": Viewed,
}


def make_module(name, modules=None):
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    module = (modules or MODULES)[name]().eval()
    for key, values in sorted(module.state_dict().items()):
        if values.is_floating_point():
            drawn = torch.rand(values.shape, generator=generator) * 2 - 1
            values.copy_(drawn.abs() + 0.5 if "running_var" in key else drawn * WEIGHT_MAX)
    return module


def make_input(module, batch, time, generator):
    time = time * getattr(module, "each", 1) + getattr(module, "least", 1) - 1
    if module.kind == "ids":
        return torch.randint(0, WORDS, (batch, time), generator=generator)
    return torch.randint(-8, 9, (batch, time, INPUT), generator=generator) / 8


def make_cases(name, module, draw=make_input):
    generator = torch.Generator().manual_seed(zlib.crc32(b"cases of " + name.encode()))
    cases = []
    for batch, time in CASES:
        x = draw(module, batch, time, generator)
        with torch.no_grad():
            outputs = as_tuple(module(x))
        given = [tensor(n, v) for n, v in zip(module.outputs, outputs)]
        cases.append({"inputs": [tensor("x", x)], "outputs": given})
    return cases


def export(module, path, opset, draw=make_input, axes=None):
    torch.onnx.export(
        module,
        (draw(module, *SAMPLE, torch.Generator().manual_seed(0)),),
        str(path),
        input_names=["x"],
        output_names=list(module.outputs),
        dynamic_axes={"x": axes or TIMED, **module.outputs},
        opset_version=opset,
    )
    strip_stack_traces(path)


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
