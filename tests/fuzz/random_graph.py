"""Random ONNX graphs over rows and sequences, and recurrent cells in small operators with one thing
or another changed about them: what random_models.py makes its models of."""

import collections

import numpy
import onnx
from onnx import TensorProto, helper

CALM = 8.0
WIDTHS = (1, 2, 3, 5, 8, 13, 16, 17, 24, 33)

# kind: "seq" is [time, batch, width], "row" is [batch, width], the same for all steps.
Value = collections.namedtuple("Value", "name kind width most")


class Graph:
    """A graph under construction: of a model, or of the body of a Scan."""

    def __init__(self, rng, weights, prefix=""):
        self.rng, self.weights, self.prefix = rng, weights, prefix
        self.nodes, self.constants, self.values, self.inputs, self.batch_first, self.count = [], [], [], [], set(), 0

    def name(self):
        self.count += 1
        return f"{self.prefix}v{self.count}"

    def node(self, kind, inputs, n_outputs=1, **attributes):
        outputs = [self.name() for _ in range(n_outputs)]
        self.nodes.append(helper.make_node(kind, inputs, outputs, **attributes))
        return outputs[0] if n_outputs == 1 else outputs

    def constant(self, array):
        name = self.name() + "k"
        self.constants.append(onnx.numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def floats(self, *shape, scale=1.0):
        return self.constant(self.weights.uniform(-scale, scale, shape).astype(numpy.float32))

    def integers(self, *values):
        return self.constant(numpy.array(values, dtype=numpy.int64))

    def add(self, name, kind, width, most):
        self.values.append(Value(name, kind, width, most))
        return self.values[-1]

    # ---- Choosing

    def pick(self, kind=None, width=None):
        found = [v for v in self.values if kind in (None, v.kind) and width in (None, v.width)]
        if not found:
            return None
        late = found[-5:]
        return self.rng.choice(late if self.rng.random() < 0.6 else found)

    def calm(self, value):
        if value.most <= CALM:
            return value
        return self.add(self.node("Tanh", [value.name]), value.kind, value.width, 1.0)

    def some(self, kind=None, width=None):
        value = self.pick(kind, width)
        return None if value is None else self.calm(value)

    def fit(self, value, width):
        return value if value.width == width else self.linear(value, width)

    # ---- Operators

    def linear(self, value, width):
        scale = (3.0 / value.width) ** 0.5
        product = self.node("MatMul", [value.name, self.floats(value.width, width, scale=scale)])
        if self.rng.random() < 0.6:
            bias = self.floats(width)
            product = self.node("Add", [product, bias] if self.rng.random() < 0.7 else [bias, product])
        return self.add(product, value.kind, width, 4 * value.most + 1)

    def gemm(self, value, width):
        weight = self.floats(width, value.width, scale=(3.0 / value.width) ** 0.5)
        name = self.node("Gemm", [value.name, weight, self.floats(width)], transB=1)
        return self.add(name, value.kind, width, 4 * value.most + 1)

    def unary(self):
        kind = self.rng.choice(["Tanh", "Sigmoid", "Relu", "Abs", "Neg", "Exp", "Log", "Sqrt", "Softplus",
                                "Clip", "Identity", "Pow", "Root", "Reciprocal", "Dropout", "Sin", "Cos", "Atan",
                                "Tan", "Asin", "Acos", "Sinh", "Cosh", "Asinh"])
        value = self.some()
        if kind in ("Exp", "Pow", "Tan", "Sinh", "Cosh"):
            value = self.add(self.node("Tanh", [value.name]), value.kind, value.width, 1.0)
        if kind in ("Asin", "Acos"):  # steep near 1
            value = self.add(self.node("Mul", [self.node("Tanh", [value.name]), self.constant(numpy.float32(0.75))]),
                             value.kind, value.width, 1.0)
        if kind in ("Log", "Sqrt", "Reciprocal", "Root"):
            value = self.add(self.node("Tanh", [value.name]), value.kind, value.width, 1.0)
            value = self.add(self.node("Sigmoid", [value.name]), value.kind, value.width, 1.0)
        inputs = [value.name]
        if kind == "Clip":
            inputs += [self.constant(numpy.float32(-0.5)), self.constant(numpy.float32(1.5))]
        if kind == "Pow":
            inputs += [self.constant(numpy.float32(self.rng.choice([2.0, 3.0])))]
        if kind == "Root":
            inputs += [self.constant(numpy.float32(self.rng.choice([0.3, 1.7, -0.5, -1.0, 4.0])))]
            kind = "Pow"
        self.add(self.node(kind, inputs), value.kind, value.width, max(value.most, 4.0))

    def binary(self):
        kind = self.rng.choice(["Add", "Sub", "Mul", "Max", "Min", "Div", "Pow"])
        a = self.some()
        roll = self.rng.random()
        if roll < 0.2:
            b = Value(self.floats(a.width if self.rng.random() < 0.5 else 1), a.kind, a.width, 1.0)
        elif roll < 0.4 and a.kind == "seq" and self.pick("row"):
            row = self.fit(self.some("row"), a.width)
            b = Value(self.node("Unsqueeze", [row.name, self.integers(0)]), "seq", a.width, row.most)
        else:
            b = self.fit(self.some(a.kind), a.width)
        if kind == "Pow":  # of what is positive, to what is small
            base = self.node("Exp", [self.node("Tanh", [a.name])])
            self.add(self.node("Pow", [base, self.node("Tanh", [b.name])]), a.kind, a.width, 3.0)
            return
        if kind == "Div":
            safe = self.node("Exp", [self.node("Tanh", [b.name])])
            b = Value(safe, a.kind, a.width, 3.0)
        elif self.rng.random() < 0.4:
            a, b = b, a
        most = a.most * b.most if kind in ("Mul", "Div") else a.most + b.most
        self.add(self.node(kind, [a.name, b.name]), a.kind, a.width, most)

    def product(self):
        value = self.some()
        width = self.rng.choice(WIDTHS)
        if value.kind == "row" and self.rng.random() < 0.5:
            self.gemm(value, width)
        else:
            self.linear(value, width)

    def part(self):
        value = self.some()
        start = self.rng.randrange(value.width)
        end = self.rng.randrange(start, value.width) + 1
        axis = 2 if value.kind == "seq" else 1
        name = self.node("Slice", [value.name, self.integers(start), self.integers(end), self.integers(axis)])
        self.add(name, value.kind, end - start, value.most)

    def halves(self):
        value = self.some()
        if value.width < 2:
            return
        first = self.rng.randrange(1, value.width)
        sizes = [first, value.width - first]
        names = self.node("Split", [value.name, self.integers(*sizes)], 2, axis=-1)
        for name, size in zip(names, sizes):
            self.add(name, value.kind, size, value.most)

    def concat(self):
        a = self.some()
        others = [self.some(a.kind) for _ in range(self.rng.randrange(1, 3))]
        all_of = [a] + others
        name = self.node("Concat", [v.name for v in all_of], axis=-1)
        self.add(name, a.kind, sum(v.width for v in all_of), max(v.most for v in all_of))

    def softmax(self):
        value = self.some()
        kind = self.rng.choice(["Softmax", "LogSoftmax"])
        self.add(self.node(kind, [value.name], axis=-1), value.kind, value.width, 16.0)

    def normal(self):
        """Layer normalisation in small operators, or the mean alone."""
        value = self.some()
        mean = self.node("ReduceMean", [value.name], axes=[-1], keepdims=1)
        centred = self.node("Sub", [value.name, mean])
        if self.rng.random() < 0.3:
            self.add(centred, value.kind, value.width, 2 * value.most)
            return
        square = self.node("Mul", [centred, centred])
        variance = self.node("ReduceMean", [square], axes=[-1], keepdims=1)
        root = self.node("Sqrt", [self.node("Add", [variance, self.constant(numpy.float32(0.1))])])
        self.add(self.node("Div", [centred, root]), value.kind, value.width, 6.0)

    def choice(self):
        """One of two by whether a third is larger than a constant: of two values that follow from one another
        single precision may find either larger."""
        a = self.some()
        b, c = self.fit(self.some(a.kind), a.width), self.fit(self.some(a.kind), a.width)
        kind = self.rng.choice(["Greater", "Less", "GreaterOrEqual", "LessOrEqual"])
        condition = self.node(kind, [b.name, self.floats(self.rng.choice([1, b.width]))])
        if self.rng.random() < 0.2:
            condition = self.node("Not", [condition])
        name = self.node("Where", [condition, a.name, c.name])
        self.add(name, a.kind, a.width, max(a.most, c.most))

    def needed(self, picked):
        """Names that the values are made of."""
        names = {v.name for v in picked}
        for node in reversed(self.nodes):
            if names.intersection(node.output) and node.op_type != "Shape":
                names.update(node.input)
        return names

    def with_inputs_left(self, picked):
        """The first value, to which inputs are added that no value needs: the daemon wants each to be of use."""
        value, needed = picked[0], self.needed(picked)
        for name, kind, width in self.inputs:
            if name not in needed and name not in self.batch_first and (kind == "row" or value.kind == "seq"):
                other = self.fit(Value(name, kind, width, 1.0), value.width)
                value = self.add(self.node("Add", [value.name, other.name]), value.kind, value.width, value.most + 4)
        return value

    def op(self):
        self.rng.choice([self.unary, self.unary, self.binary, self.binary, self.product, self.part,
                         self.halves, self.concat, self.softmax, self.normal, self.choice])()


# ---- Cells in small operators, with one thing or another changed ---------------------------------


def sums_of_gates(g, x, h, hidden, n_gates):
    """Lists the sums of each gate over x, over h; or both in one, and None."""
    rng = g.rng
    form = rng.choice(["apart", "beside", "each"])
    scale = (3.0 / (x.width + h.width)) ** 0.5

    def product(of, n, bias):
        if rng.random() < 0.5:
            weight = g.floats(n * hidden, of.width, scale=scale)
            return g.node("Gemm", [of.name, weight] + ([g.floats(n * hidden)] if bias else []), transB=1)
        name = g.node("MatMul", [of.name, g.floats(of.width, n * hidden, scale=scale)])
        return g.node("Add", [name, g.floats(n * hidden)]) if bias else name

    def gates_of(name):
        if n_gates == 1:
            return [name]
        if rng.random() < 0.5:
            return g.node("Split", [name, g.integers(*[hidden] * n_gates)], n_gates, axis=1)
        return [g.node("Slice", [name, g.integers(k * hidden), g.integers((k + 1) * hidden), g.integers(1)])
                for k in range(n_gates)]

    if form == "beside":
        both = [x, h] if rng.random() < 0.7 else [h, x]
        name = g.node("Concat", [v.name for v in both], axis=1)
        side = Value(name, "row", x.width + h.width, 8.0)
        return gates_of(product(side, n_gates, rng.random() < 0.8)), None
    if form == "each":
        return ([product(x, 1, rng.random() < 0.8) for _ in range(n_gates)],
                [product(h, 1, rng.random() < 0.5) for _ in range(n_gates)])
    return (gates_of(product(x, n_gates, rng.random() < 0.8)), gates_of(product(h, n_gates, rng.random() < 0.8)))


def either(g, a, b):
    return [a, b] if g.rng.random() < 0.5 else [b, a]


def joined(g, over_x, over_h, k):
    return over_x[k] if over_h is None else g.node("Add", either(g, over_x[k], over_h[k]))


def lstm_cell(g, x, h, c, change):
    hidden = c.width
    over_x, over_h = sums_of_gates(g, x, h, hidden, 4)
    order = [0, 1, 2, 3]
    if change == "order":
        g.rng.shuffle(order)
    sums = [joined(g, over_x, over_h, k) for k in order]
    kinds = ["Sigmoid", "Sigmoid", "Tanh", "Sigmoid"]  # i, f, g, o
    if change == "activation":
        kinds[g.rng.randrange(4)] = g.rng.choice(["Relu", "Tanh", "Sigmoid"])
    if change == "peephole":
        k = g.rng.choice([0, 1, 3])
        sums[k] = g.node("Add", [sums[k], g.node("Mul", [c.name, g.floats(hidden)])])
    i, f, n, o = (g.node(kind, [s]) for kind, s in zip(kinds, sums))
    if change == "coupled":
        f = g.node("Sub", [g.constant(numpy.float32(g.rng.choice([1.0, 0.9]))), i])
    kept = g.node("Mul", either(g, f, c.name if change != "wrong c" else h.name))
    fresh = g.node("Mul", either(g, i if change != "twice" else f, n))
    after = g.node("Sub" if change == "minus" else "Add", either(g, kept, fresh))
    squashed = {"no tanh": after, "old c": g.node("Tanh", [c.name])}.get(change) or g.node("Tanh", [after])
    out = g.node("Mul", either(g, o, squashed))
    if change == "swapped":
        out, after = after, out
    if change == "gate out":
        g.add(o, "row", hidden, 1.0)
    return [g.add(out, "row", hidden, 10.0), g.add(after, "row", hidden, 10.0)]


def gru_cell(g, x, h, change):
    hidden = h.width
    over_x, over_h = sums_of_gates(g, x, h, hidden, 3)
    if over_h is None:  # the new gate needs both apart
        over_x, over_h = over_x[:2] + [g.gemm(x, hidden).name], None
        extra = g.gemm(h, hidden).name
    else:
        extra = over_h[2]
    order = [0, 1] if change != "order" else [1, 0]
    r, z = (g.node("Sigmoid" if change != "activation" else "Tanh", [joined(g, over_x, over_h, k)]) for k in order)
    if change == "before":
        left = Value(g.node("Mul", either(g, r, h.name)), "row", hidden, 2.0)
        reset = g.gemm(left, hidden).name
    elif change == "of x":
        reset, extra = g.node("Mul", either(g, r, over_x[2])), extra
        over_x = over_x[:2] + [extra]
    else:
        reset = g.node("Mul", either(g, z if change == "twice" else r, extra))
    n = g.node("Relu" if change == "relu" else "Tanh", [g.node("Add", either(g, over_x[2], reset))])
    one = g.constant(numpy.float32(0.9 if change == "not one" else 1.0))
    form = g.rng.randrange(3)
    if form == 0:
        rest = g.node("Sub", [one, z])
        parts = [(rest, n), (z, h.name)] if change != "mixed" else [(rest, h.name), (z, n)]
        out = g.node("Add", either(g, *(g.node("Mul", either(g, *p)) for p in parts)))
    elif form == 1:
        out = g.node("Add", either(g, n, g.node("Mul", either(g, z, g.node("Sub", [h.name, n])))))
    else:
        out = g.node("Add", either(g, h.name, g.node("Mul", either(g, z, g.node("Sub", [n, h.name])))))
    if change == "gate out":
        g.add(n, "row", hidden, 8.0)
    return [g.add(out, "row", hidden, 10.0)]


def rnn_cell(g, x, h, change):
    over_x, over_h = sums_of_gates(g, x, h, h.width, 1)
    name = joined(g, over_x, over_h, 0)
    if change == "minus":
        name = g.node("Sub", [name, h.name])
    return [g.add(g.node(g.rng.choice(["Tanh", "Relu", "Sigmoid"]), [name]), "row", h.width, 10.0)]


CHANGES = {
    "lstm": ["order", "activation", "peephole", "coupled", "wrong c", "twice", "minus", "no tanh", "old c",
             "swapped", "gate out"],
    "gru": ["order", "activation", "before", "of x", "twice", "relu", "not one", "mixed", "gate out"],
    "rnn": ["minus"],
}


def binary_tree_cell(g, h, c, x, change):
    """Gates i, o, u and a forget gate for each child, in one product over all or in one for each."""
    hidden = c[0].width
    beside = [g.fit(x, x.width)] if x is not None else []
    sides = beside + (h if change != "sides" else h[::-1])
    n_gates = 3 + len(h)
    if g.rng.random() < 0.6:
        joined_h = g.node("Concat", [v.name for v in sides], axis=1)
        both = Value(joined_h, "row", sum(v.width for v in sides), 8.0)
        wide = (g.gemm if g.rng.random() < 0.5 else g.linear)(both, n_gates * hidden).name
    else:
        parts = [(g.gemm if g.rng.random() < 0.5 else g.linear)(v, n_gates * hidden).name for v in sides]
        wide = parts[0]
        for part in parts[1:]:
            wide = g.node("Add", either(g, wide, part))
    sums = g.node("Split", [wide, g.integers(*[hidden] * n_gates)], n_gates, axis=1)
    if change == "order":
        g.rng.shuffle(sums)
    i, o, forget = (g.node("Sigmoid", [s]) for s in (sums[0], sums[1], sums[3]))
    u = g.node("Relu" if change == "activation" else "Tanh", [sums[2]])
    after = g.node("Mul", either(g, i, u))
    for k, child in enumerate(c if change != "sides of c" else c[::-1]):
        if k > 0:
            forget = g.node("Sigmoid", [sums[3 if change == "one forget" else 3 + k]])
        kept = g.node("Mul", either(g, forget, (h[k] if change == "wrong c" else child).name))
        after = g.node("Sub" if change == "minus" else "Add", either(g, after, kept))
    out = g.node("Mul", either(g, o, g.node("Sigmoid" if change == "no tanh" else "Tanh", [after])))
    return [g.add(out, "row", hidden, 10.0), g.add(after, "row", hidden, 10.0)]


def sum_tree_cell(g, h, c, x, change):
    """Gates over the sum of the children's h; a forget gate a child, all of the same weights."""
    hidden = c[0].width
    total = h[0].name
    for child in h[1:]:
        total = g.node("Add", either(g, total, child.name))
    total = Value(total, "row", hidden, 8.0)
    weight, bias = g.floats(hidden, hidden), g.floats(hidden)

    def with_x(name):
        return name if x is None else g.node("Add", either(g, name, g.linear(x, hidden).name))

    i, o, u = (with_x(g.linear(total, hidden).name) for _ in range(3))
    i, o, u = g.node("Sigmoid", [i]), g.node("Sigmoid", [o]), g.node("Tanh", [u])
    of_x = None if x is None else g.linear(x, hidden).name
    after = g.node("Mul", either(g, i, u))
    for k, child in enumerate(c):
        of = (total if change == "of the sum" else h[k]).name
        own = g.floats(hidden, hidden) if change == "own weights" and k > 0 else weight
        name = g.node("Add", either(g, g.node("MatMul", [of, own]), bias))
        if of_x is not None and not (change == "no x" and k > 0):
            name = g.node("Add", either(g, name, of_x))
        after = g.node("Add", either(g, after, g.node("Mul", either(g, g.node("Sigmoid", [name]), child.name))))
    out = g.node("Mul", either(g, o, g.node("Tanh", [after])))
    return [g.add(out, "row", hidden, 10.0), g.add(after, "row", hidden, 10.0)]


def leaf_cell(g, x, hidden, change):
    sums = g.node("Split", [(g.gemm if g.rng.random() < 0.5 else g.linear)(x, 3 * hidden).name,
                            g.integers(hidden, hidden, hidden)], 3, axis=1)
    i, o = g.node("Sigmoid", [sums[0]]), g.node("Sigmoid", [sums[1]])
    after = g.node("Mul", either(g, i, g.node("Sigmoid" if change == "activation" else "Tanh", [sums[2]])))
    out = g.node("Mul", either(g, o, after if change == "no tanh" else g.node("Tanh", [after])))
    return [g.add(out, "row", hidden, 1.0), g.add(after, "row", hidden, 1.0)]


CHANGES.update({
    "binary": ["sides", "order", "activation", "sides of c", "one forget", "wrong c", "minus", "no tanh"],
    "sum": ["of the sum", "own weights", "no x"],
    "leaf": ["activation", "no tanh"],
})


def change_of(g, kind):
    """Mostly one thing about a cell, else nothing."""
    return g.rng.choice(CHANGES[kind]) if g.rng.random() < 0.6 else ""
