"""The GRU and RNN modules that exports.py exports, in the manner of lstm_modules.py.

Each class is one way of writing, and is exported once for each cell it is listed with, under
the names of both: gru_no_bias, rnn_relu_no_bias. How heads and inputs may be written around
a recurrent node is tried with LSTMs alone.
"""

import torch
from torch import nn
from torch.nn.utils import rnn

from lstm_modules import CLASSES, HIDDEN, INPUT, PER_ROW, PER_STEP, PER_STEP_TIME_MAJOR, STATE
from lstm_modules import WORDS, module_name

CELLS = {
    "gru": ("nn.GRU", nn.GRU, {}),
    "rnn_tanh": ("nn.RNN", nn.RNN, {}),
    "rnn_relu": ('nn.RNN(nonlinearity="relu")', nn.RNN, {"nonlinearity": "relu"}),
}
MODULES = {}


def variant(*cells):
    def register(cls):
        for cell in cells:
            what = f"{CELLS[cell][0]}: {cls.__doc__}"
            made = type(cls.__name__, (cls,), {"cell": cell, "__doc__": what})
            MODULES[f"{cell}_{module_name(cls)}"] = made
        return cls

    return register


class Base(nn.Module):
    cell = None
    inputs = ["x"]
    outputs = {"y": PER_STEP, "hn": STATE}
    options = {"batch_first": True}
    head_input = HIDDEN
    batch_fixed = None

    def __init__(self):
        super().__init__()
        _, make, options = CELLS[self.cell]
        self.recurrent = make(INPUT, HIDDEN, **options, **self.options)
        if "y" not in self.outputs:
            self.head = nn.Linear(self.head_input, CLASSES)

    def forward(self, x):
        return self.recurrent(x)

    def answer(self, last):
        return torch.softmax(self.head(last), dim=1)


@variant("gru", "rnn_tanh", "rnn_relu")
class BareBatchFirst(Base):
    """alone, batch_first=True, both outputs"""


@variant("gru", "rnn_tanh")
class BareTimeMajor(Base):
    """alone, batch_first=False, both outputs"""

    inputs = ["x_time_major"]
    outputs = {"y": PER_STEP_TIME_MAJOR, "hn": STATE}
    options = {}


@variant("gru", "rnn_tanh", "rnn_relu")
class NoBias(Base):
    """bias=False"""

    options = {"batch_first": True, "bias": False}


@variant("gru", "rnn_tanh", "rnn_relu")
class StateIn(Base):
    """initial state as input, final state as output"""

    inputs = ["x", "h0"]

    def forward(self, x, h0):
        return self.recurrent(x, h0)


@variant("gru", "rnn_relu")
class Unbatched(Base):
    """a lone sequence, x [time, input]"""

    inputs = ["x_alone"]
    outputs = {"y": {0: "time"}, "hn": {}}


@variant("gru", "rnn_tanh")
class ZeroState(Base):
    """torch.zeros(1, x.size(0), hidden) made in forward(), out[:, -1, :], linear, softmax"""

    outputs = {"probabilities": PER_ROW}

    def forward(self, x):
        out, _ = self.recurrent(x, torch.zeros(1, x.size(0), HIDDEN))
        return self.answer(out[:, -1, :])


@variant("gru")
class LearnedState(Base):
    """a trained initial state, expanded over the batch"""

    outputs = {"probabilities": PER_ROW}

    def __init__(self):
        super().__init__()
        self.h0 = nn.Parameter(torch.zeros(1, 1, HIDDEN))

    def forward(self, x):
        out, _ = self.recurrent(x, self.h0.expand((1, x.size(0), HIDDEN)))
        return self.answer(out[:, -1, :])


@variant("gru", "rnn_tanh")
class Embedding(Base):
    """nn.Embedding in front, int64 tokens, h_n[-1], linear, softmax"""

    inputs = ["tokens"]
    outputs = {"probabilities": PER_ROW}

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, INPUT)

    def forward(self, tokens):
        _, h_n = self.recurrent(self.embedding(tokens))
        return self.answer(h_n[-1])


@variant("gru")
class Tagger(Base):
    """linear and softmax at every step"""

    outputs = {"tags": PER_STEP}

    def forward(self, x):
        out, _ = self.recurrent(x)
        return torch.softmax(self.head(out), dim=-1)


@variant("gru", "rnn_tanh", "rnn_relu")
class TwoLayer(Base):
    """num_layers=2 with dropout, out[:, -1, :], linear, softmax"""

    outputs = {"probabilities": PER_ROW}
    options = {"batch_first": True, "num_layers": 2, "dropout": 0.2}

    def forward(self, x):
        out, _ = self.recurrent(x)
        return self.answer(out[:, -1, :])


@variant("gru")
class TwoLayerStateIn(StateIn):
    """num_layers=2, states [2, batch, hidden] in and out"""

    options = {"batch_first": True, "num_layers": 2}


@variant("gru")
class ThreeCells(Base):
    """nn.GRU, then nn.RNN, then nn.LSTM, out[:, -1, :], linear, softmax"""

    outputs = {"probabilities": PER_ROW}

    def __init__(self):
        super().__init__()
        self.second = nn.RNN(HIDDEN, HIDDEN, batch_first=True)
        self.third = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x):
        out, _ = self.recurrent(x)
        out, _ = self.second(out)
        out, _ = self.third(out)
        return self.answer(out[:, -1, :])


@variant("gru", "rnn_tanh")
class PackedZeroState(Base):
    """pack_padded_sequence, zero state by torch.zeros(1, x.size(0), hidden), h_n[-1]"""

    inputs = ["x", "lengths_sorted"]
    outputs = {"probabilities": PER_ROW}

    def run_packed(self, x, lengths):
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=True)
        return self.recurrent(packed, torch.zeros(1, x.size(0), HIDDEN))

    def forward(self, x, lengths):
        _, h_n = self.run_packed(x, lengths)
        return self.answer(h_n[-1])


@variant("gru", "rnn_relu")
class PackedTagger(PackedZeroState):
    """pack_padded_sequence, pad_packed_sequence, linear at every step"""

    outputs = {"scores": PER_STEP}

    def forward(self, x, lengths):
        out, _ = rnn.pad_packed_sequence(self.run_packed(x, lengths)[0], batch_first=True)
        return self.head(out)


@variant("gru", "rnn_tanh")
class BidirectionalTagger(Tagger):
    """bidirectional=True, linear and softmax at every step"""

    options = {"batch_first": True, "bidirectional": True}
    head_input = 2 * HIDDEN
