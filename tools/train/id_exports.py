#!/usr/bin/env python3
"""Writes into tests/data/onnx recurrent models whose ids come otherwise than one a step: several categories beside each other, each with
an embedding of its own, categories among numbers, and labels that a layer has chosen. Weights and cases in the manner of exports.py, one
run under each PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn

from exports import SAMPLE, draw_cases, draw_weights, export_open, write_models
from lstm_modules import CLASSES, HIDDEN, INPUT

STEPS = {0: "batch", 1: "time"}
BATCH = {0: "batch"}
TABLES = (7, 24, 3)  # days, hours, kinds
WIDTH = 2


class Categories(nn.Module):
    """numbers beside three categories a step, and others of the whole sequence"""

    inputs, outputs = {"x": STEPS, "categories": STEPS, "of_all": BATCH}, {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, WIDTH) for n in TABLES)
        self.rnn = nn.LSTM(INPUT + 2 * len(TABLES) * WIDTH, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def look_up(self, ids):
        return torch.cat([table(ids[..., i]) for i, table in enumerate(self.tables)], -1)

    def forward(self, x, categories, of_all):
        whole = self.look_up(of_all).unsqueeze(1).expand(-1, x.size(1), -1)
        return self.head(self.rnn(torch.cat([x, self.look_up(categories), whole], -1))[0])


class Mixed(Categories):
    """one tensor of floats: its last elements are categories"""

    inputs = {"mixed": STEPS}

    def forward(self, mixed):
        x, ids = mixed[..., :INPUT], mixed[..., INPUT:].long()
        both = torch.cat([self.look_up(ids), self.look_up(ids)], -1)
        return self.head(self.rnn(torch.cat([x, both], -1))[0])


class Chosen(nn.Module):
    """the label that one layer has chosen, embedded for the next"""

    inputs, outputs = {"x": STEPS}, {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.GRU(INPUT, HIDDEN, batch_first=True), nn.GRU(WIDTH, HIDDEN, batch_first=True)
        self.label, self.head = nn.Linear(HIDDEN, CLASSES), nn.Linear(HIDDEN, CLASSES)
        self.table = nn.Embedding(CLASSES, WIDTH)

    def forward(self, x):
        return self.head(self.second(self.look_up(self.label(self.first(x)[0]).argmax(-1)))[0])

    def look_up(self, ids):
        return self.table(ids)


class Cut(nn.Module):
    """ids of which those below 0 stand for none, and others that are cut to a range, as icefall's predictors have it"""

    inputs, outputs = {"ids": STEPS, "ages": STEPS}, {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.table, self.decades = nn.Embedding(CLASSES, HIDDEN), nn.Embedding(4, HIDDEN)
        self.rnn = nn.GRU(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, ids, ages):
        rows = self.table(ids.clamp(min=0)) * (ids >= 0).unsqueeze(2)
        return self.rnn(rows + self.decades(ages.clamp(min=1, max=3)))[0]


class Hot(Chosen):
    """the same as a row of zeros and a one"""

    def __init__(self):
        super().__init__()
        self.second = nn.GRU(CLASSES, HIDDEN, batch_first=True)

    def look_up(self, ids):
        return nn.functional.one_hot(ids, CLASSES).float()


class Scored(nn.Module):
    """ids of a session; what the last state says of all ids: their embeddings on the left of the product"""

    inputs, outputs = {"ids": STEPS}, {"y": BATCH}

    def __init__(self):
        super().__init__()
        self.table, self.wide = nn.Embedding(TABLES[1], WIDTH), nn.Linear(WIDTH, HIDDEN, bias=False)
        self.gru = nn.GRU(WIDTH, HIDDEN, batch_first=True)

    def forward(self, ids):
        state = self.gru(self.table(ids))[1][-1]
        return torch.matmul(self.wide(self.table.weight), state.t()).t()


MODULES = {
    "ids_categories": Categories,
    "ids_chosen": Chosen,
    "ids_cut": Cut,
    "ids_hot": Hot,
    "ids_mixed": Mixed,
    "ids_scored": Scored,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def draw_ids(shape, generator):
    return torch.stack([torch.randint(0, n, shape, generator=generator) for n in TABLES], -1)


def make_inputs(module, batch, time, generator):
    x = torch.randint(-8, 9, (batch, time, INPUT), generator=generator) / 8
    if "ages" in module.inputs:
        ids = torch.randint(-2, CLASSES, (batch, time), generator=generator)
        return ids, torch.randint(-3, 9, (batch, time), generator=generator)
    if "ids" in module.inputs:
        return [torch.randint(0, TABLES[1], (batch, time), generator=generator)]
    if "mixed" in module.inputs:
        return [torch.cat([x, draw_ids((batch, time), generator).float()], -1)]
    if "categories" in module.inputs:
        return x, draw_ids((batch, time), generator), draw_ids((batch,), generator)
    return [x]


def make_cases(name, module):
    return draw_cases(name, module, make_inputs)


def export(module, path, opset):
    export_open(module, path, opset, make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
