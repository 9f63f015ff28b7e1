#!/usr/bin/env python3
"""Writes into tests/data/onnx modules in which a sequence attends to its own steps, in the ways in which
people write it, and such as take steps of a sequence by their number. Weights and cases in the manner of
exports.py, one run under each PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn

from exports import SAMPLE, draw_cases, draw_weights, export_open, write_models
from golden import CASES
from lstm_modules import CLASSES, HIDDEN, INPUT

STATED = 6  # steps of modules that state them
HEADS = 2
STEPS = {0: "batch", 1: "time"}
BATCH = {0: "batch"}


class Own(nn.Module):
    """products of each step with all, a softmax of them, times all"""

    inputs = {"x": STEPS}
    outputs = {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(INPUT, HIDDEN // 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        return self.head(self.attend(self.rnn(x)[0]))

    def attend(self, h):
        return torch.softmax(h @ h.transpose(1, 2), 2) @ h


class Projected(Own):
    """queries, keys and values of layers of their own, over sqrt(d); the mean of what is attended"""

    outputs = {"y": BATCH}

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))

    def forward(self, x):
        return super().forward(x).mean(1)

    def attend(self, h):
        scores = torch.bmm(self.q(h), self.k(h).transpose(1, 2)) / HIDDEN**0.5
        return torch.bmm(torch.softmax(scores, -1), self.v(h)) + h


class Additive(Own):
    """scores v tanh(W h_i + U h_j) of each pair of steps"""

    def __init__(self):
        super().__init__()
        self.ask, self.key = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.score = nn.Linear(HIDDEN, 1)

    def attend(self, h):
        energy = torch.tanh(self.ask(h).unsqueeze(2) + self.key(h).unsqueeze(1))
        return torch.softmax(self.score(energy).squeeze(-1), -1) @ h


class Heads(Projected):
    """two heads, each with its part of queries, keys and values"""

    outputs = {"y": STEPS}

    def forward(self, x):
        return Own.forward(self, x)

    def attend(self, h):
        q, k, v = (
            layer(h).view(h.size(0), -1, HEADS, HIDDEN // HEADS).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        weights = torch.softmax(q @ k.transpose(2, 3) / (HIDDEN // HEADS) ** 0.5, 3)
        return (weights @ v).transpose(1, 2).reshape(h.size(0), -1, HIDDEN)


class Multihead(Own):
    """nn.MultiheadAttention behind the GRU, with a shortcut and a layer normalisation"""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(HIDDEN, HEADS, batch_first=True)
        self.norm = nn.LayerNorm(HIDDEN)

    def attend(self, h):
        return self.norm(h + self.attention(h, h, h)[0])


class MultiheadStated(Multihead):
    """the same, of a stated number of steps"""

    inputs = {"x": BATCH}
    outputs = {"y": BATCH}
    steps = STATED


class Causal(Projected):
    """each step attends to those before it and itself: the mask a triangle of True (the mean is the same)"""

    def attend(self, h):
        scores = torch.bmm(self.q(h), self.k(h).transpose(1, 2)) / HIDDEN**0.5
        return torch.bmm(torch.softmax(self.mask(scores, h.size(1)), -1), self.v(h))

    def mask(self, scores, steps):
        above = torch.triu(torch.ones(steps, steps, dtype=torch.bool), diagonal=1)
        return scores.masked_fill(above, float("-inf"))


class CausalAdded(Causal):
    """the mask added, -inf above the diagonal"""

    def mask(self, scores, steps):
        return scores + torch.triu(torch.full((steps, steps), float("-inf")), diagonal=1)


class CausalLower(Causal):
    """the other triangle, of ones, compared with 0"""

    def mask(self, scores, steps):
        return scores.masked_fill(torch.tril(torch.ones(steps, steps)) == 0, -1e9)


class CausalScaled(Causal):
    """one less the triangle, times a number"""

    def mask(self, scores, steps):
        return scores + (1 - torch.tril(torch.ones(steps, steps))) * -10000.0


class CausalNumbers(Causal):
    """numbers of steps compared"""

    def mask(self, scores, steps):
        number = torch.arange(steps)
        return torch.where(number[:, None] >= number[None, :], scores, torch.full_like(scores, -1e9))


class Anticausal(Causal):
    """those behind it and itself"""

    def mask(self, scores, steps):
        number = torch.arange(steps)
        return scores.masked_fill(number[None] < number[:, None], -1e9)


class Band(Causal):
    """two steps on either side"""

    def mask(self, scores, steps):
        number = torch.arange(steps)
        return scores.masked_fill((number[None] - number[:, None]).abs() > 2, -1e9)


class Ahead(Causal):
    """all before it and two ahead, as streams may look; and no more than four back"""

    def mask(self, scores, steps):
        scores = scores.masked_fill(torch.triu(torch.ones(steps, steps, dtype=torch.bool), diagonal=3), -1e9)
        return scores.masked_fill(torch.tril(torch.ones(steps, steps, dtype=torch.bool), diagonal=-5), -1e9)


class CausalHeads(Multihead):
    """nn.MultiheadAttention with PyTorch's mask"""

    def attend(self, h):
        mask = nn.Transformer.generate_square_subsequent_mask(h.size(1))
        return self.norm(h + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0])


class SoFar(Own):
    """the mean so far, by the number of the step, and the number itself as a feature"""

    def attend(self, h):
        count = torch.arange(1, h.size(1) + 1).view(1, -1, 1)
        return torch.cumsum(h, 1) / count.float() + 1 / (count.float() + 2)


class Sines(Own):
    """sines of each step's number, which is a float from the start"""

    def forward(self, x):
        number = torch.arange(x.size(1), dtype=torch.float).unsqueeze(1)
        angles = number * torch.exp(torch.arange(0, INPUT, 2).float() * -0.5)
        return super().forward(x + torch.cat([angles.sin(), angles.cos()], 1))


class Multiquery(Projected):
    """several heads of queries, keys and values that they share (Shazeer 2019)"""

    outputs = {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.k, self.v = nn.Linear(HIDDEN, HIDDEN // HEADS), nn.Linear(HIDDEN, HIDDEN // HEADS)

    def forward(self, x):
        return Own.forward(self, x)

    def attend(self, h):
        q = self.q(h).view(h.size(0), h.size(1), HEADS, HIDDEN // HEADS).transpose(1, 2)
        scores = q @ self.k(h).unsqueeze(1).transpose(2, 3)
        taken = torch.softmax(scores, -1) @ self.v(h).unsqueeze(1)
        return taken.transpose(1, 2).reshape(h.size(0), h.size(1), HIDDEN)


class Grouped(Own):
    """PyTorch's own attention, causal: four heads of queries, of which two share keys and values (Ainslie et al. 2023)"""

    def __init__(self):
        super().__init__()
        width = HIDDEN // HEADS
        self.q = nn.Linear(HIDDEN, 4 * width)
        self.k, self.v = (nn.Linear(HIDDEN, 2 * width) for _ in range(2))
        self.out = nn.Linear(4 * width, HIDDEN)

    def attend(self, h):
        q, k, v = (
            layer(h).unflatten(2, (-1, HIDDEN // HEADS)).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    """a gated residual network: two layers, a gate, a shortcut, a norm"""

    def __init__(self, features, width):
        super().__init__()
        self.first, self.second, self.gate = nn.Linear(features, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 2 * width)
        self.norm = nn.LayerNorm(width)
        self.shortcut = nn.Linear(features, width) if features != width else nn.Identity()

    def forward(self, x):
        y = self.second(nn.functional.elu(self.first(x)))
        return self.norm(nn.functional.glu(self.gate(y), -1) + self.shortcut(x))


class Fusion(nn.Module):
    """a temporal fusion transformer (Lim et al. 2021): variables selected, an LSTM, causal attention whose heads share values"""

    inputs, outputs = {"x": STEPS}, {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.embed = nn.ModuleList(nn.Linear(1, HIDDEN) for _ in range(INPUT))
        self.select = Gated(INPUT * HIDDEN, INPUT)
        self.variables = nn.ModuleList(Gated(HIDDEN, HIDDEN) for _ in range(INPUT))
        self.rnn = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.enrich, self.behind = Gated(HIDDEN, HIDDEN), Gated(HIDDEN, HIDDEN)
        self.q, self.k, self.v = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN // HEADS)
        self.out, self.head = nn.Linear(HIDDEN // HEADS, HIDDEN), nn.Linear(HIDDEN, CLASSES)
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, x):
        each = torch.stack([embed(x[..., i : i + 1]) for i, embed in enumerate(self.embed)], -2)
        weights = torch.softmax(self.select(each.flatten(-2)), -1).unsqueeze(-1)
        each = torch.stack([variable(each[..., i, :]) for i, variable in enumerate(self.variables)], -2)
        h = self.enrich(self.rnn((weights * each).sum(-2))[0])
        return self.head(self.behind(self.norm(self.out(self.attend(h)) + h)))

    def attend(self, h):
        batch, steps = h.size(0), h.size(1)
        q, k = (layer(h).view(batch, steps, HEADS, HIDDEN // HEADS) for layer in (self.q, self.k))
        scores = torch.einsum("bthd,bshd->bhts", q, k) / HEADS
        scores = scores.masked_fill(torch.triu(torch.ones(steps, steps, dtype=torch.bool), diagonal=1), -1e9)
        return torch.einsum("bhts,bsd->bhtd", torch.softmax(scores, -1), self.v(h)).mean(1)


class Hops(Own):
    """three sums of all steps by weights of their own (Lin et al. 2017)"""

    outputs = {"y": BATCH}

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(HIDDEN, 5, bias=False), nn.Linear(5, 3, bias=False)
        self.head = nn.Linear(3 * HIDDEN, CLASSES)

    def attend(self, h):
        weights = torch.softmax(self.second(torch.tanh(self.first(h))), 1)
        return (weights.transpose(1, 2) @ h).flatten(1)


class Asked(Own):
    """nn.MultiheadAttention of all steps by the last one, and by a learned query"""

    outputs = {"y": BATCH}

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(HIDDEN, HEADS, batch_first=True)
        self.query = nn.Parameter(torch.zeros(1, 1, HIDDEN))

    def attend(self, h):
        last = self.attention(h[:, -1:], h, h, need_weights=False)[0]
        learned = self.attention(self.query.expand(h.size(0), -1, -1), h, h, need_weights=False)[0]
        return (last + learned)[:, 0]


class Deep(nn.Module):
    """two encoder layers of eight heads each over what each step has been told of its place, causal, before an LSTM"""

    inputs, outputs = {"x": STEPS}, {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.before, self.place = nn.Linear(INPUT, HIDDEN), nn.Embedding(40, HIDDEN)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(HIDDEN, 8, HIDDEN, batch_first=True) for _ in range(2))
        self.rnn = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        steps = x.size(1)
        h = self.before(x) + self.place(torch.arange(steps))
        mask = torch.triu(torch.full((steps, steps), float("-inf")), diagonal=1)
        for layer in self.layers:
            h = layer(h, src_mask=mask)
        return self.head(self.rnn(h)[0])


class Encoder(nn.Module):
    """nn.TransformerEncoderLayer before an LSTM"""

    inputs = {"x": STEPS}
    outputs = {"y": STEPS, "last": BATCH}

    def __init__(self):
        super().__init__()
        self.before = nn.Linear(INPUT, HIDDEN)
        self.encoder = nn.TransformerEncoderLayer(HIDDEN, HEADS, HIDDEN, batch_first=True)
        self.rnn = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x):
        y, (last, _) = self.rnn(self.encoder(self.before(x)))
        return y, last[0]


class Flat(Own):
    """all steps, of a stated number, as the features of a Linear; steps by their number"""

    inputs = {"x": BATCH}
    outputs = {"y": BATCH, "third": BATCH, "tail": BATCH}
    steps = STATED

    def __init__(self):
        super().__init__()
        self.flat = nn.Linear(STATED * HIDDEN, CLASSES)
        self.then = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x):
        h = self.rnn(x)[0]
        tail = self.then(h[:, -3:])[0]
        return self.flat(torch.flatten(h, 1)), self.head(h[:, 2]), self.head(tail)


class Squeezed(Own):
    """one number a row, Squeeze without axes"""

    outputs = {"y": BATCH}

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])[:, :1].squeeze()


MODULES = {
    "own_additive": Additive,
    "own_ahead": Ahead,
    "own_anticausal": Anticausal,
    "own_asked": Asked,
    "own_band": Band,
    "own_causal": Causal,
    "own_causal_added": CausalAdded,
    "own_causal_heads": CausalHeads,
    "own_causal_lower": CausalLower,
    "own_causal_numbers": CausalNumbers,
    "own_causal_scaled": CausalScaled,
    "own_deep": Deep,
    "own_encoder": Encoder,
    "own_flat": Flat,
    "own_fusion": Fusion,
    "own_grouped": Grouped,
    "own_heads": Heads,
    "own_hops": Hops,
    "own_multihead": Multihead,
    "own_multihead_stated": MultiheadStated,
    "own_multiquery": Multiquery,
    "own_products": Own,
    "own_projected": Projected,
    "own_sines": Sines,
    "own_so_far": SoFar,
    "own_squeezed": Squeezed,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_inputs(module, batch, time, generator):
    time = getattr(module, "steps", time)
    return [torch.randint(-8, 9, (batch, time, INPUT), generator=generator) / 8]


def make_cases(name, module):
    shapes = CASES[1:] if name == "own_squeezed" else CASES  # of one row alone it has no batch
    return draw_cases(name, module, make_inputs, shapes)


def export(module, path, opset):
    export_open(module, path, opset, make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
