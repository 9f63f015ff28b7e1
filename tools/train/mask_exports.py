#!/usr/bin/env python3
"""Writes into tests/data/onnx modules that take padded sequences with their lengths, or a mask, and leave
out what stands behind: in the ways in which people write it without packed sequences. Weights and cases in
the manner of exports.py, one run under each PyTorch whose exporter is to be tried.
"""

import sys

import torch
from torch import nn

from exports import SAMPLE, draw_cases, draw_weights, export_open, write_models
from lstm_modules import CLASSES, HIDDEN, INPUT, WORDS

STEPS = {0: "batch", 1: "time"}
BATCH = {0: "batch"}


class Masked(nn.Module):
    """the mean of the steps that a row has, of a bidirectional LSTM"""

    inputs, outputs = {"x": STEPS, "lengths": BATCH}, {"y": BATCH}

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(INPUT, HIDDEN // 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x, lengths):
        h = self.rnn(x)[0]
        there = torch.arange(x.size(1))[None] < lengths[:, None]
        return self.head(self.pool(h, there))

    def pool(self, h, there):
        weights = there.unsqueeze(2).float()
        return (h * weights).sum(1) / weights.sum(1)


class Largest(Masked):
    """the largest of the steps that a row has: -inf for the others"""

    def pool(self, h, there):
        return h.masked_fill(~there.unsqueeze(2), float("-inf")).max(1)[0]


class Attended(Masked):
    """attention over the steps that a row has: scores of -inf for the others, which stand in front"""

    inputs = {"x": STEPS, "starts": BATCH}

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(HIDDEN, 1)

    def forward(self, x, starts):
        h = self.rnn(x)[0]
        return self.head(self.pool(h, torch.arange(x.size(1))[None] >= starts[:, None]))

    def pool(self, h, there):
        scores = self.score(torch.tanh(h)).squeeze(2).masked_fill(~there, float("-inf"))
        return (torch.softmax(scores, 1).unsqueeze(2) * h).sum(1)


class Filled(Attended):
    """the same with -1e9, for those behind"""

    inputs = {"x": STEPS, "lengths": BATCH}

    def forward(self, x, lengths):
        return Masked.forward(self, x, lengths)

    def pool(self, h, there):
        scores = self.score(torch.tanh(h)).squeeze(2).masked_fill(~there, -1e9)
        return (torch.softmax(scores, 1).unsqueeze(2) * h).sum(1)


class Given(Masked):
    """a mask of whole numbers as an input"""

    inputs = {"x": STEPS, "mask": STEPS}

    def forward(self, x, mask):
        weights = mask.unsqueeze(2).float()
        return self.head((self.rnn(x)[0] * weights).sum(1) / weights.sum(1))


class Flagged(Attended):
    """attention over the steps that a mask of booleans leaves, and bytes as ids of an embedding"""

    inputs = {"x": STEPS, "mask": STEPS, "bytes": STEPS}

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, INPUT)

    def forward(self, x, mask, bytes):
        h = self.rnn(x + self.embedding(bytes.long()))[0]
        return self.head(self.pool(h, mask))


class Indexed(Masked):
    """the last step that a row has, by its number beside that of the row; forwards alone"""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(INPUT, HIDDEN, batch_first=True)

    def forward(self, x, lengths):
        return self.head(self.rnn(x)[0][torch.arange(x.size(0)), lengths - 1])


class Clamped(Indexed):
    """the same, of lengths that are cut first: of a row of 0 steps the first one, of one that says more than there
    are the last one"""

    def forward(self, x, lengths):
        last = torch.minimum(lengths.clamp(min=1) - 1, torch.full_like(lengths, x.size(1) - 1))
        return self.head(self.rnn(x)[0][torch.arange(x.size(0)), last])


class Gathered(Masked):
    """the same by gather(), of both directions; a length of 0 takes the first step"""

    def forward(self, x, lengths):
        h = self.rnn(x)[0]
        last = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, h.size(2))
        return self.head(h.gather(1, last).squeeze(1))


class Own(Masked):
    """each step attends to those that its row has, by products; the number of steps as lengths"""

    outputs = {"y": STEPS}

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))

    def pool(self, h, there):
        return self.take(h, self.mask(self.q(h) @ self.k(h).transpose(1, 2), there))

    def mask(self, scores, there):
        return scores.masked_fill(~there.unsqueeze(1), -1e9)

    def take(self, h, scores):
        return torch.softmax(scores / HIDDEN**0.5, -1) @ self.v(h)


class OwnNumbered(Own):
    """those of them so far, and the next one, steps being numbered by the sizes of the scores"""

    def mask(self, scores, there):
        number = torch.arange(scores.size(2))
        ahead = number.expand(scores.size(1), scores.size(2)) - number[:, None] < 3
        return scores.masked_fill(~(there.unsqueeze(1) & ahead & (number - number[:, None] < 2)), -1e9)


class OwnPadded(Own):
    """the same by a mask of booleans, and of each step those before it and itself"""

    inputs = {"x": STEPS, "padded": STEPS}

    def forward(self, x, padded):
        return self.head(self.pool(self.rnn(x)[0], ~padded))

    def mask(self, scores, there):
        above = torch.triu(torch.ones(scores.size(1), scores.size(1), dtype=torch.bool), diagonal=1)
        return super().mask(scores.masked_fill(above, float("-inf")), there)


class OwnTruths(OwnPadded):
    """PyTorch's own attention by a mask of truths: those that its row has, of each step those before it and itself"""

    def pool(self, h, there):
        q, k, v = self.q(h)[:, None], self.k(h)[:, None], self.v(h)[:, None]
        number = torch.arange(h.size(1))
        before = number[None, :] <= number[:, None]
        mask = there[:, None, None, :] & before
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)[:, 0]


class OwnProduct(OwnPadded):
    """the same two as floats, multiplied, as Hugging Face's decoders have it"""

    def mask(self, scores, there):
        number = torch.arange(scores.size(1))
        before = (number[None, :] <= number[:, None]).float()
        return scores + (1 - before[None] * there[:, None, :].float()) * -1e9


class OwnAdded(OwnPadded):
    """a mask of floats, one less which is times -10000 and added"""

    inputs = {"x": STEPS, "weights": STEPS}

    def forward(self, x, weights):
        return self.head(self.pool(self.rnn(x)[0], weights))

    def mask(self, scores, there):
        return scores + (1 - there[:, None, :]) * -10000.0


class OwnHeads(OwnPadded):
    """nn.MultiheadAttention with key_padding_mask, in an encoder's layer too"""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(HIDDEN, 2, HIDDEN, batch_first=True)
        self.attention = nn.MultiheadAttention(HIDDEN, 2, batch_first=True)

    def pool(self, h, there):
        h = self.encoder(h, src_key_padding_mask=~there)
        return self.attention(h, h, h, key_padding_mask=~there, need_weights=False)[0]


class OwnIds(Own):
    """ids, of which 0 stands for nothing, as mask"""

    inputs = {"ids": STEPS}

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, INPUT, padding_idx=0)

    def forward(self, ids):
        return self.head(self.pool(self.rnn(self.embedding(ids))[0], ids != 0))


class Counted(OwnIds):
    """the last step that is there, by how many ids are not 0 (of none the last of all), and the mean by the same number"""

    outputs = {"y": BATCH}

    def forward(self, ids):
        h = self.rnn(self.embedding(ids))[0]
        count = (ids != 0).sum(1)
        mean = (h * (ids != 0).unsqueeze(2).float()).sum(1) / count.unsqueeze(1).float()
        return self.head(h[torch.arange(ids.size(0)), count - 1] + mean)


class CountedGathered(Counted):
    """the same by gather()"""

    def forward(self, ids):
        h = self.rnn(self.embedding(ids))[0]
        last = ((ids != 0).sum(1) - 1).view(-1, 1, 1).expand(-1, 1, h.size(2))
        return self.head(h.gather(1, last).squeeze(1))


class Packed(Masked):
    """packed sequences, in any order: the mean of the steps that a row has"""

    def encode(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        zeros = torch.zeros(2, x.shape[0], HIDDEN // 2)  # else the exporter writes the batch that it was shown
        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed, (zeros, zeros))[0], batch_first=True, total_length=x.size(1))[0]

    def forward(self, x, lengths):
        h = self.encode(x, lengths)
        return self.head(self.pool(h, torch.arange(x.size(1))[None] < lengths[:, None]))


class PackedConvolved(Packed):
    """the same behind a convolution, which reads what is padded, and beside what it leaves"""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(INPUT, INPUT, 3, padding=1)
        self.beside = nn.Linear(INPUT, HIDDEN)

    def encode(self, x, lengths):
        left = torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        return super().encode(left, lengths) + self.beside(left)


class PackedSum(Packed):
    """the sum, which what stands behind leaves as it is"""

    def pool(self, h, there):
        return h.sum(1)


class PackedLargest(Packed):
    """the largest of the steps that a row has"""

    def pool(self, h, there):
        return h.masked_fill(~there.unsqueeze(2), -1e9).max(1)[0]


class PackedAttended(Packed):
    """attention over them"""

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(HIDDEN, 1)

    def pool(self, h, there):
        scores = self.score(torch.tanh(h)).squeeze(2).masked_fill(~there, float("-inf"))
        return (torch.softmax(scores, 1).unsqueeze(2) * h).sum(1)


class PackedWeighed(PackedAttended):
    """the same without a softmax: exponentials times the mask, over their sum"""

    def pool(self, h, there):
        weights = torch.exp(torch.tanh(self.score(h).squeeze(2))) * there.float()
        weights = weights / weights.sum(1, keepdim=True)
        return torch.bmm(weights.unsqueeze(1), h).squeeze(1)


class PackedOwn(Own):
    """each attends to those that its row has, then the mean of these"""

    outputs = {"y": BATCH}
    encode, forward = Packed.encode, Packed.forward

    def pool(self, h, there):
        weights = there.unsqueeze(2).float()
        return (super().pool(h, there) * weights).sum(1) / weights.sum(1)


class PackedCausal(PackedOwn):
    """each attends to those before it: none of them stands behind"""

    outputs = {"y": STEPS}

    def pool(self, h, there):
        return Own.pool(self, h, there)

    def mask(self, scores, there):
        above = torch.triu(torch.ones(scores.size(1), scores.size(1)), diagonal=1)
        return scores.masked_fill(above == 1, -1e9)


class PackedIndexed(Packed):
    """the last step that a row has, by its number"""

    def forward(self, x, lengths):
        h = self.encode(x, lengths)
        return self.head(h[torch.arange(x.size(0)), lengths - 1])


class Strided(Masked):
    """lengths divided as a convolution's strides leave steps, and answered too"""

    inputs, outputs = {"x": STEPS, "lengths": BATCH}, {"y": BATCH, "left": BATCH}

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(INPUT, INPUT, 3, 2, padding=1)
        self.second = nn.Conv1d(INPUT, INPUT, 3, 2, padding=1)

    def forward(self, x, lengths):
        h = self.second(torch.relu(self.first(x.transpose(1, 2))))
        left = self.left(lengths)
        h = self.encode(torch.relu(h).transpose(1, 2), left)
        return self.head(self.pool(h, torch.arange(h.size(1))[None] < left[:, None])), left

    def left(self, lengths):
        for _ in range(2):
            lengths = (lengths - 1) // 2 + 1
        return lengths

    def encode(self, h, left):
        return self.rnn(h)[0]


class StridedFloats(Strided):
    """the same by floats (NeMo)"""

    def left(self, lengths):
        lengths = lengths.float()
        for _ in range(2):
            lengths = torch.floor((lengths + 2 - 3) / 2.0 + 1.0)
        return lengths.to(torch.int64)


class StridedPacked(Strided):
    """packed by such lengths, rounded up"""

    outputs = {"y": BATCH}

    def forward(self, x, lengths):
        return super().forward(x, lengths)[0]

    def left(self, lengths):
        return torch.ceil(lengths / 4).long()

    def encode(self, h, left):
        packed = nn.utils.rnn.pack_padded_sequence(h, left, batch_first=True, enforce_sorted=False)
        zeros = torch.zeros(2, h.shape[0], HIDDEN // 2)
        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed, (zeros, zeros))[0], batch_first=True, total_length=h.size(1))[0]


class StridedLast(Strided):
    """the last step that a row has left"""

    outputs = {"y": BATCH}

    def forward(self, x, lengths):
        h = self.second(torch.relu(self.first(x.transpose(1, 2))))
        h = self.encode(torch.relu(h).transpose(1, 2), None)
        last = self.left(lengths) - 1
        return self.head(h.gather(1, last[:, None, None].expand(-1, 1, HIDDEN)).squeeze(1))

    def left(self, lengths):
        return torch.div(lengths + 3, 4, rounding_mode="trunc")


class LeftPadded(Masked):
    """steps that stand at the end of the row, of so many; and less than the last one of each"""

    outputs = {"y": BATCH, "z": STEPS}

    def forward(self, x, lengths):
        steps = torch.arange(x.size(1))[None]
        h = self.rnn(x * (steps >= x.size(1) - lengths[:, None]).unsqueeze(2))[0]
        there = steps >= (x.size(1) - lengths)[:, None]
        place = steps / (lengths + 1)[:, None]
        return self.head(self.pool(h, there)), h * (steps < (lengths - 1)[:, None]).unsqueeze(2) + place.unsqueeze(2)


class Apart(Masked):
    """numbers of steps that are some apart: of every other step, and of samples"""

    inputs, outputs = {"x": STEPS}, {"y": {0: "batch", 1: "half"}, "z": STEPS}

    def forward(self, x):
        h = self.rnn(x)[0]
        times = torch.arange(0, 160 * x.size(1), 160, dtype=torch.float32) / 1600
        return h[:, ::2] + torch.arange(0, x.size(1), 2)[None, :, None], h * torch.sin(times)[None, :, None]


MODULES = {
    "mask_attended": Attended,
    "mask_clamped": Clamped,
    "mask_apart": Apart,
    "mask_counted": Counted,
    "mask_counted_gathered": CountedGathered,
    "mask_filled": Filled,
    "mask_flagged": Flagged,
    "mask_gathered": Gathered,
    "mask_given": Given,
    "mask_indexed": Indexed,
    "mask_largest": Largest,
    "mask_left_padded": LeftPadded,
    "mask_mean": Masked,
    "mask_own": Own,
    "mask_own_added": OwnAdded,
    "mask_own_heads": OwnHeads,
    "mask_own_ids": OwnIds,
    "mask_own_numbered": OwnNumbered,
    "mask_own_padded": OwnPadded,
    "mask_own_product": OwnProduct,
    "mask_own_truths": OwnTruths,
    "mask_packed": Packed,
    "mask_packed_attended": PackedAttended,
    "mask_packed_causal": PackedCausal,
    "mask_packed_convolved": PackedConvolved,
    "mask_packed_indexed": PackedIndexed,
    "mask_packed_largest": PackedLargest,
    "mask_packed_own": PackedOwn,
    "mask_packed_sum": PackedSum,
    "mask_packed_weighed": PackedWeighed,
    "mask_strided": Strided,
    "mask_strided_floats": StridedFloats,
    "mask_strided_last": StridedLast,
    "mask_strided_packed": StridedPacked,
}


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_inputs(module, batch, time, generator):
    x = torch.randint(-8, 9, (batch, time, INPUT), generator=generator) / 8
    if list(module.inputs) == ["x"]:
        return (x,)
    lengths = torch.randint(1, time + 1, (batch,), generator=generator)
    there = torch.arange(time)[None] < lengths[:, None]
    if "ids" in module.inputs:
        return [torch.randint(1, WORDS, (batch, time), generator=generator) * there]
    if "padded" in module.inputs:
        return x, ~there
    if "weights" in module.inputs:
        return x, there.float()
    if "bytes" in module.inputs:
        return x, there, torch.randint(0, 256, (batch, time), generator=generator).to(torch.uint8)
    if "mask" in module.inputs:
        return x, there.long()
    if isinstance(module, Clamped):
        return x, 2 * lengths - 2
    return x, time - lengths if "starts" in module.inputs else lengths


def make_cases(name, module):
    return draw_cases(name, module, make_inputs)


def export(module, path, opset):
    export_open(module, path, opset, make_inputs(module, *SAMPLE, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    write_models(__doc__, MODULES, sys.modules[__name__])
