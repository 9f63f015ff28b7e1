#!/usr/bin/env python3
"""Writes into tests/data/onnx modules that read two sequences, each with its own length: encoders of
a pair, attention of one over the other in the ways in which people write it. Weights and cases in the
manner of exports.py, one run under each PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn

from exports import draw_cases, draw_weights, export_open, write_models
from lstm_modules import CLASSES, HIDDEN, INPUT, WORDS

CASES = [(1, 1, 1), (2, 4, 3), (3, 5, 7)]  # batch, steps of the question, of the text
SAMPLE = (2, 4, 3)
BATCH = {0: "batch"}
QUESTION = {0: "batch", 1: "question"}
TEXT = {0: "batch", 1: "text"}


def both_ends(rnn, steps):
    last = rnn(steps)[1]
    return torch.cat([last[0], last[1]], 1)


def gru(features=INPUT, hidden=HIDDEN // 2):
    return nn.GRU(features, hidden, batch_first=True, bidirectional=True)


class Reader(nn.Module):
    inputs = {"question": QUESTION, "text": TEXT}

    def __init__(self):
        super().__init__()
        self.of_question, self.of_text = gru(), gru()

    def read(self, question, text):
        return self.of_question(question)[0], self.of_text(text)[0]


class Similarity(Reader):
    """cosine of what a bidirectional GRU makes of a query and of each document; one query for all"""

    inputs = {"question": {1: "question"}, "text": TEXT}
    outputs = {"score": BATCH}

    def forward(self, question, text):
        return torch.cosine_similarity(
            both_ends(self.of_text, question), both_ends(self.of_text, text)
        )


class Apart(Reader):
    """two encoders whose results are answered apart, the text's at each step"""

    outputs = {"a": BATCH, "b": TEXT}

    def forward(self, question, text):
        return both_ends(self.of_question, question), self.of_text(text)[0]


class AttentionSum(Reader):
    """softmax over the text's steps of their products with the question; the weights are answered"""

    outputs = {"weights": TEXT, "sum": BATCH}

    def forward(self, question, text):
        steps = self.of_text(text)[0]
        asked = both_ends(self.of_question, question).unsqueeze(2)
        weights = torch.softmax(torch.bmm(steps, asked).squeeze(2), 1)
        return weights, torch.bmm(weights.unsqueeze(1), steps).squeeze(1)


class Products(Reader):
    """each step of the text attends to the question: products of expanded tensors, over sqrt(d)"""

    outputs = {"y": TEXT}

    def forward(self, question, text):
        q, c = self.read(question, text)
        scores = (c.unsqueeze(2) * q.unsqueeze(1)).sum(3) / HIDDEN**0.5
        return (torch.softmax(scores, 2).unsqueeze(3) * q.unsqueeze(1)).sum(2)


class Concatenated(Reader):
    """scores of a Linear over [c; q; c * q] of each pair, tiled; then a GRU over what was attended"""

    outputs = {"y": TEXT, "last": BATCH}

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(3 * HIDDEN, 1)
        self.then = nn.GRU(2 * HIDDEN, HIDDEN, batch_first=True)

    def forward(self, question, text):
        q, c = self.read(question, text)
        tiled_c = c.unsqueeze(2).expand(-1, -1, q.size(1), -1)
        tiled_q = q.unsqueeze(1).expand(-1, c.size(1), -1, -1)
        scores = self.score(torch.cat([tiled_c, tiled_q, tiled_c * tiled_q], 3)).squeeze(3)
        attended = torch.matmul(torch.softmax(scores, 2), q)
        y, last = self.then(torch.cat([c, attended], 2))
        return y, last[0]


class Additive(Reader):
    """scores v tanh(W c + U q) of each pair; keys of a layer of their own"""

    outputs = {"y": TEXT}

    def __init__(self):
        super().__init__()
        self.key, self.ask = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.score = nn.Linear(HIDDEN, 1)

    def forward(self, question, text):
        q, c = self.read(question, text)
        energy = torch.tanh(self.key(q).unsqueeze(1) + self.ask(c).unsqueeze(2))
        weights = torch.softmax(self.score(energy).squeeze(3), 2)
        return torch.bmm(weights, q)


class Both(Reader):
    """the text attends to the question and the question to the text, by one matrix of scores"""

    outputs = {"of_text": TEXT, "of_question": QUESTION}

    def __init__(self):
        super().__init__()
        self.form = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, question, text):
        q, c = self.read(question, text)
        scores = torch.matmul(self.form(c), q.transpose(1, 2))
        of_text = torch.matmul(torch.softmax(scores, 2), q)
        of_question = torch.matmul(torch.softmax(scores, 1).transpose(1, 2), c)
        return torch.cat([c, of_text], 2), torch.cat([q, of_question], 2)


class Bidaf(Reader):
    """BiDAF's attention flow, two modeling layers, begin and end"""

    outputs = {"begin": TEXT, "end": TEXT}

    def __init__(self):
        super().__init__()
        self.c, self.q = nn.Linear(HIDDEN, 1), nn.Linear(HIDDEN, 1, bias=False)
        self.cq = nn.Parameter(torch.zeros(HIDDEN))
        self.modeling = nn.LSTM(4 * HIDDEN, 4, 2, batch_first=True, bidirectional=True)
        self.output = nn.LSTM(7 * HIDDEN, 4, batch_first=True, bidirectional=True)
        self.begin, self.end = nn.Linear(5 * HIDDEN, 1), nn.Linear(5 * HIDDEN, 1)

    def forward(self, question, text):
        u, h = self.read(question, text)
        scores = torch.matmul(h * self.cq, u.transpose(1, 2)) + self.c(h) + self.q(u).transpose(1, 2)
        asked = torch.matmul(torch.softmax(scores, 2), u)
        told = torch.matmul(torch.softmax(scores.max(2)[0], 1).unsqueeze(1), h)
        g = torch.cat([h, asked, h * asked, h * told], 2)
        m = self.modeling(g)[0]
        begin = torch.softmax(self.begin(torch.cat([g, m], 2)).squeeze(2), 1)
        a = torch.matmul(begin.unsqueeze(1), m).expand(-1, m.size(1), -1)
        m = self.output(torch.cat([g, m, a, m * a], 2))[0]
        return begin, torch.softmax(self.end(torch.cat([g, m], 2)).squeeze(2), 1)


class Pooled(Reader):
    """the text pooled by a network's scores, and by those of a network over each step and the question"""

    outputs = {"p": BATCH}

    def __init__(self):
        super().__init__()
        self.low, self.high = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)
        self.mixed, self.score = nn.Linear(2 * HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)
        self.head = nn.Linear(2 * HIDDEN, CLASSES)

    def forward(self, question, text):
        asked, c = both_ends(self.of_question, question), self.of_text(text)[0]
        weights = torch.softmax(self.high(torch.tanh(self.low(c))), 1)
        tiled = asked.unsqueeze(1).expand(-1, c.size(1), -1)
        mixed = torch.softmax(self.score(torch.relu(self.mixed(torch.cat([c, tiled], 2)))), 1)
        return torch.log_softmax(self.head(torch.cat([(weights * c).sum(1), (mixed * c).sum(1)], 1)), 1)


class Embedded(Reader):
    """ids of both, one embedding; the last state of the text begins where the question's ends"""

    kinds = {"question": "ids", "text": "ids"}
    outputs = {"p": BATCH}

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, INPUT)
        self.first, self.then = (nn.LSTM(INPUT, HIDDEN, batch_first=True) for _ in range(2))
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, question, text):
        state = self.first(self.embedding(question))[1]
        return torch.softmax(self.head(self.then(self.embedding(text), state)[1][0][0]), 1)


class Lengths(Reader):
    """two packed sequences, each with lengths of its own"""

    inputs = {"question": QUESTION, "text": TEXT, "asked": BATCH, "told": BATCH}
    kinds = {"asked": "question", "told": "text"}
    outputs = {"p": BATCH}

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2 * HIDDEN, CLASSES)

    def forward(self, question, text, asked, told):
        ends = []
        for rnn, steps, lengths in ((self.of_question, question, asked), (self.of_text, text, told)):
            packed = nn.utils.rnn.pack_padded_sequence(steps, lengths, batch_first=True)
            zeros = steps.new_zeros(2, steps.size(0), HIDDEN // 2)  # else the file has the batch
            last = rnn(packed, zeros)[1]
            ends.append(torch.cat([last[0], last[1]], 1))
        return torch.softmax(self.head(torch.cat(ends, 1)), 1)


class Multihead(Reader):
    """nn.MultiheadAttention from the steps of one to those of the other"""

    outputs = {"y": TEXT}

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(HIDDEN, 2, batch_first=True)
        self.head = nn.Linear(2 * HIDDEN, CLASSES)

    def forward(self, question, text):
        asked, told = self.read(question, text)
        return self.head(torch.cat([told, self.attention(told, asked, asked)[0]], 2))


MODULES = {
    "reader_additive": Additive,
    "reader_apart": Apart,
    "reader_attention_sum": AttentionSum,
    "reader_bidaf": Bidaf,
    "reader_both": Both,
    "reader_concatenated": Concatenated,
    "reader_embedded": Embedded,
    "reader_lengths": Lengths,
    "reader_multihead": Multihead,
    "reader_pooled": Pooled,
    "reader_products": Products,
    "reader_similarity": Similarity,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_inputs(module, batch, question, text, generator):
    steps = {"question": question, "text": text}
    made = []
    for name, axes in module.inputs.items():
        kind = getattr(module, "kinds", {}).get(name, "features")
        rows = batch if 0 in axes else 1
        if kind == "ids":
            made.append(torch.randint(0, WORDS, (rows, steps[name]), generator=generator))
        elif kind == "features":
            made.append(torch.randint(-8, 9, (rows, steps[name], INPUT), generator=generator) / 8)
        else:  # lengths, the longest first, as packing wants them
            lengths = torch.randint(1, steps[kind] + 1, (rows,), generator=generator)
            lengths[0] = steps[kind]
            made.append(lengths.sort(descending=True)[0])
    return made


def make_cases(name, module):
    return draw_cases(name, module, make_inputs, CASES)


def export(module, path, opset):
    export_open(module, path, opset, make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
