"""The LSTM modules that exports.py exports: each is one way people write the same thing.

Of each class `inputs` names what it takes (see INPUTS; the exported name is the part before
the first underscore), and `outputs` what it gives, with the axes that vary as {axis: name}.
"""

import torch
from torch import nn
from torch.nn.utils import rnn

INPUT = 6
HIDDEN = 8
CLASSES = 3
WORDS = 20

INPUTS = {
    "x": {0: "batch", 1: "time"},
    "x_time_major": {0: "time", 1: "batch"},
    "x_alone": {0: "time"},
    "series": {0: "batch", 1: "time"},
    "tokens": {0: "batch", 1: "time"},
    "tokens_int32": {0: "batch", 1: "time"},
    "h0": {1: "batch"},
    "c0": {1: "batch"},
    "lengths": {0: "batch"},
    "lengths_sorted": {0: "batch"},
}
PER_ROW = {0: "batch"}
PER_STEP = {0: "batch", 1: "time"}
PER_STEP_TIME_MAJOR = {0: "time", 1: "batch"}
STATE = {1: "batch"}

MODULES = {}


def module_name(cls):
    return "".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")


def variant(cls):
    MODULES[module_name(cls)] = cls
    return cls


class Base(nn.Module):
    inputs = ["x"]
    outputs = {"probabilities": PER_ROW}
    lstm_options = {"batch_first": True}
    lstm_input = INPUT
    head_input = HIDDEN
    head_output = CLASSES
    batch_fixed = None

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(self.lstm_input, HIDDEN, **self.lstm_options)
        self.head = nn.Linear(self.head_input, self.head_output)

    def answer(self, last):
        return torch.softmax(self.head(last), dim=1)


# -- which value is the last one


@variant
class LastSlice(Base):
    """out[:, -1, :], linear, softmax"""

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.answer(out[:, -1, :])


@variant
class LastRangeSqueeze(Base):
    """out[:, -1:, :].squeeze(1)"""

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.answer(out[:, -1:, :].squeeze(1))


@variant
class LastIndexTimeMajor(Base):
    """batch_first=False, out[-1]"""

    inputs = ["x_time_major"]
    lstm_options = {}

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.answer(out[-1])


@variant
class LastHn(Base):
    """h_n[-1]"""

    def forward(self, x):
        _, (h_n, _) = self.lstm(x)
        return self.answer(h_n[-1])


@variant
class LastHnSqueeze(Base):
    """h_n.squeeze(0)"""

    def forward(self, x):
        _, (h_n, _) = self.lstm(x)
        return self.answer(h_n.squeeze(0))


@variant
class LastHnTimeMajor(Base):
    """batch_first=False, h_n[0]"""

    inputs = ["x_time_major"]
    lstm_options = {}

    def forward(self, x):
        _, (h_n, _) = self.lstm(x)
        return self.answer(h_n[0])


@variant
class HnView(Base):
    """h_n.view(-1, hidden)"""

    def forward(self, x):
        _, (h_n, _) = self.lstm(x)
        return self.answer(h_n.view(-1, HIDDEN))


@variant
class HnFlatten(Base):
    """torch.flatten(h_n.transpose(0, 1), 1) of two layers"""

    lstm_options = {"batch_first": True, "num_layers": 2}
    head_input = 2 * HIDDEN

    def forward(self, x):
        _, (h_n, _) = self.lstm(x)
        return self.answer(torch.flatten(h_n.transpose(0, 1), 1))


@variant
class CatHc(Base):
    """torch.cat of last h and last c"""

    head_input = 2 * HIDDEN

    def forward(self, x):
        _, (h_n, c_n) = self.lstm(x)
        return self.answer(torch.cat([h_n[-1], c_n[-1]], dim=1))


# -- the bare operator, and its state


@variant
class BareBatchFirst(Base):
    """nn.LSTM alone, batch_first=True, all three outputs"""

    outputs = {"y": PER_STEP, "hn": STATE, "cn": STATE}

    def __init__(self):
        super().__init__()
        self.head = None

    def forward(self, x):
        y, (h_n, c_n) = self.lstm(x)
        return y, h_n, c_n


@variant
class BareTimeMajor(BareBatchFirst):
    """nn.LSTM alone, batch_first=False, all three outputs"""

    inputs = ["x_time_major"]
    outputs = {"y": PER_STEP_TIME_MAJOR, "hn": STATE, "cn": STATE}
    lstm_options = {}


@variant
class NoBias(BareBatchFirst):
    """nn.LSTM(bias=False)"""

    lstm_options = {"batch_first": True, "bias": False}


@variant
class StateIn(BareBatchFirst):
    """initial state as inputs, final state as outputs"""

    inputs = ["x", "h0", "c0"]

    def forward(self, x, h0, c0):
        y, (h_n, c_n) = self.lstm(x, (h0, c0))
        return y, h_n, c_n


@variant
class StateInTimeMajor(StateIn):
    """the same with batch_first=False"""

    inputs = ["x_time_major", "h0", "c0"]
    outputs = {"y": PER_STEP_TIME_MAJOR, "hn": STATE, "cn": STATE}
    lstm_options = {}


@variant
class ZeroState(Base):
    """torch.zeros(1, x.size(0), hidden) made in forward()"""

    def forward(self, x):
        h0 = torch.zeros(1, x.size(0), HIDDEN)
        c0 = torch.zeros(1, x.size(0), HIDDEN)
        out, _ = self.lstm(x, (h0, c0))
        return self.answer(out[:, -1, :])


@variant
class ZeroStateNew(Base):
    """x.new_zeros(...), one tensor for h and c"""

    def forward(self, x):
        zero = x.new_zeros((1, x.shape[0], HIDDEN))
        out, _ = self.lstm(x, (zero, zero))
        return self.answer(out[:, -1, :])


@variant
class LearnedState(Base):
    """a trained initial state, expanded over the batch"""

    def __init__(self):
        super().__init__()
        self.h0 = nn.Parameter(torch.zeros(1, 1, HIDDEN))
        self.c0 = nn.Parameter(torch.zeros(1, 1, HIDDEN))

    def forward(self, x):
        shape = (1, x.size(0), HIDDEN)
        out, _ = self.lstm(x, (self.h0.expand(shape), self.c0.expand(shape)))
        return self.answer(out[:, -1, :])


@variant
class Unbatched(BareBatchFirst):
    """a lone sequence, x [time, input]"""

    inputs = ["x_alone"]
    outputs = {"y": {0: "time"}, "hn": {}, "cn": {}}


# -- in front of the operator


@variant
class Embedding(Base):
    """nn.Embedding in front, int64 tokens"""

    inputs = ["tokens"]

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, INPUT)

    def forward(self, tokens):
        out, _ = self.lstm(self.embedding(tokens))
        return self.answer(out[:, -1, :])


@variant
class EmbeddingInt32(Embedding):
    """the same with int32 tokens"""

    inputs = ["tokens_int32"]


@variant
class EmbeddingTimeMajor(Embedding):
    """int64 tokens, embedding, transpose, time-major LSTM, h_n[-1]"""

    lstm_options = {}

    def forward(self, tokens):
        _, (h_n, _) = self.lstm(self.embedding(tokens).transpose(0, 1))
        return self.answer(h_n[-1])


@variant
class OneHot(Base):
    """functional.one_hot of int64 tokens, as floats, in front"""

    inputs = ["tokens"]
    lstm_input = WORDS

    def forward(self, tokens):
        out, _ = self.lstm(nn.functional.one_hot(tokens, WORDS).float())
        return self.answer(out[:, -1, :])


@variant
class Chosen(Base):
    """features by a list and every second one in front, of the answer some by steps of three"""

    lstm_input = 7
    head_input = 4

    def forward(self, x):
        chosen = torch.cat([x[:, :, [4, 1, 1, 5]], x[:, :, ::2]], dim=2)
        out, _ = self.lstm(chosen)
        last = out[:, -1, :]
        return self.answer(torch.cat([last[:, 1::3], last[:, [6]]], dim=1))


@variant
class PreProjection(Base):
    """relu(linear(x)) in front of the LSTM"""

    lstm_input = 5

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(INPUT, self.lstm_input)

    def forward(self, x):
        out, _ = self.lstm(torch.relu(self.project(x)))
        return self.answer(out[:, -1, :])


@variant
class Normalised(Base):
    """(x - mean) / scale with constant buffers in front"""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.linspace(-0.5, 0.5, INPUT))
        self.register_buffer("scale", torch.linspace(0.5, 2.0, INPUT))

    def forward(self, x):
        out, _ = self.lstm((x - self.mean) / self.scale)
        return self.answer(out[:, -1, :])


@variant
class SeriesUnsqueeze(Base):
    """a series [batch, time], unsqueeze(-1), and one number out, squeeze(-1)"""

    inputs = ["series"]
    outputs = {"value": PER_ROW}
    lstm_input = 1
    head_output = 1

    def forward(self, series):
        out, _ = self.lstm(series.unsqueeze(-1))
        return self.head(out[:, -1, :]).squeeze(-1)


@variant
class PermuteAround(Base):
    """x.permute(1, 0, 2), time-major LSTM, permuted back"""

    outputs = {"y": PER_STEP}
    lstm_options = {}

    def forward(self, x):
        out, _ = self.lstm(x.permute(1, 0, 2))
        return torch.tanh(self.head(out.permute(1, 0, 2)))


# -- behind the operator


@variant
class HeadLinear(Base):
    """linear alone"""

    outputs = {"scores": PER_ROW}

    def answer(self, last):
        return self.head(last)

    forward = LastSlice.forward


@variant
class HeadSigmoid(HeadLinear):
    """linear, sigmoid"""

    def answer(self, last):
        return torch.sigmoid(self.head(last))


@variant
class HeadTanh(HeadLinear):
    """linear, tanh"""

    def answer(self, last):
        return torch.tanh(self.head(last))


@variant
class HeadGelu(HeadLinear):
    """linear, GELU"""

    def answer(self, last):
        return nn.functional.gelu(3 * self.head(last))


@variant
class HeadGeluTanh(HeadLinear):
    """linear, GELU by tanh"""

    def answer(self, last):
        return nn.functional.gelu(3 * self.head(last), approximate="tanh")


# -- backwards by hand


@variant
class Flipped(Base):
    """x.flip(1), nn.LSTM, out.flip(1), beside a forward nn.LSTM over each step, linear"""

    outputs = {"y": PER_STEP}
    head_input = 2 * HIDDEN

    def __init__(self):
        super().__init__()
        self.back = nn.LSTM(INPUT, HIDDEN, batch_first=True)

    def forward(self, x):
        back, _ = self.back(torch.flip(x, [1]))
        out, _ = self.lstm(x)
        return self.head(torch.cat([out, torch.flip(back, [1])], dim=2))


@variant
class FlippedLast(Base):
    """relu(linear(x)).flip(1), nn.LSTM, linear over each step, the last one, softmax"""

    def __init__(self):
        super().__init__()
        self.before = nn.Linear(INPUT, INPUT)

    def forward(self, x):
        out, _ = self.lstm(torch.flip(torch.relu(self.before(x)), [1]))
        return torch.softmax(self.head(out)[:, -1, :], dim=1)


@variant
class HeadMlp(HeadLinear):
    """dropout, linear, relu, dropout, linear (eval mode)"""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(CLASSES, 2)

    def answer(self, last):
        return self.second(self.drop(torch.relu(self.head(self.drop(last)))))


@variant
class HeadNoBias(HeadLinear):
    """linear without bias"""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(HIDDEN, CLASSES, bias=False)


@variant
class HeadTopk(Base):
    """at every step the two largest logits and their numbers"""

    outputs = {"scores": PER_STEP, "tags": PER_STEP}

    def forward(self, x):
        return torch.topk(self.head(self.lstm(x)[0]), 2)


@variant
class HeadTopkLast(Base):
    """after the last step the two smallest probabilities and the number of the largest"""

    outputs = {"smallest": PER_ROW, "best": PER_ROW}

    def forward(self, x):
        probabilities = torch.softmax(self.head(self.lstm(x)[0][:, -1]), 1)
        return torch.topk(probabilities, 2, largest=False)[0], torch.topk(probabilities, 1)[1]


@variant
class Tagger(Base):
    """linear and softmax at every step"""

    outputs = {"tags": PER_STEP}

    def forward(self, x):
        out, _ = self.lstm(x)
        return torch.softmax(self.head(out), dim=-1)


@variant
class TaggerTimeMajor(Tagger):
    """the same with batch_first=False"""

    inputs = ["x_time_major"]
    outputs = {"tags": PER_STEP_TIME_MAJOR}
    lstm_options = {}


@variant
class TaggerView(Base):
    """out.contiguous().view(-1, hidden), linear, view(batch, time, classes)"""

    outputs = {"scores": PER_STEP}

    def forward(self, x):
        out, _ = self.lstm(x)
        flat = self.head(out.contiguous().view(-1, HIDDEN))
        return flat.view(x.size(0), x.size(1), CLASSES)


@variant
class CharLm(Embedding):
    """tokens and state in; a distribution a step and state out"""

    inputs = ["tokens", "h0", "c0"]
    outputs = {"next": PER_STEP, "hn": STATE, "cn": STATE}
    head_output = WORDS

    def forward(self, tokens, h0, c0):
        out, (h_n, c_n) = self.lstm(self.embedding(tokens), (h0, c0))
        return torch.softmax(self.head(out), dim=-1), h_n, c_n


# -- several layers, lengths, and what is no plain forward chain


@variant
class TwoLayer(Base):
    """num_layers=2 with dropout, out[:, -1, :]"""

    lstm_options = {"batch_first": True, "num_layers": 2, "dropout": 0.2}

    forward = LastSlice.forward


@variant
class TwoLayerHn(Base):
    """num_layers=2, h_n[-1]"""

    lstm_options = {"batch_first": True, "num_layers": 2}

    forward = LastHn.forward


@variant
class TwoLayerStateIn(StateIn):
    """num_layers=2, states [2, batch, hidden] in and out"""

    lstm_options = {"batch_first": True, "num_layers": 2}


@variant
class TwoLstm(Base):
    """two nn.LSTM in a row, relu between"""

    def __init__(self):
        super().__init__()
        self.second = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x):
        out, _ = self.lstm(x)
        out, _ = self.second(torch.relu(out))
        return self.answer(out[:, -1, :])


@variant
class PackedHn(Base):
    """pack_padded_sequence with sorted lengths, h_n[-1]; the file is for batch 1 alone"""

    inputs = ["x", "lengths_sorted"]
    batch_fixed = 1  # the TorchScript exporter bakes the zero state's batch into the file

    def forward(self, x, lengths):
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=True)
        _, (h_n, _) = self.lstm(packed)
        return self.answer(h_n[-1])


@variant
class PackedZeroState(Base):
    """pack_padded_sequence, zero state by torch.zeros(1, x.size(0), hidden), h_n[-1]"""

    inputs = ["x", "lengths_sorted"]
    enforce_sorted = True

    def run_packed(self, x, lengths):
        packed = rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=self.enforce_sorted
        )
        zero = torch.zeros(1, x.size(0), HIDDEN)
        return self.lstm(packed, (zero, zero))

    def forward(self, x, lengths):
        _, (h_n, _) = self.run_packed(x, lengths)
        return self.answer(h_n[-1])


@variant
class PackedUnsorted(PackedZeroState):
    """the same with enforce_sorted=False"""

    inputs = ["x", "lengths"]
    enforce_sorted = False


@variant
class PackedTagger(PackedZeroState):
    """pack_padded_sequence, pad_packed_sequence, linear at every step"""

    outputs = {"scores": PER_STEP}

    def forward(self, x, lengths):
        out, _ = rnn.pad_packed_sequence(self.run_packed(x, lengths)[0], batch_first=True)
        return self.head(out)


@variant
class PoolMean(Base):
    """mean over time instead of the last step"""

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.answer(out.mean(dim=1))


@variant
class BidirectionalTagger(Tagger):
    """bidirectional=True, linear and softmax at every step"""

    lstm_options = {"batch_first": True, "bidirectional": True}
    head_input = 2 * HIDDEN


@variant
class BidirectionalHn(Base):
    """bidirectional=True, torch.cat of h_n[-2] and h_n[-1]"""

    lstm_options = {"batch_first": True, "bidirectional": True}
    head_input = 2 * HIDDEN

    def forward(self, x):
        _, (h_n, _) = self.lstm(x)
        return self.answer(torch.cat([h_n[-2], h_n[-1]], dim=1))


@variant
class Parameters(Base):
    """parameters that are passed through functions: a softmax of layers' weights, a matrix of two that is normalised,
    scales that are kept positive"""

    def __init__(self):
        super().__init__()
        self.second = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.layers = nn.Parameter(torch.zeros(2))
        self.low, self.rank = nn.Parameter(torch.zeros(HIDDEN, 2)), nn.Parameter(torch.zeros(2, HIDDEN))
        self.scale = nn.Parameter(torch.zeros(HIDDEN))

    def forward(self, x):
        first, _ = self.lstm(x)
        weights = torch.softmax(self.layers, dim=0)
        out = weights[0] * first + weights[1] * self.second(first)[0]
        matrix = nn.functional.normalize(self.low @ self.rank, dim=0)
        scale = nn.functional.softplus(self.scale) * self.scale.clamp(-0.25, 0.25) ** 2
        last = (out[:, -1] @ matrix) * (scale - scale.mean())
        return self.answer(last)
