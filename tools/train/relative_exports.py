#!/usr/bin/env python3
"""Writes into tests/data/onnx modules in which a sequence attends to its own steps by how far apart these are:
biases by distance, embeddings of relative positions, and positions that are shifted as Transformer-XL and the
speech recognisers after it do. Weights and cases in the manner of exports.py, one run under each PyTorch whose
exporter is to be tried.
"""

import math
import sys

import torch
from torch import nn

from attention_exports import HEADS, STEPS, Own
from exports import SAMPLE, draw_cases, draw_weights, export_open, write_models
from golden import CASES
from lstm_modules import HIDDEN, INPUT

LONGEST = 24  # steps that a table of distances has rows for
WIDTH = HIDDEN // HEADS


class Relative(Own):
    """scores by products of each step's query and key, by heads; what follows from the distance is added"""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))

    def attend(self, h):
        q, k, v = (
            layer(h).view(h.size(0), -1, HEADS, WIDTH).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        weights = torch.softmax(self.scores(q, k), 3)
        return (weights @ v).transpose(1, 2).reshape(h.size(0), -1, HIDDEN)

    def scores(self, q, k):
        return q @ k.transpose(2, 3) / WIDTH**0.5 + self.bias(q.size(2))

    def distances(self, steps):
        number = torch.arange(steps)
        return number[None, :] - number[:, None]


class Slopes(Relative):
    """ALiBi of encoders: a slope for each head, whatever the direction (Press et al. 2022)"""

    def bias(self, steps):
        slopes = torch.tensor([2.0 ** -(head + 1) for head in range(HEADS)]).view(-1, 1, 1)
        return -self.distances(steps).abs() * slopes


class SlopesCausal(Relative):
    """ALiBi as it was, of those before"""

    def bias(self, steps):
        slopes = torch.tensor([2.0 ** -(head + 1) for head in range(HEADS)]).view(-1, 1, 1)
        mask = torch.triu(torch.full((steps, steps), float("-inf")), diagonal=1)
        return self.distances(steps) * slopes + mask


class Buckets(Relative):
    """T5: an embedding of buckets, exact where near and logarithmic where far (Raffel et al. 2020)"""

    both = True

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(12, HEADS)

    def bucket(self, distance, buckets=12, farthest=20):
        first = 0
        if self.both:
            buckets //= 2
            first = (distance > 0).to(torch.long) * buckets
            distance = torch.abs(distance)
        else:
            distance = -torch.min(distance, torch.zeros_like(distance))
        exact = buckets // 2
        far = torch.log(distance.float() / exact) / math.log(farthest / exact) * (buckets - exact)
        far = exact + far.to(torch.long)
        far = torch.min(far, torch.full_like(far, buckets - 1))
        return first + torch.where(distance < exact, distance, far)

    def bias(self, steps):
        return self.table(self.bucket(self.distances(steps))).permute(2, 0, 1)


class BucketsCausal(Buckets):
    """the same of a decoder, with its mask"""

    both = False

    def bias(self, steps):
        return super().bias(steps) + torch.triu(torch.full((steps, steps), float("-inf")), diagonal=1)


class Table(Relative):
    """a number for each head and distance within a longest request"""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(HEADS, 2 * LONGEST - 1))

    def bias(self, steps):
        return self.table[:, self.distances(steps) + LONGEST - 1]


class Pairs(Relative):
    """a number for each head and pair of steps within a longest request"""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(HEADS, LONGEST, LONGEST))

    def bias(self, steps):
        return self.table[:, :steps, :steps]


class PairsMasked(Relative):
    """the mask of a longest request, kept, as decoders of text have it"""

    def __init__(self):
        super().__init__()
        mask = torch.tril(torch.ones(LONGEST, LONGEST)).view(1, 1, LONGEST, LONGEST)
        self.register_buffer("mask", mask, persistent=False)

    def scores(self, q, k):
        steps = q.size(2)
        products = q @ k.transpose(2, 3) / WIDTH**0.5
        return products.masked_fill(self.mask[:, :, :steps, :steps] == 0, float("-inf"))


class Embedded(Relative):
    """a vector for each distance up to three, multiplied by the query (Shaw et al. 2018)"""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, WIDTH)

    def scores(self, q, k):
        rows = self.table(torch.clamp(self.distances(q.size(2)), -3, 3) + 3)
        return (q @ k.transpose(2, 3) + torch.einsum("bhid,ijd->bhij", q, rows)) / WIDTH**0.5


class EmbeddedSums(Embedded):
    """the same, element by element"""

    def scores(self, q, k):
        rows = self.table.weight[torch.clamp(self.distances(q.size(2)), -3, 3) + 3]
        return (q @ k.transpose(2, 3) + (q.unsqueeze(-2) * rows).sum(-1)) / WIDTH**0.5


class Shifted(Relative):
    """sines of distances through a layer, and two biases; shifted by a column of zeros (Dai et al. 2019, as ESPnet)"""

    def __init__(self):
        super().__init__()
        self.p = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.u, self.w = (nn.Parameter(torch.zeros(HEADS, 1, WIDTH)) for _ in range(2))
        distance = torch.arange(LONGEST - 1, -LONGEST, -1.0).view(-1, 1)
        rate = torch.exp(torch.arange(0, HIDDEN, 2.0) * -(math.log(10000.0) / HIDDEN))
        sines = torch.stack([torch.sin(distance * rate), torch.cos(distance * rate)], 2).flatten(1)
        self.register_buffer("sines", sines.unsqueeze(0), persistent=False)

    def positions(self, steps):
        centre = self.sines.size(1) // 2
        return self.sines[:, centre - steps + 1 : centre + steps]

    def scores(self, q, k):
        near = self.positions(q.size(2))
        p = self.p(near).view(near.size(0), -1, HEADS, WIDTH).transpose(1, 2)
        own = (q + self.u) @ k.transpose(2, 3)
        return (own + self.shift((q + self.w) @ p.transpose(2, 3))) / WIDTH**0.5

    def shift(self, x):
        zeros = torch.zeros((*x.size()[:3], 1))
        padded = torch.cat([zeros, x], -1).view(*x.size()[:2], x.size(3) + 1, x.size(2))
        return padded[:, :, 1:].view_as(x)[:, :, :, : x.size(-1) // 2 + 1]


class ShiftedPadded(Shifted):
    """the same with another Pad, and cut to the other scores' size, as NeMo does"""

    def positions(self, steps):
        centre = self.sines.size(1) // 2 + 1
        return self.sines[:, centre - steps : centre + steps - 1]

    def shift(self, x):
        batch, heads, steps, distances = x.size()
        x = nn.functional.pad(x, (1, 0)).view(batch, heads, -1, steps)
        return x[:, :, 1:].view(batch, heads, steps, distances)[:, :, :, :steps]


class Behind(Relative):
    """sines of positions from the last step down, shifted, beside a causal mask (Dai et al. 2019)"""

    def __init__(self):
        super().__init__()
        self.position = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.u, self.v_bias = nn.Parameter(torch.zeros(HEADS, 1, WIDTH)), nn.Parameter(torch.zeros(HEADS, 1, WIDTH))

    def scores(self, q, k):
        steps = q.size(2)
        angles = torch.arange(steps - 1, -1, -1.0)[:, None] / 10 ** torch.linspace(0, 1, HIDDEN // 2)
        rows = self.position(torch.cat([torch.sin(angles), torch.cos(angles)], 1)).view(1, -1, HEADS, WIDTH).transpose(1, 2)
        products = (q + self.v_bias) @ rows.transpose(2, 3)
        padded = nn.functional.pad(products, (1, 0))
        shifted = padded.view(q.size(0), HEADS, steps + 1, steps)[:, :, 1:]
        scores = ((q + self.u) @ k.transpose(2, 3) + shifted) / WIDTH**0.5
        return scores.masked_fill(torch.triu(torch.ones(steps, steps), 1).bool(), float("-inf"))


class Gathered(Shifted):
    """the same table, of which each step gathers the distances that it has (Yao et al. 2024)"""

    def shift(self, x):
        batch, heads, steps, distances = x.size()
        rows = torch.arange(steps - 1, -1, -1).repeat(batch * heads).unsqueeze(-1)
        picked = torch.gather(x.reshape(-1, distances), 1, rows + torch.arange(steps))
        return picked.reshape(batch, heads, steps, steps)


class Conformer(Shifted):
    """frames to a half by a convolution, then two blocks that shift, with convolutions between (Gulati et al. 2020)"""

    def __init__(self):
        super().__init__()
        self.stride = nn.Conv1d(INPUT, HIDDEN, 3, 2, 1)
        self.next = Shifted()
        self.mix = nn.Conv1d(HIDDEN, HIDDEN, 3, padding=1, groups=HIDDEN)

    def forward(self, x):
        h = torch.relu(self.stride(x.transpose(1, 2))).transpose(1, 2)
        h = h + self.attend(h)
        h = h + torch.nn.functional.silu(self.mix(h.transpose(1, 2))).transpose(1, 2)
        h = h + self.next.attend(h)
        return self.head(self.rnn(h[..., :INPUT])[0])


Conformer.outputs = {"y": {0: "batch", 1: "half"}}

MODULES = {
    "relative_behind": Behind,
    "relative_buckets": Buckets,
    "relative_buckets_causal": BucketsCausal,
    "relative_conformer": Conformer,
    "relative_embedded": Embedded,
    "relative_embedded_sums": EmbeddedSums,
    "relative_gathered": Gathered,
    "relative_pairs": Pairs,
    "relative_pairs_masked": PairsMasked,
    "relative_shifted": Shifted,
    "relative_shifted_padded": ShiftedPadded,
    "relative_slopes": Slopes,
    "relative_slopes_causal": SlopesCausal,
    "relative_table": Table,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_inputs(module, batch, time, generator):
    return [torch.randint(-8, 9, (batch, time, INPUT), generator=generator) / 8]


def make_cases(name, module):
    return draw_cases(name, module, make_inputs, CASES + [(1, LONGEST - 1)])


def export(module, path, opset):
    export_open(module, path, opset, make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
