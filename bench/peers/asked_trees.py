"""Trees that serving.py asks: a binary TreeLSTM in ONNX Runtime and in PyTorch. A group's trees are merged
by depth, as TensorFlow Fold does: all leaves are one batch, then all nodes whose children are there, level
by level up to the roots. What can be known of a tree alone is reckoned before anything is timed."""

import collections

from asked import Graph, value

Level = collections.namedtuple("Level", "begin end left right")


class Tree:
    """A line of S (a leaf) and R (joins the two trees before it). Nodes are numbered as they are read."""

    def __init__(self, numpy, line):
        levels, kids, roots = [], [], []
        for letter in line:
            pair = (0, 0)
            if letter == "R":
                right, left = roots.pop(), roots.pop()
                pair = (left, right)
            roots.append(len(levels))
            kids.append(pair)
            levels.append(1 + max(levels[pair[0]], levels[pair[1]]) if letter == "R" else 0)
        if len(roots) != 1:
            raise ValueError(f"{line}: {len(roots)} trees")
        self.leaves, self.nodes = line.count("S"), len(levels)
        self.levels, self.kids = numpy.array(levels), numpy.array(kids)


def read_trees(numpy, path):
    with open(path, encoding="utf-8") as file:
        return [Tree(numpy, line.strip()) for line in file if line.strip()]


def merge(numpy, trees):
    """The levels above the leaves, where nodes are numbered by level, and where the roots are."""
    ends = numpy.cumsum([tree.nodes for tree in trees])
    first = numpy.repeat(ends - [tree.nodes for tree in trees], [tree.nodes for tree in trees])
    levels = numpy.concatenate([tree.levels for tree in trees])
    order = numpy.argsort(levels, kind="stable")
    place = numpy.empty_like(order)
    place[order] = numpy.arange(len(order))
    kids = place[(numpy.concatenate([tree.kids for tree in trees]) + first[:, None])[order]]
    bounds = numpy.cumsum(numpy.bincount(levels))
    steps = [Level(b, e, kids[b:e, 0], kids[b:e, 1]) for b, e in zip(bounds, bounds[1:])]
    return steps, place[ends - 1], len(order)


class OnnxTree:
    """A leaf and a node as models of their own; rows are gathered between their calls."""

    def __init__(self, inputs, hidden, longest, threads):
        import numpy
        import onnxruntime

        self.numpy, self.version, self.hidden = numpy, onnxruntime.__version__, hidden
        leaf = Graph(numpy, hidden)
        self.gates(leaf, "x", inputs, hidden, ["i", "o", "u"])
        leaf.node("Mul", ["i", "u"], ["c_out"])
        self.finish(leaf)
        row = lambda name, width: value(name, "FLOAT", ["rows", width])
        results = [row("h_out", hidden), row("c_out", hidden)]
        self.leaf = leaf.session([row("x", inputs)], results, threads)
        node = Graph(numpy, hidden)
        node.node("Concat", ["h_l", "h_r"], ["h"], axis=1)
        self.gates(node, "h", 2 * hidden, hidden, ["i", "o", "f_l", "f_r", "u"])
        for product, given in (("iu", ["i", "u"]), ("fc_l", ["f_l", "c_l"]), ("fc_r", ["f_r", "c_r"])):
            node.node("Mul", given, [product])
        node.node("Add", ["iu", "fc_l"], ["some"])
        node.node("Add", ["some", "fc_r"], ["c_out"])
        self.finish(node)
        given = [row(name, hidden) for name in ("h_l", "h_r", "c_l", "c_r")]
        self.node = node.session(given, results, threads)
        self.source = numpy.random.default_rng(2).standard_normal((longest, inputs), numpy.float32)

    @staticmethod
    def gates(graph, x, inputs, hidden, names):
        """The last is a tanh, the others are sigmoids."""
        weights = [graph.weight("w", inputs, len(names) * hidden), graph.weight("b", len(names) * hidden)]
        graph.node("Gemm", [x, *weights], ["sums"])
        sizes = graph.numpy.array([(len(names) - 1) * hidden, hidden])
        graph.node("Split", ["sums", graph.constant("parts", sizes)], ["sigmoids", "tanhs"], axis=1)
        graph.node("Sigmoid", ["sigmoids"], ["gates"])
        graph.node("Split", ["gates"], names[:-1], axis=1)
        graph.node("Tanh", ["tanhs"], names[-1:])

    @staticmethod
    def finish(graph):
        graph.node("Tanh", ["c_out"], ["squashed"])
        graph.node("Mul", ["o", "squashed"], ["h_out"])

    def call(self, way, group):
        steps, roots, nodes = merge(self.numpy, [tree for _, tree in group])
        x = self.numpy.concatenate([self.source[:leaves] for leaves, _ in group])
        h = self.numpy.empty((nodes, self.hidden), self.numpy.float32)
        c = self.numpy.empty_like(h)
        h[: len(x)], c[: len(x)] = self.leaf.run(None, {"x": x})
        for begin, end, left, right in steps:
            given = {"h_l": h[left], "h_r": h[right], "c_l": c[left], "c_r": c[right]}
            h[begin:end], c[begin:end] = self.node.run(None, given)
        return h[roots]


class TorchTree:
    def __init__(self, inputs, hidden, longest, threads):
        import numpy
        import torch

        self.numpy, self.torch, self.version, self.hidden = numpy, torch, torch.__version__, hidden
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.leaf = torch.nn.Linear(inputs, 3 * hidden)
        self.node = torch.nn.Linear(2 * hidden, 5 * hidden)
        self.source = torch.randn(longest, inputs)

    def call(self, way, group):
        torch = self.torch
        steps, roots, nodes = merge(self.numpy, [tree for _, tree in group])
        index = lambda rows: torch.from_numpy(self.numpy.ascontiguousarray(rows))
        with torch.inference_mode():
            x = torch.cat([self.source[:leaves] for leaves, _ in group])
            h, c = torch.empty(nodes, self.hidden), torch.empty(nodes, self.hidden)
            i, o, u = self.leaf(x).chunk(3, 1)
            c[: len(x)] = torch.sigmoid(i) * torch.tanh(u)
            h[: len(x)] = torch.sigmoid(o) * torch.tanh(c[: len(x)])
            for begin, end, left, right in steps:
                left, right = index(left), index(right)
                i, o, f_l, f_r, u = self.node(torch.cat((h[left], h[right]), 1)).chunk(5, 1)
                sums = torch.sigmoid(i) * torch.tanh(u)
                sums = sums + torch.sigmoid(f_l) * c[left] + torch.sigmoid(f_r) * c[right]
                c[begin:end] = sums
                h[begin:end] = torch.sigmoid(o) * torch.tanh(sums)
            return h[index(roots)]
