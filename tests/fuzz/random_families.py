"""Models of each kind that the daemon serves, at random: their files, requests for them, and what
ONNX Runtime makes of those."""

import random

import numpy
from onnx import TensorProto, helper

from random_chains import Chains, run, save, session_of
from random_graph import WIDTHS, Graph, binary_tree_cell, change_of, gru_cell, leaf_cell, lstm_cell, rnn_cell, sum_tree_cell
from random_streams import Streams


# ---- Trees ----------------------------------------------------------------------------------------


class Part(Graph):
    """One row: a cell that other files belong to."""

    def __init__(self, rng, weights):
        super().__init__(rng, weights)
        self.infos = []

    def input(self, name, width, most=1.0):
        self.infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width]))
        self.inputs.append((name, "row", width))
        return self.add(name, "row", width, most)

    def ops(self, most):
        for _ in range(self.rng.randrange(most)):
            self.op()

    def write(self, path, outputs):
        """outputs: name: value; a small tanh is taken of what has grown."""
        infos = []
        for name, value in outputs.items():
            value = value if value.most <= 12.0 else self.add(self.node("Tanh", [value.name]), "row", value.width, 1.0)
            self.nodes.append(helper.make_node("Identity", [value.name], [name]))
            infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", value.width]))
        save(self, self.infos, infos, path)


class Tree:
    def __init__(self, seed):
        self.rng, self.weights = random.Random(seed), numpy.random.default_rng(seed)
        self.notes = []

    def write(self, folder):
        rng = self.rng
        kind = rng.choice(["binary", "sum", "own"])
        self.arity = {"binary": 2, "sum": rng.randrange(1, 5), "own": rng.randrange(1, 4)}[kind]
        hidden = rng.choice(WIDTHS[2:])
        widths = {"h": hidden, "c": hidden} if kind != "own" else {n: rng.choice(WIDTHS) for n in
                                                                  ("h", "c", "k")[:rng.randrange(1, 4)]}
        self.widths, self.word = widths, rng.choice(WIDTHS)
        self.x = rng.choice(WIDTHS) if rng.random() < 0.4 else 0
        self.notes.append(f"tree {kind} of {self.arity}")
        self.has_root = rng.random() < 0.7
        (folder / "1").mkdir(parents=True)
        (folder / "config.yaml").write_text("unfold: tree\n")
        self.write_leaf(folder, kind)
        self.write_node(folder, kind)
        if self.has_root:
            root = Part(rng, self.weights)
            root.input("h", widths["h"], 10.0)
            root.ops(6)
            root.write(folder / "1" / "root.onnx", {"scores": root.some()})

    def write_leaf(self, folder, kind):
        leaf = Part(self.rng, self.weights)
        word = leaf.input("word", self.word)
        leaf.ops(3)
        if kind != "own":
            change = change_of(leaf, "leaf")
            self.notes.append(change)
            made = leaf_cell(leaf, word if self.rng.random() < 0.7 else leaf.some(), self.widths["h"], change)
        else:
            made = [leaf.fit(leaf.some(), w) for w in self.widths.values()]
        leaf.write(folder / "1" / "leaf.onnx", dict(zip(self.widths, made)))

    def write_node(self, folder, kind):
        node = Part(self.rng, self.weights)
        of = {n: [node.input(f"{n}_{k}", w, 10.0) for k in range(self.arity)] for n, w in self.widths.items()}
        x = node.input("x", self.x) if self.x > 0 else None
        node.ops(3)
        if kind == "own":
            node.ops(10)
            made = [node.fit(node.some(), w) for w in self.widths.values()]
        else:
            change = change_of(node, kind)
            self.notes.append(change)
            made = (binary_tree_cell if kind == "binary" else sum_tree_cell)(node, of["h"], of["c"], x, change)
        node.write(folder / "1" / "node.onnx", dict(zip(self.widths, made)))

    def shape(self, rng):
        """Leaves, and the children of each inner node, in an order in which no node waits; then shuffled."""
        leaves = int(rng.integers(1, 9))
        roots, children = list(range(leaves)), []
        while len(roots) > 1 and rng.random() < 0.9:
            n = min(len(roots), int(rng.integers(1, self.arity + 1)))
            taken = [roots.pop(int(rng.integers(len(roots)))) for _ in range(n)]
            taken += [-1] * (self.arity - n)
            rng.shuffle(taken)
            roots.append(leaves + len(children))
            children.append(taken)
            if len(children) > 12:
                break
        order = rng.permutation(len(children))
        place = {leaves + int(old): leaves + new for new, old in enumerate(order)}
        return leaves, [[place.get(int(c), int(c)) for c in children[int(old)]] for old in order]

    def values_of(self, sessions, feed, leaves, children):
        values = [None] * (leaves + len(children))
        for at, row in enumerate(zip(*run(sessions["leaf"], {"word": feed["word"]}).values())):
            values[at] = row
        while any(v is None for v in values):
            for k, of in enumerate(children):
                if values[leaves + k] is not None or any(c >= 0 and values[c] is None for c in of):
                    continue
                inputs = {f"{name}_{i}": (numpy.zeros(width, dtype=numpy.float32) if c < 0 else values[c][n])[None]
                          for n, (name, width) in enumerate(self.widths.items()) for i, c in enumerate(of)}
                if self.x > 0:
                    inputs["x"] = feed["x"][k:k + 1]
                values[leaves + k] = tuple(a[0] for a in run(sessions["node"], inputs).values())
        return values

    def requests(self, folder, rng):
        sessions = {n: session_of(folder / "1" / f"{n}.onnx") for n in ["leaf", "node"] + ["root"] * self.has_root}
        for _ in range(6):
            leaves, children = self.shape(rng)
            feed = {"word": rng.uniform(-1, 1, (leaves, self.word)).astype(numpy.float32)}
            if self.x > 0:
                feed["x"] = rng.uniform(-1, 1, (len(children), self.x)).astype(numpy.float32)
            values = self.values_of(sessions, feed, leaves, children)
            below = {c for of in children for c in of}
            roots = [values[k] for k in range(len(values)) if k not in below]
            wanted = {n: numpy.stack([r[i] for r in roots]) for i, n in enumerate(self.widths)}
            if self.has_root:
                wanted = run(sessions["root"], {"h": wanted["h"]})
            feed["children"] = numpy.array(children, dtype=numpy.int64).reshape(len(children), self.arity)
            yield feed, wanted


# ---- Decoders -------------------------------------------------------------------------------------


class Decoder:
    """A step that feeds itself, without an encoder."""

    IDS, END, STEPS = 7, 3, 12

    def __init__(self, seed):
        self.rng, self.weights = random.Random(seed), numpy.random.default_rng(seed)
        self.notes = []

    def write(self, folder):
        rng = self.rng
        kind = rng.choice(["lstm", "gru", "rnn", "own"])
        hidden = rng.choice(WIDTHS[2:])
        self.states = {"lstm": [hidden, hidden], "gru": [hidden], "rnn": [hidden],
                       "own": [rng.choice(WIDTHS) for _ in range(rng.randrange(1, 4))]}[kind]
        self.same = rng.choice(WIDTHS) if rng.random() < 0.5 else 0
        g = Part(rng, self.weights)
        g.infos.append(helper.make_tensor_value_info("token", TensorProto.INT64, ["rows"]))
        width = rng.choice(WIDTHS)
        embedded = g.add(g.node("Gather", [g.floats(self.IDS, width), "token"], axis=0), "row", width, 1.0)
        states = [g.input(f"s{i}", w, 8.0) for i, w in enumerate(self.states)]
        if self.same > 0:
            g.input("same", self.same)
        g.ops(3)
        change = change_of(g, kind) if kind != "own" else ""
        self.notes.append(f"decoder {kind} {change}".strip())
        x = embedded if rng.random() < 0.6 else g.some()
        nexts = {"lstm": lambda: lstm_cell(g, x, *states, change), "gru": lambda: gru_cell(g, x, states[0], change),
                 "rnn": lambda: rnn_cell(g, x, states[0], change), "own": lambda: []}[kind]()
        g.ops(8 if kind == "own" else 3)
        nexts = nexts or [g.fit(g.some(), w) for w in self.states]
        last = g.with_inputs_left(nexts)
        if "token" not in g.needed(nexts):
            token = g.fit(embedded, last.width)
            last = g.add(g.node("Add", [last.name, token.name]), "row", last.width, last.most + 4)
        logits = g.linear(g.calm(last), self.IDS)
        g.nodes.append(helper.make_node("ArgMax", [logits.name], ["token_next"], axis=1, keepdims=0))
        outputs = {f"s{i}_next": v for i, v in enumerate(nexts)}
        outputs["logits"] = logits
        outputs["other"] = g.some()
        (folder / "1").mkdir(parents=True)
        (folder / "config.yaml").write_text(f"unfold: seq2seq\nstart: 1\nend: {self.END}\nmax-steps: {self.STEPS}\n")
        infos = [helper.make_tensor_value_info("token_next", TensorProto.INT64, ["rows"])]
        for name, value in outputs.items():
            if value.most > 12.0 and name != "logits":
                value = g.add(g.node("Tanh", [value.name]), "row", value.width, 1.0)
            g.nodes.append(helper.make_node("Identity", [value.name], [name]))
            infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", value.width]))
        save(g, g.infos, infos, folder / "1" / "decoder.onnx")

    def decode(self, session, feed, row):
        """The ids of a row, the other outputs of each step; None where two ids are too near to each other."""
        at = {"token": numpy.array([1])}
        at.update({n: a[row:row + 1] for n, a in feed.items()})
        ids, others = [], []
        while len(ids) < self.STEPS:
            made = run(session, {n: a for n, a in at.items() if n in {i.name for i in session.get_inputs()}})
            best = numpy.sort(made["logits"][0])[-2:]
            if not best[1] - best[0] > 1e-3:
                return None
            if int(made["token_next"][0]) == self.END:
                break
            ids.append(int(made["token_next"][0]))
            others.append((made["logits"][0], made["other"][0]))
            at.update({n[:-5]: a for n, a in made.items() if n.endswith("_next")})
        return ids, others

    def requests(self, folder, rng):
        session = session_of(folder / "1" / "decoder.onnx")
        read = {i.name for i in session.get_inputs()}
        for _ in range(6):
            batch = int(rng.integers(1, 4))
            feed = {f"s{i}": rng.uniform(-1, 1, (batch, w)).astype(numpy.float32) for i, w in enumerate(self.states)}
            if self.same > 0:
                feed["same"] = rng.uniform(-1, 1, (batch, self.same)).astype(numpy.float32)
            feed = {n: a for n, a in feed.items() if n in read}
            rows = [self.decode(session, feed, r) for r in range(batch)]
            if None in rows:
                continue
            steps = max(len(ids) for ids, _ in rows)
            wanted = {"lengths": numpy.array([len(ids) for ids, _ in rows]),
                      "token": numpy.array([ids + [self.END] * (steps - len(ids)) for ids, _ in rows]
                                           ).reshape(batch, steps)}
            for n, name in enumerate(["logits", "other"]):
                width = session.get_outputs()[[o.name for o in session.get_outputs()].index(name)].shape[1]
                wanted[name] = numpy.zeros((batch, steps, width))
                for r, (_, others) in enumerate(rows):
                    for t, of in enumerate(others):
                        wanted[name][r, t] = of[n]
            yield feed, wanted


# ---- Graphs ---------------------------------------------------------------------------------------


class Graphs:
    """Cells whose outputs a request binds to inputs as it likes."""

    WIDTHS = (3, 8, 17)  # few, so that many edges fit

    def __init__(self, seed):
        self.rng, self.weights = random.Random(seed), numpy.random.default_rng(seed)
        self.notes, self.cells = ["graph"], []

    def write(self, folder):
        rng = self.rng
        (folder / "1").mkdir(parents=True)
        names = ["a", "b", "c", "d"][:rng.randrange(1, 5)]
        (folder / "config.yaml").write_text(f"unfold: graph\ncells: {','.join(names)}\n")
        for name in names:
            g = Part(rng, self.weights)
            inputs = [g.input(f"i{k}", rng.choice(self.WIDTHS), 10.0) for k in range(rng.randrange(1, 4))]
            g.ops(6)
            kind = rng.choice(["lstm", "gru", "own", "own"])
            made = []
            if kind == "lstm":
                hidden = rng.choice(self.WIDTHS)
                made = lstm_cell(g, inputs[0], g.fit(g.some(), hidden), g.fit(inputs[-1], hidden), change_of(g, kind))
            elif kind == "gru":
                made = gru_cell(g, inputs[0], g.fit(inputs[-1], rng.choice(self.WIDTHS)), change_of(g, kind))
            made = made or [g.fit(g.some(), rng.choice(self.WIDTHS)) for _ in range(rng.randrange(1, 3))]
            made.append(g.with_inputs_left(made))
            made[-1] = g.fit(g.calm(made[-1]), rng.choice(self.WIDTHS))
            outputs = {f"o{k}": v for k, v in enumerate(made)}
            g.write(folder / "1" / f"{name}.onnx", outputs)
            self.cells.append((name, [v.width for v in inputs], [v.width for v in made]))

    def shape(self, rng):
        """The cell of each node, and for each of its inputs (node, output), or None; producers come first."""
        cells, bound = [], []
        for node in range(int(rng.integers(1, 13))):
            cell = int(rng.integers(len(self.cells)))
            of = []
            for width in self.cells[cell][1]:
                fit = [(n, o) for n in range(node) for o, w in enumerate(self.cells[cells[n]][2]) if w == width]
                of.append(fit[int(rng.integers(len(fit)))] if fit and rng.random() < 0.7 else None)
            cells.append(cell)
            bound.append(of)
        return cells, bound

    def requests(self, folder, rng):
        sessions = [session_of(folder / "1" / f"{name}.onnx") for name, _, _ in self.cells]
        for _ in range(6):
            cells, bound = self.shape(rng)
            place = [int(p) for p in rng.permutation(len(cells))]  # of each node in the request
            order = sorted(range(len(cells)), key=lambda n: place[n])
            feed = {"cells": numpy.array([cells[n] for n in order])}
            edges = [[place[at[0]], at[1], place[n], i] for n, of in enumerate(bound) for i, at in enumerate(of) if at]
            feed["edges"] = numpy.array([edges[int(k)] for k in rng.permutation(len(edges))],
                                        dtype=numpy.int64).reshape(len(edges), 4)
            rows = {c: [n for n in order if cells[n] == c] for c in set(cells)}
            for c, nodes in rows.items():
                for i, width in enumerate(self.cells[c][1]):
                    if rng.random() < 0.7:
                        feed[f"{self.cells[c][0]}.i{i}"] = rng.uniform(-1, 1, (len(nodes), width)).astype(numpy.float32)
            made = []
            for n, (cell, of) in enumerate(zip(cells, bound)):
                name, widths, _ = self.cells[cell]
                zeros = [numpy.zeros(w, dtype=numpy.float32) for w in widths]
                inputs = {f"i{i}": (made[at[0]][at[1]] if at else
                                    feed[f"{name}.i{i}"][rows[cell].index(n)] if f"{name}.i{i}" in feed else zeros[i])
                          for i, at in enumerate(of)}
                made.append([a[0] for a in sessions[cell].run(None, {k: a[None] for k, a in inputs.items()})])
            wanted = {f"{self.cells[c][0]}.o{o}": numpy.stack([made[n][o] for n in nodes])
                      for c, nodes in rows.items() for o in range(len(self.cells[c][2]))}
            yield feed, wanted


FAMILIES = {"graphs": Graphs, "chains": Chains, "streams": Streams, "trees": Tree, "decoders": Decoder}
