"""Models of each kind that the daemon serves, at random: their files, requests for them, and what
ONNX Runtime makes of those."""

import random

import numpy
import onnx
import onnx.version_converter
import onnxruntime
from onnx import TensorProto, helper

from random_graph import (CALM, CHANGES, WIDTHS, Graph, Value, binary_tree_cell, change_of, either, gru_cell, leaf_cell,
                          lstm_cell, rnn_cell, sum_tree_cell)


def session_of(path):
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    quiet.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), quiet, providers=["CPUExecutionProvider"])


def run(session, feed):
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feed)))


def lower(graph, constants=None):
    """Axes as attributes, as they were before opset 13."""
    constants = {**(constants or {}), **{c.name: onnx.numpy_helper.to_array(c) for c in graph.initializer}}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                lower(attribute.g, constants)
        if node.op_type in ("Squeeze", "Unsqueeze", "ReduceSum") and len(node.input) == 2:
            node.attribute.append(helper.make_attribute("axes", constants[node.input.pop()].tolist()))


def converted(model, rng):
    """The model in another opset, now and then, if it can be written so."""
    if rng.random() < 0.7:
        return model
    version = rng.choice([11, 12, 16, 18, 20, 21])
    try:
        if version > 14:
            other = onnx.version_converter.convert_version(model, version)
        else:
            other = onnx.ModelProto()
            other.CopyFrom(model)
            other.opset_import[0].version = version
            lower(other.graph)
        onnx.checker.check_model(other)
        return other
    except (RuntimeError, onnx.checker.ValidationError):
        return model


def save(graph, inputs, outputs, path):
    made = helper.make_graph(graph.nodes, "random", inputs, outputs, graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    model = converted(model, graph.rng)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)


def body_of(model, scanned):
    """A Scan's body over the scanned sequences: the graph, its states' widths and its outputs'."""
    rng = model.rng
    g = Graph(rng, model.weights, prefix=f"b{model.count}_")
    kind = rng.choice(["lstm", "gru", "rnn", "own"])
    hidden = rng.choice(WIDTHS[2:])
    widths = {"lstm": [hidden, hidden], "gru": [hidden], "rnn": [hidden],
              "own": [rng.choice(WIDTHS) for _ in range(rng.randrange(1, 4))]}[kind]
    states = [g.add(g.name(), "row", w, CALM) for w in widths]
    inputs = [g.add(g.name(), "row", v.width, v.most) for v in scanned]
    for _ in range(rng.randrange(0, 3)):
        g.op()
    x = g.fit(g.some(), rng.choice(WIDTHS)) if rng.random() < 0.4 else inputs[0]
    change = change_of(g, kind) if kind != "own" else ""
    nexts = []
    if kind == "lstm":
        nexts = lstm_cell(g, x, *states, change)
    elif kind == "gru":
        nexts = gru_cell(g, x, states[0], change)
    elif kind == "rnn":
        nexts = rnn_cell(g, x, states[0], change)
    for _ in range(rng.randrange(1, 12) if kind == "own" else rng.randrange(0, 4)):
        g.op()
    if not nexts or rng.random() < 0.15:
        nexts = [g.fit(g.some(), w) for w in widths]
    nexts = [n if n.most <= 10.0 else g.add(g.node("Tanh", [n.name]), "row", n.width, 1.0) for n in nexts]
    outs = [g.some() for _ in range(rng.randrange(1, 3))] + ([nexts[0]] if rng.random() < 0.7 else [])
    ends = [(g.node("Identity", [v.name]), v) for v in nexts + outs]  # each output has a name of its own
    made = helper.make_graph(
        g.nodes, f"body{model.count}",
        [helper.make_tensor_value_info(v.name, TensorProto.FLOAT, ["batch", v.width]) for v in states + inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", v.width]) for name, v in ends],
        g.constants)
    return made, widths, outs, f"{kind} {change}".strip()


# ---- Recurrent nodes of a model -------------------------------------------------------------------


class Chains(Graph):
    """Recurrent nodes over sequences, in one file."""

    directions, backwards = ["forward", "reverse", "bidirectional"], 0.2  # the second: of how many Scans
    config = ""

    def __init__(self, seed):
        super().__init__(random.Random(seed), numpy.random.default_rng(seed))
        self.seed, self.ids, self.dtypes, self.notes = seed, {}, {}, []
        self.memories, self.keys = {}, []  # names and widths of sequences of lengths of their own; what rows are sorted by
        self.time = self.rng.choice([1, 2, 5]) if self.rng.random() < 0.15 else "time"  # a number: the file states it
        self.batch = 1 if self.rng.random() < 0.15 else "batch"

    def input(self, name, kind, width):
        shape = [self.time, self.batch, width] if kind == "seq" else [self.batch, width]
        self.inputs.append((name, kind, width))
        if kind == "seq" and self.rng.random() < 0.3:
            self.batch_first.add(name)
            shape = [self.batch, self.time, width]
            self.add(self.node("Transpose", [name], perm=[1, 0, 2]), kind, width, 1.0)
        else:
            self.add(name, kind, width, 1.0)
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    def initial(self, width, *lead):
        """Zeros of the batch's size, or a row of the model as a state."""
        row = self.pick("row")
        if row is not None and self.rng.random() < 0.5:
            name = self.fit(self.calm(row), width).name
            return self.node("Unsqueeze", [name, self.integers(0)]) if lead else name
        of = self.pick("seq")
        batch = self.node("Gather", [self.node("Shape", [of.name]), self.integers(1)], axis=0)
        shape = self.node("Concat", [self.integers(*lead), batch, self.integers(width)], axis=0) if lead \
            else self.node("Concat", [batch, self.integers(width)], axis=0)
        zero = helper.make_tensor("zero", TensorProto.FLOAT, [1], [0.0])
        return self.node("ConstantOfShape", [shape], value=zero)

    def recurrent(self, x=None):
        """Over a sequence, or over one step of its own, [1, batch, width], of a row."""
        rng = self.rng
        kind = rng.choice(["LSTM", "GRU", "RNN"])
        is_single = x is not None
        x = self.some("seq") if x is None else x
        hidden = rng.choice(WIDTHS[2:])
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
        direction = rng.choice(self.directions)
        n = 2 if direction == "bidirectional" else 1
        inputs = [x.name, self.floats(n, gates * hidden, x.width, scale=(3.0 / x.width) ** 0.5),
                  self.floats(n, gates * hidden, hidden, scale=(3.0 / hidden) ** 0.5),
                  self.floats(n, 2 * gates * hidden) if rng.random() < 0.7 else "", ""]
        attributes = {"hidden_size": hidden, "direction": direction}
        if kind == "GRU":
            attributes["linear_before_reset"] = rng.randrange(2)
        if rng.random() < 0.25:
            per = {"LSTM": 3, "GRU": 2, "RNN": 1}[kind]
            attributes["activations"] = [rng.choice(["Sigmoid", "Tanh"] if kind != "RNN" else ["Relu", "Tanh"])
                                         for _ in range(per * n)]
        if rng.random() < 0.4 and n == 1:
            inputs.append(self.initial(hidden, 1))
            inputs += [self.initial(hidden, 1)] if kind == "LSTM" else []
        elif kind == "LSTM":
            inputs += ["", ""]
        if kind == "LSTM" and rng.random() < 0.3:
            inputs.append(self.floats(n, 3 * hidden))
        while inputs[-1] == "":
            inputs.pop()
        names = self.node(kind, inputs, 3 if kind == "LSTM" else 2, **attributes)
        self.notes.append(f"{kind} {direction}" + (" of one step" if is_single else ""))
        turned = self.node("Transpose", [names[0]], perm=[0, 2, 1, 3])
        y = self.node("Reshape", [turned, self.integers(0, 0, n * hidden)])
        y = self.node("Squeeze", [y, self.integers(0)]) if is_single else y
        self.add(y, "row" if is_single else "seq", n * hidden, CALM)
        for name in names[1:]:
            if rng.random() < 0.5:
                turned = self.node("Transpose", [name], perm=[1, 0, 2])
                self.add(self.node("Reshape", [turned, self.integers(0, n * hidden)]), "row", n * hidden, 10.0)

    def single(self):
        row = self.pick("row")
        if row is not None:
            self.recurrent(row._replace(name=self.node("Unsqueeze", [row.name, self.integers(0)])))

    def memory(self):
        """A sequence that no node goes along, and the sum of its steps as a row looks at them."""
        name, width = f"m{len(self.memories)}", self.rng.choice(WIDTHS)
        row = self.pick("row")
        if row is None:
            return []
        self.memories[name] = width
        query = self.node("Unsqueeze", [self.fit(row, width).name, self.integers(1)])
        weights = self.node("Softmax", [self.node("MatMul", [query, self.node("Transpose", [name], perm=[0, 2, 1])])], axis=-1)
        attended = self.node("Squeeze", [self.node("MatMul", [weights, name]), self.integers(1)])
        self.notes.append("memory")
        self.add(attended, "row", width, 1.0)
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, [self.batch, f"{name}_steps", width])]

    def sorted(self):
        """A recurrent node over rows in another order, which are put back behind it."""
        name, x, kept = f"keys{len(self.keys)}", self.some("seq"), self.values
        self.keys.append(name)
        size = self.node("Shape", [name])
        order = self.node("TopK", [name, size], 2)[1]
        numbers = self.node("Range", [self.constant(numpy.int64(0)), self.node("Squeeze", [size]), self.constant(numpy.int64(1))])
        zeros = self.node("ConstantOfShape", [size], value=helper.make_tensor("zero", TensorProto.INT64, [1], [0]))
        back = self.node("ScatterElements", [zeros, order, numbers], axis=0)
        self.values = [x._replace(name=self.node("Gather", [x.name, order], axis=1))]
        self.recurrent()
        for _ in range(self.rng.randrange(3)):
            self.unary()
        made, self.values = self.values, kept
        self.notes.append("sorted")
        for value in made:
            self.add(self.node("Gather", [value.name, back], axis=1 if value.kind == "seq" else 0), *value[1:])
        return [helper.make_tensor_value_info(name, TensorProto.INT64, [self.batch])]

    def scan(self):
        rng = self.rng
        scanned = [self.some("seq") for _ in range(rng.randrange(1, 3))]
        body, widths, outs, note = body_of(self, scanned)
        initial = [self.initial(w) for w in widths]
        backwards = 1 if rng.random() < self.backwards else 0
        names = self.node("Scan", initial + [v.name for v in scanned], len(widths) + len(outs), body=body,
                          num_scan_inputs=len(scanned), scan_input_directions=[backwards] * len(scanned),
                          scan_output_directions=[backwards] * len(outs))
        names = [names] if isinstance(names, str) else names
        self.notes.append(f"Scan {note}")
        for name, width in zip(names, widths):
            self.add(name, "row", width, 12.0)
        for name, value in zip(names[len(widths):], outs):
            self.add(name, "seq", value.width, value.most)

    def window(self):
        """A convolution or a pool along the steps that leaves as many of them."""
        rng = self.rng
        value = self.some("seq")
        name = self.node("Transpose", [value.name], perm=[1, 2, 0])
        taps, dilation = rng.randrange(1, 5), rng.randrange(1, 3)
        reach = (taps - 1) * dilation
        before = rng.randrange(reach + 1)
        attributes = {"kernel_shape": [taps], "pads": [before, reach - before], "dilations": [dilation]}
        width = value.width
        if rng.random() < 0.6:
            groups = value.width if rng.random() < 0.3 else 1
            width = value.width if groups > 1 else rng.choice(WIDTHS)
            scale = (3.0 / (value.width / groups * taps)) ** 0.5
            inputs = [name, self.floats(width, value.width // groups, taps, scale=scale)]
            inputs += [self.floats(width)] if rng.random() < 0.6 else []
            name = self.node("Conv", inputs, group=groups, **attributes)
        elif dilation == 1 and before < taps and reach - before < taps and rng.random() < 0.5:
            attributes.pop("dilations")
            name = self.node("AveragePool", [name], count_include_pad=rng.randrange(2), **attributes)
        elif before < taps and reach - before < taps:
            name = self.node("MaxPool", [name], **attributes)
        else:
            return
        self.add(self.node("Transpose", [name], perm=[2, 0, 1]), "seq", width, 4 * value.most + 1)

    def steps_of(self, value, first, end, step=1):
        bounds = [self.integers(n) for n in (first, end, 0, step)]
        return self.node("Slice", [value.name] + bounds)

    def one_step(self, width):
        """A row of the model, or of the sequence itself, as one step."""
        row = self.some("row")
        if row is not None and self.rng.random() < 0.6:
            return self.node("Unsqueeze", [self.fit(row, width).name, self.integers(0)])
        return self.initial(width, 1)

    def joined(self):
        """Steps joined to steps, as many as there were before: shifted, turned round, or more of them that a window
        takes away again."""
        value = self.some("seq")
        way = self.rng.choice(["later", "earlier", "turned", "padded", "between"])
        if way == "later":
            name = self.node("Concat", [self.one_step(value.width), self.steps_of(value, 0, -1)], axis=0)
        elif way == "earlier":
            name = self.node("Concat", [self.steps_of(value, 1, 2**31), self.one_step(value.width)], axis=0)
        elif way == "turned":
            name = self.steps_of(value, -1, -2**63, -1)
        elif way == "padded":
            before = self.rng.randrange(3)
            pads = self.integers(before, 0, 0, 2 - before, 0, 0)
            name = self.node("Pad", [value.name, pads], mode="edge")
        else:
            ends = [self.one_step(value.width), self.one_step(value.width)]
            name = self.node("Concat", [ends[0], value.name, ends[1]], axis=0)
        if way in ("padded", "between"):
            name = self.node("Transpose", [name], perm=[1, 2, 0])
            name = self.node("AveragePool", [name], kernel_shape=[3])
            name = self.node("Transpose", [name], perm=[2, 0, 1])
        self.notes.append(f"joined {way}")
        self.add(name, "seq", value.width, max(value.most, CALM))

    def attention(self):
        """A sum over the steps, weighted by a softmax over them."""
        value, about = self.some("seq"), self.some("seq")
        score = self.fit(about, 1)
        weight = self.node("Softmax", [score.name], axis=0)
        product = self.node("Mul", either(self, weight, value.name))
        name = self.node("ReduceSum", [product, self.integers(0)], keepdims=0)
        self.add(name, "row", value.width, value.most)

    def looked_at(self):
        """A row's product with each step, a softmax over the steps, and the sum of the steps weighted by it."""
        memory, row = self.some("seq"), self.some("row")
        if row is None:
            return
        query = self.node("Unsqueeze", [self.fit(row, memory.width).name, self.integers(1)])
        keys = self.node("Transpose", [memory.name], perm=[1, 2, 0])
        weights = self.node("Softmax", [self.node("MatMul", [query, keys])], axis=-1)
        steps = self.node("Transpose", [memory.name], perm=[1, 0, 2])
        attended = self.node("Squeeze", [self.node("MatMul", [weights, steps]), self.integers(1)])
        self.add(attended, "row", memory.width, memory.most)

    def embedding(self, name):
        rows, width = self.rng.randrange(2, 12), self.rng.choice(WIDTHS)
        self.ids[name] = rows
        table = self.floats(rows, width)
        self.add(self.node("Gather", [table, name], axis=0), "seq", width, 1.0)
        dtype = self.rng.choice([TensorProto.INT64, TensorProto.INT32])
        self.dtypes[name] = "int64" if dtype == TensorProto.INT64 else "int32"
        return helper.make_tensor_value_info(name, dtype, [self.time, self.batch])

    def over_steps(self):
        value = self.some("seq")
        roll = self.rng.random()
        if roll < 0.5:
            kind = self.rng.choice(["ReduceMean", "ReduceMax", "ReduceMin"])
            name = self.node(kind, [value.name], axes=[0], keepdims=0)
        else:
            name = self.node("Gather", [value.name, self.constant(numpy.int64(self.rng.choice([0, -1])))], axis=0)
        self.add(name, "row", value.width, value.most)

    def write(self, folder):
        rng = self.rng
        infos = [self.input(f"x{i}", "seq", rng.choice(WIDTHS)) for i in range(rng.randrange(1, 3))]
        infos += [self.input(f"r{i}", "row", rng.choice(WIDTHS)) for i in range(rng.randrange(0, 2))]
        if rng.random() < 0.3:
            infos.append(self.embedding("ids"))
        for _ in range(rng.randrange(1, 4)):
            for _ in range(rng.randrange(0, 4)):
                self.op()
            if rng.random() < 0.3:
                self.window()
            if rng.random() < 0.3:
                self.joined()
            rng.choice([self.recurrent, self.scan, self.scan])()
            infos += self.sorted() if rng.random() < 0.15 else []
            if rng.random() < 0.3:
                rng.choice([self.over_steps, self.over_steps, self.attention, self.looked_at])()
            infos += self.memory() if rng.random() < 0.15 else []
            if rng.random() < 0.2:
                self.single()
        for _ in range(rng.randrange(0, 5)):
            self.op()
        last = self.values[-6:]
        picked = rng.sample(last, min(len(last), rng.randrange(1, 4)))
        picked[0] = self.with_inputs_left(picked)
        outputs = []
        for i, value in enumerate(picked):
            shape = [self.time, self.batch, value.width] if value.kind == "seq" else [self.batch, value.width]
            if value.kind == "seq" and rng.random() < 0.3:
                shape = [self.batch, self.time, value.width]
                self.nodes.append(helper.make_node("Transpose", [value.name], [f"y{i}"], perm=[1, 0, 2]))
            else:
                self.nodes.append(helper.make_node("Identity", [value.name], [f"y{i}"]))
            outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, shape))
        save(self, infos, outputs, folder / "1" / "model.onnx")

    def feeds(self, rng):
        for _ in range(6):
            time_, batch = int(rng.integers(1, 12)), int(rng.integers(1, 4))
            time_ = time_ if self.time == "time" else self.time
            batch = batch if self.batch == "batch" else self.batch
            shapes = {n: (batch, w) if k == "row" else (batch, time_, w) if n in self.batch_first else
                      (time_, batch, w) for n, k, w in self.inputs}
            feed = {n: rng.uniform(-1, 1, shape).astype(numpy.float32) for n, shape in shapes.items()}
            feed.update({n: rng.integers(0, rows, (time_, batch)).astype(self.dtypes[n])
                         for n, rows in self.ids.items()})
            feed.update({n: rng.uniform(-1, 1, (batch, int(rng.integers(1, 9)), w)).astype(numpy.float32)
                         for n, w in self.memories.items()})
            feed.update({n: rng.integers(1, 5, batch) for n in self.keys})
            yield feed

    def requests(self, folder, rng):
        session = session_of(folder / "1" / "model.onnx")
        for feed in self.feeds(rng):
            yield feed, run(session, feed)


class Streams(Chains):
    """Nodes forwards over one sequence, windows beside their own steps, strides, several steps made of each, attention to
    steps around them, numbers of steps: asked as a whole, and as a session part by part, whose answers one behind the other have the whole's bits."""

    directions, backwards = ["forward"], 0
    config = "states: recurrent\nmax-sequence-length: 60"

    def __init__(self, seed):
        super().__init__(seed)
        self.time = "time"

    def initial(self, width, *lead):
        """Zeros, or learned: a session begins with no others."""
        if self.rng.random() < 0.4:
            of = self.pick("seq")
            batch = self.node("Gather", [self.node("Shape", [of.name]), self.integers(1)], axis=0)
            shape = self.node("Concat", [self.integers(*lead), batch, self.integers(width)], axis=0) if lead \
                else self.node("Concat", [batch, self.integers(width)], axis=0)
            self.notes.append("a learned state")
            return self.node("Expand", [self.floats(*lead, 1, width), shape])
        kept, self.values = self.values, [value for value in self.values if value.kind == "seq"]
        name = super().initial(width, *lead)
        self.values = kept + self.values[len([value for value in kept if value.kind == "seq"]):]
        return name

    def shrink(self):
        """A convolution or a pool with strides, or without padding. The steps that it leaves are all that there is then."""
        rng = self.rng
        value = self.some("seq")
        name = self.node("Transpose", [value.name], perm=[1, 2, 0])
        taps, stride = rng.randrange(1, 6), rng.choice([1, 1, 2, 3])
        pads = [rng.randrange(taps), rng.randrange(taps)] if rng.random() < 0.6 else [0, 0]
        width, attributes = value.width, {"kernel_shape": [taps], "pads": pads, "strides": [stride]}
        if rng.random() < 0.7:
            width = rng.choice(WIDTHS)
            weights = self.floats(width, value.width, taps, scale=(3.0 / (value.width * taps)) ** 0.5)
            name = self.node("Conv", [name, weights], **attributes)
        else:
            name = self.node("MaxPool", [name], **attributes)
        self.notes.append(f"{taps} taps, {pads}, by {stride}")
        self.values = []
        self.add(self.node("Transpose", [name], perm=[2, 0, 1]), "seq", width, 4 * value.most + 1)

    def grown(self, name, width, by):
        """[batch, width, steps], of each step so many: a transposed convolution, or repeated, or between two. Its name and width."""
        rng = self.rng
        kind = rng.choice(["ConvTranspose", "ConvTranspose", "nearest", "linear"])
        self.notes.append(f"{by} of each by {kind}")
        if kind != "ConvTranspose":
            where = "asymmetric" if kind == "nearest" else rng.choice(["half_pixel", "asymmetric"])
            scales = self.constant(numpy.array([1, 1, by], numpy.float32))
            return self.node("Resize", [name, "", scales], mode=kind, coordinate_transformation_mode=where,
                             nearest_mode="floor"), width
        taps, made = by + rng.randrange(2 * by + 1), rng.choice(WIDTHS)
        more = rng.randrange(taps - by + 1)
        before = rng.randrange(more + 1)
        inputs = [name, self.floats(width, made, taps, scale=(3.0 / (width * taps)) ** 0.5)]
        inputs += [self.floats(made)] if rng.random() < 0.5 else []
        return self.node("ConvTranspose", inputs, kernel_shape=[taps], strides=[by], pads=[before, more - before],
                         output_padding=[rng.randrange(by)]), made

    def grow(self):
        """What is made of each step is all that there is then."""
        value = self.some("seq")
        name, width = self.grown(self.node("Transpose", [value.name], perm=[1, 2, 0]), value.width, self.rng.randrange(2, 5))
        self.values = []
        self.add(self.node("Transpose", [name], perm=[2, 0, 1]), "seq", width, 4 * value.most + 1)

    def hourglass(self):
        """Down by a stride and up again, cut to what there was, beside a shortcut."""
        rng = self.rng
        value, by, kept = self.some("seq"), rng.randrange(2, 5), self.values
        name = self.node("Transpose", [value.name], perm=[1, 2, 0])
        width = rng.choice(WIDTHS)
        taps = by + rng.randrange(by)
        weights = self.floats(width, value.width, taps, scale=(3.0 / (value.width * taps)) ** 0.5)
        before = rng.randrange(by, taps + by)
        name = self.node("Conv", [name, weights], kernel_shape=[taps], strides=[by], pads=[before, taps + by - before])
        self.values = []
        self.add(self.node("Transpose", [name], perm=[2, 0, 1]), "seq", width, 4 * value.most + 1)
        if rng.random() < 0.6:
            self.recurrent()
        inner = self.some("seq")
        name, width = self.grown(self.node("Transpose", [inner.name], perm=[1, 2, 0]), inner.width, by)
        name = self.node("Transpose", [name], perm=[2, 0, 1])
        size = self.node("Gather", [self.node("Shape", [value.name]), self.integers(0)])
        name = self.node("Slice", [name, self.integers(0), size, self.integers(0)])
        self.notes.append(f"an hourglass by {by}")
        self.values = kept
        grown = value._replace(name=name, width=width, most=4 * inner.most + 1)
        self.add(self.node("Add", either(self, value.name, self.fit(grown, value.width).name)), "seq", value.width,
                 value.most + 8 * inner.most + 2)

    def shift(self):
        """The steps before, or what a convolution padded on both sides has left when its end is cut off."""
        value, n = self.some("seq"), self.rng.randrange(1, 4)
        if self.rng.random() < 0.5:
            name = self.node("Pad", [value.name, self.integers(n, 0, 0, -n, 0, 0)])
        else:
            name = self.node("Transpose", [value.name], perm=[1, 2, 0])
            weights = self.floats(value.width, value.width, n + 1, scale=(3.0 / (value.width * (n + 1))) ** 0.5)
            name = self.node("Conv", [name, weights], kernel_shape=[n + 1], pads=[n, n])
            name = self.node("Transpose", [name], perm=[2, 0, 1])
            name = self.steps_of(value._replace(name=name), 0, -n)
        self.notes.append(f"shifted by {n}")
        self.add(name, "seq", value.width, 4 * value.most + 1)

    def numbers(self, value, first=0):
        """Of its steps, from `first` on."""
        size = self.node("Gather", [self.node("Shape", [value.name]), self.constant(numpy.int64(0))])
        if first != 0:
            size = self.node("Add", [size, self.constant(numpy.int64(first))])
        return self.node("Range", [self.constant(numpy.int64(first)), size, self.constant(numpy.int64(1))])

    def attend(self):
        """Each step to some before it, or all, and to some behind it."""
        rng = self.rng
        value, keys = self.some("seq"), self.some("seq")
        width, back, ahead = rng.choice(WIDTHS), rng.choice([None, 0, 1, 3, 6]), rng.choice([0, 0, 0, 1, 4])
        query = self.linear(value, width) if rng.random() < 0.8 else value
        key, content = self.fit(self.linear(keys, width), query.width), keys if rng.random() < 0.4 else self.linear(keys, width)
        turned = [self.node("Transpose", [v.name], perm=perm) for v, perm in
                  ((query, [1, 0, 2]), (key, [1, 2, 0]), (content, [1, 0, 2]))]
        scores = self.node("Mul", [self.node("MatMul", turned[:2]), self.constant(numpy.float32(width**-0.5))])
        number = self.numbers(value)
        apart = self.node("Sub", [self.node("Unsqueeze", [number, self.integers(0)]), self.node("Unsqueeze", [number, self.integers(1)])])
        masked = self.node("Greater", [apart, self.constant(numpy.int64(ahead))])
        if back is not None:
            masked = self.node("Or", either(self, masked, self.node("Less", [apart, self.constant(numpy.int64(-back))])))
        scores = self.node("Where", [masked, self.constant(numpy.float32(-1e9)), scores])
        name = self.node("MatMul", [self.node("Softmax", [scores], axis=-1), turned[2]])
        self.notes.append(f"attends to {back} back, {ahead} ahead")
        self.add(self.node("Transpose", [name], perm=[1, 0, 2]), "seq", content.width, content.most)

    def place(self):
        """The step's number among its features: a sine of it, or its reciprocal."""
        value = self.some("seq")
        if self.rng.random() < 0.6:
            number = self.node("Cast", [self.numbers(value)], to=TensorProto.FLOAT)
            number = self.node("Sin", [self.node("Mul", [number, self.constant(numpy.float32(0.37))])])
        else:
            number = self.node("Reciprocal", [self.node("Cast", [self.numbers(value, 1)], to=TensorProto.FLOAT)])
        number = self.node("Unsqueeze", [number, self.integers(1, 2)])
        self.notes.append("numbers")
        self.add(self.node("Add", either(self, value.name, number)), "seq", value.width, value.most + 1)

    def write(self, folder):
        rng = self.rng
        infos = [self.input("x0", "seq", rng.choice(WIDTHS))]
        for _ in range(rng.randrange(1, 4)):
            for _ in range(rng.randrange(0, 3)):
                self.op()
            for what, part in ((self.window, 0.6), (self.shrink, 0.3), (self.shift, 0.4), (self.recurrent, 0.4), (self.scan, 0.3),
                               (self.attend, 0.35), (self.place, 0.25), (self.grow, 0.15), (self.hourglass, 0.2)):
                if rng.random() < part:
                    what()
        last = [value for value in self.values if value.kind == "seq"][-4:]
        picked = rng.sample(last, min(len(last), rng.randrange(1, 3)))
        outputs = []
        for i, value in enumerate(picked):
            self.nodes.append(helper.make_node("Identity", [value.name], [f"y{i}"]))
            outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, ["left", self.batch, value.width]))
        save(self, infos, outputs, folder / "1" / "model.onnx")

    def feeds(self, rng):
        for _ in range(6):
            batch = int(rng.integers(1, 4)) if self.batch == "batch" else 1
            (name, _, width), time_ = self.inputs[0], int(rng.integers(16, 29))
            shape = (batch, time_, width) if name in self.batch_first else (time_, batch, width)
            yield {name: rng.uniform(-1, 1, shape).astype(numpy.float32)}

    def requests(self, folder, rng):
        session = session_of(folder / "1" / "model.onnx")
        for feed in self.feeds(rng):
            try:
                wanted = run(session, feed)
            except onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument:
                continue  # strides and windows leave too few steps for the last of them
            if all(answer.size > 0 for answer in wanted.values()):
                yield feed, wanted

    def ask_in_parts(self, ask, port, model, feed):
        right = ask(port, model, feed)
        if isinstance(right, str):
            return right
        ((name, whole),) = feed.items()
        axis, at, answers = 1 if name in self.batch_first else 0, 0, []
        rng = random.Random(float(whole.ravel()[0]))
        is_known = rng.random() < 0.7  # that a part is the last; else one without steps comes behind it
        is_over = False
        while not is_over:
            end = min(whole.shape[axis], at + rng.choice([1, 1, 2, 3, 7]))
            is_over = end == whole.shape[axis] and (is_known or at == end)
            part = {name: whole.take(range(at, end), axis)}
            parameters = {"sequence_id": f"{whole.ravel()[:3].tolist()}", "sequence_start": at == 0,
                          "sequence_end": is_over}
            answers.append(ask(port, model, part, parameters))
            if isinstance(answers[-1], str) and at == end and "an empty sequence" in answers[-1]:
                answers.pop()  # nothing waits for it, and the session is left to time out
            elif isinstance(answers[-1], str):
                return answers[-1]
            at = end
        for output, want in right.items():
            got = numpy.concatenate([answer[output] for answer in answers], 0)
            if not numpy.array_equal(got, want, equal_nan=True):
                return f"{output}: other bits in parts of {[len(answer[output]) for answer in answers]} steps"
        return right


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
