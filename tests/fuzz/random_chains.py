"""Models of recurrent nodes over sequences, at random, and what all kinds of models share: their files, and what ONNX
Runtime makes of requests."""

import random

import numpy
import onnx
import onnx.version_converter
import onnxruntime
from onnx import TensorProto, helper

from random_graph import CALM, WIDTHS, Graph, change_of, either, gru_cell, lstm_cell, rnn_cell


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
