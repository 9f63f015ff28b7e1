#!/usr/bin/env python3
"""Writes into tests/data/onnx models whose recurrent layer has one step of its own beside sequences of many: behind a
summary of one, in a decoder that is written out, in one's step that attends to a memory, and between two layers; frames that a voice
detector pads by reflection within each of its steps; and sequences that are sorted by their lengths. Weights and cases in the manner of exports.py, one run under
each PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn

from exports import SAMPLE, draw_cases, draw_weights, export_open, write_models
from lstm_modules import HIDDEN, INPUT

STEPS = {0: "batch", 1: "time"}
STATE = {1: "batch"}
WORDS, HORIZON, LOOP = 11, 5, 20
SAMPLES, WINDOW, HOP = 40, 16, 8  # of each step


class Summary(nn.Module):
    """one step of a layer, whose state the client keeps, behind the last step of another"""

    inputs = {"x": STEPS, "h": STATE, "c": STATE}
    outputs = {"y": {0: "batch"}, "hn": STATE, "cn": STATE}

    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.second = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x, h, c):
        y, (h, c) = self.second(self.first(x)[0][:, -1:], (h, c))
        return y[:, 0], h, c


class Mean(nn.Module):
    """one step of a GRU in both directions behind the mean of a sequence"""

    inputs, outputs = {"x": STEPS}, {"y": {0: "batch"}}

    def __init__(self):
        super().__init__()
        self.first = nn.GRU(INPUT, HIDDEN, batch_first=True)
        self.second = nn.GRU(HIDDEN, HIDDEN, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.second(self.first(x)[0].mean(dim=1, keepdim=True))[0][:, 0]


class Between(nn.Module):
    """a layer of one step between two of many, which its row is added to"""

    inputs, outputs = {"x": STEPS}, {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.single = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.second = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x):
        y, (h, _) = self.first(x)
        return self.second(y + self.single(h.transpose(0, 1))[0])[0]


class Forecast(nn.Module):
    """a decoder of a stated number of steps, written out: each reads what the one before has answered"""

    inputs, outputs = {"x": STEPS}, {"y": {0: "batch"}}

    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        self.decoder = nn.LSTM(1, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, 1)

    def forward(self, x):
        state, value, values = self.encoder(x)[1], x[:, -1:, :1], []
        for _ in range(HORIZON):
            y, state = self.decoder(value, state)
            value = self.head(y)
            values.append(value)
        return torch.cat(values, 1)


class Masked(nn.Module):
    """one step of all rows, whose number the file states, beside another tensor of one step"""

    inputs = {"noisy": STATE, "x": STATE}
    outputs = {"y": STATE}

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(INPUT, HIDDEN)
        self.head = nn.Linear(HIDDEN, INPUT)

    def forward(self, noisy, x):
        return noisy * x * torch.sigmoid(self.head(self.rnn(x)[0]))


class Memory(nn.Module):
    """a decoder's step that the client calls for each word: it attends to a memory, as long as that is, and no layer
    goes along it"""

    inputs = {"word": {0: "batch"}, "h": STATE, "memory": {0: "batch", 1: "source"}, "mask": {0: "batch", 1: "source"}}
    outputs = {"words": {0: "batch"}, "hn": STATE, "weights": {0: "batch", 1: "source"}}

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, INPUT)
        self.keys = nn.Linear(HIDDEN, HIDDEN)
        self.rnn = nn.LSTM(HIDDEN + INPUT, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, WORDS)

    def forward(self, word, h, memory, mask):
        scores = torch.bmm(self.keys(memory), h.permute(1, 2, 0)).squeeze(2)
        weights = torch.softmax(scores.masked_fill(mask == 0, -1e10), dim=1)
        context = torch.bmm(weights.unsqueeze(1), memory)
        y, (h, _) = self.rnn(torch.cat([context, self.embedding(word)], 2))
        return self.head(y[:, 0]), h, weights


class Detector(nn.Module):
    """a voice detector over the chunks of one recording: each is padded by reflection, and its few frames convolved"""

    inputs = {"x": {0: "time"}, "h": {}, "c": {}}
    outputs = {"speech": {0: "time"}, "hn": {}, "cn": {}}

    def __init__(self):
        super().__init__()
        self.waves = nn.Conv1d(1, 2 * INPUT, WINDOW, stride=HOP, bias=False)
        self.first = nn.Conv1d(INPUT, HIDDEN, 3, stride=2, padding=1)
        self.second = nn.Conv1d(HIDDEN, HIDDEN, 3, stride=3, padding=1)
        self.rnn = nn.LSTM(HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, 1)

    def forward(self, x, h, c):
        padded = nn.functional.pad(x, (WINDOW // 2, WINDOW // 2), mode="reflect")
        waves = self.waves(padded.unsqueeze(1))
        frames = (waves[:, :INPUT] ** 2 + waves[:, INPUT:] ** 2 + 1 / 64).sqrt()
        frames = torch.relu(self.second(torch.relu(self.first(frames))))
        y, (h, c) = self.rnn(frames.transpose(1, 2), (h, c))
        return torch.sigmoid(self.head(torch.relu(y))).reshape(-1), h, c


def pack(x, lengths):
    return nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)


class Sorted(nn.Module):
    """sequences that are sorted by their lengths before they are packed, and put back behind two layers"""

    inputs = {"x": STEPS, "lengths": {0: "batch"}}
    outputs = {"y": STEPS, "hn": STATE}

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(INPUT, HIDDEN, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        zeros = torch.zeros(4, x.shape[0], HIDDEN)  # else the exporter writes the batch that it was shown
        y, (h, _) = self.rnn(pack(torch.tanh(x), lengths), (zeros, zeros))
        return nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0], h


class SortedSingle(Sorted):
    """the same of a batch of one"""

    inputs = {"x": {1: "time"}, "lengths": {}}
    outputs = {"y": {1: "time"}, "hn": {}}


class SortedStates(nn.Module):
    """the same of a GRU whose states the client keeps, which are sorted too"""

    inputs = {"x": STEPS, "lengths": {0: "batch"}, "h": STATE}
    outputs = {"words": STEPS, "hn": STATE}

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(INPUT, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, INPUT)

    def forward(self, x, lengths, h):
        y, h = self.rnn(pack(x, lengths), h)
        return x + self.head(nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0]), h


class Unrolled(nn.Module):
    """a cell in a loop of Python, which exporters write out step by step, and a decoder behind it likewise"""

    inputs, outputs = {"x": {0: "batch"}}, {"y": {0: "batch"}, "next": {0: "batch"}}

    def __init__(self):
        super().__init__()
        self.cell, self.decoder = nn.LSTMCell(INPUT, HIDDEN), nn.LSTMCell(1, HIDDEN)
        self.head = nn.Linear(HIDDEN, 1)

    def forward(self, x):
        h, c = torch.zeros(x.shape[0], HIDDEN), torch.zeros(x.shape[0], HIDDEN)
        heard, said = [], []
        for step in range(LOOP):
            h, c = self.cell(x[:, step], (h, c))
            heard.append(h)
        value = self.head(h)
        for _ in range(LOOP):
            h, c = self.decoder(value, (h, c))
            value = self.head(h)
            said.append(value)
        return torch.stack(heard, 1), torch.cat(said, 1)


MODULES = {
    "single_between": Between,
    "single_detector": Detector,
    "single_forecast": Forecast,
    "single_masked": Masked,
    "single_mean": Mean,
    "single_memory": Memory,
    "single_summary": Summary,
    "single_unrolled": Unrolled,
    "sorted_layers": Sorted,
    "sorted_single": SortedSingle,
    "sorted_states": SortedStates,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_inputs(module, batch, time, generator):
    def draw(*shape):
        return torch.randint(-8, 9, shape, generator=generator) / 8

    if isinstance(module, Detector):
        return draw(batch * time, SAMPLES), draw(1, 1, HIDDEN), draw(1, 1, HIDDEN)
    if isinstance(module, SortedSingle):
        return draw(1, time, INPUT), torch.tensor([time])
    if isinstance(module, (Sorted, SortedStates)):
        lengths = torch.randint(1, time + 1, (batch,), generator=generator)
        lengths[-1] = time  # packed sequences are as long as the longest
        states = (draw(1, batch, HIDDEN),) if isinstance(module, SortedStates) else ()
        return draw(batch, time, INPUT), lengths, *states
    if isinstance(module, Masked):
        return draw(1, batch, INPUT), draw(1, batch, INPUT)
    if isinstance(module, Unrolled):
        return (draw(batch, LOOP, INPUT),)
    if isinstance(module, Memory):
        word = torch.randint(0, WORDS, (batch, 1), generator=generator)
        mask = (draw(batch, time) < 0.5).float()
        mask[:, 0] = 1  # a row of a mask that leaves nothing out of everything has no weights
        return word, draw(1, batch, HIDDEN), draw(batch, time, HIDDEN), mask
    states = (draw(1, batch, HIDDEN), draw(1, batch, HIDDEN)) if isinstance(module, Summary) else ()
    return draw(batch, time, INPUT), *states


def make_cases(name, module):
    return draw_cases(name, module, make_inputs)


def export(module, path, opset):
    export_open(module, path, opset, make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
