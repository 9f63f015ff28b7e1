"""What serving.py asks: one LSTM, or an LSTM that reads words and one that answers some, in ONNX Runtime
and in PyTorch. A request is (steps, steps of its answer); a call gets one, or a group of them, and returns
when all are answered. Weights and inputs are random, of the sizes that cellbatch-bench has."""


def padded(numpy, source, lengths):
    """The first steps of the source for each request, [steps, requests, ..]; zeros behind them."""
    if len(lengths) == 1:
        return source[: lengths[0], None]
    rows = numpy.zeros((max(lengths), len(lengths), *source.shape[1:]), source.dtype)
    for place, length in enumerate(lengths):
        rows[:length, place] = source[:length]
    return rows


# ---- ONNX Runtime ----


class Graph:
    """ONNX nodes and random weights as they are added."""

    def __init__(self, numpy, hidden):
        from onnx import helper, numpy_helper

        self.numpy, self.helper, self.to_tensor = numpy, helper, numpy_helper.from_array
        self.random, self.bound = numpy.random.default_rng(1), hidden**-0.5
        self.weights, self.nodes = [], []

    def constant(self, name, value):
        self.weights.append(self.to_tensor(value, name))
        return name

    def weight(self, name, *shape):
        drawn = self.random.uniform(-self.bound, self.bound, shape)
        return self.constant(name, drawn.astype(self.numpy.float32))

    def node(self, kind, given, results, **attributes):
        self.nodes.append(self.helper.make_node(kind, given, results, **attributes))

    def lstm(self, of, x, inputs, hidden, lengths="", state=("", "")):
        weights = [
            self.weight(f"{of}_w", 1, 4 * hidden, inputs),
            self.weight(f"{of}_r", 1, 4 * hidden, hidden),
            self.weight(f"{of}_b", 1, 8 * hidden),
        ]
        results = ["", f"{of}_h", f"{of}_c"]
        self.node("LSTM", [x, *weights, lengths, *state], results, hidden_size=hidden)
        return results[1:]

    def session(self, inputs, outputs, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        graph = self.helper.make_graph(self.nodes, "asked", inputs, outputs, self.weights)
        model = self.helper.make_model(graph, opset_imports=[self.helper.make_opsetid("", 14)])
        model.ir_version = 8
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )


def value(name, kind, shape):
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape)


class OnnxLstm:
    def __init__(self, inputs, hidden, longest, threads):
        import numpy
        import onnxruntime

        self.numpy, self.version = numpy, onnxruntime.__version__
        graph = Graph(numpy, hidden)
        self.result, _ = graph.lstm("lstm", "x", inputs, hidden, "lengths")
        given = [value("x", "FLOAT", ["steps", "rows", inputs]), value("lengths", "INT32", ["rows"])]
        self.session = graph.session(given, [value(self.result, "FLOAT", None)], threads)
        self.source = numpy.random.default_rng(2).standard_normal((longest, inputs), numpy.float32)

    def call(self, way, group):
        lengths = [steps for steps, _ in group]
        x = padded(self.numpy, self.source, lengths)
        given = {"x": x, "lengths": self.numpy.array(lengths, self.numpy.int32)}
        return self.session.run([self.result], given)


class OnnxSeq2seq:
    """The words of the answer in a Loop, so that a group is one call."""

    def __init__(self, words, hidden, longest, threads):
        import numpy
        import onnxruntime

        self.numpy, self.version = numpy, onnxruntime.__version__
        graph = Graph(numpy, hidden)
        body = self.body(graph, words, hidden)
        graph.node("Gather", [graph.weight("read_table", words, hidden), "ids"], ["read"])
        state = graph.lstm("encoder", "read", hidden, hidden, "lengths")
        graph.constant("goes_on", numpy.array(True))
        results = ["token_last", "h_last", "c_last", "tokens"]
        graph.node("Loop", ["steps", "goes_on", "start", *state], results, body=body)
        given = [
            value("ids", "INT64", ["words", "rows"]),
            value("lengths", "INT32", ["rows"]),
            value("start", "INT64", ["rows"]),
            value("steps", "INT64", []),
        ]
        self.session = graph.session(given, [value("tokens", "INT64", None)], threads)
        self.source = numpy.random.default_rng(2).integers(0, words, longest)

    @staticmethod
    def body(outer, words, hidden):
        """One word. Its weights are the outer graph's, where they are constants all the same."""
        inner = Graph(outer.numpy, hidden)
        inner.weights = outer.weights
        outer.constant("axis_of_steps", outer.numpy.array([0]))
        inner.node("Gather", [outer.weight("said_table", words, hidden), "token"], ["said"])
        inner.node("Unsqueeze", ["said", "axis_of_steps"], ["x"])
        h, c = inner.lstm("decoder", "x", hidden, hidden, "", ("h", "c"))
        inner.node("Squeeze", [h, "axis_of_steps"], ["row"])
        linear = [outer.weight("linear_w", hidden, words), outer.weight("linear_b", words)]
        inner.node("Gemm", ["row", *linear], ["logits"])
        inner.node("ArgMax", ["logits"], ["next"], axis=1, keepdims=0)
        inner.node("Identity", ["next"], ["answered"])
        inner.node("Identity", ["goes"], ["goes_next"])
        state = [value(name, "FLOAT", [1, "rows", hidden]) for name in ("h", "c", h, c)]
        given = [value("i", "INT64", []), value("goes", "BOOL", []), value("token", "INT64", ["rows"])]
        results = [value("goes_next", "BOOL", []), value("next", "INT64", ["rows"])]
        answered = value("answered", "INT64", ["rows"])
        return outer.helper.make_graph(
            inner.nodes, "word", given + state[:2], results + state[2:] + [answered]
        )

    def call(self, way, group):
        lengths = [steps for steps, _ in group]
        given = {
            "ids": padded(self.numpy, self.source, lengths),
            "lengths": self.numpy.array(lengths, self.numpy.int32),
            "start": self.numpy.zeros(len(group), self.numpy.int64),
            "steps": self.numpy.array(max(answer for _, answer in group)),
        }
        return self.session.run(["tokens"], given)


# ---- PyTorch ----


class TorchLstm:
    def __init__(self, inputs, hidden, longest, threads):
        import torch

        self.torch, self.version = torch, torch.__version__
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.lstm = torch.nn.LSTM(inputs, hidden).eval()
        self.source = torch.randn(longest, inputs)

    def call(self, way, group):
        torch, rnn = self.torch, self.torch.nn.utils.rnn
        tensors = [self.source[:steps] for steps, _ in group]
        with torch.inference_mode():
            if way == "packed":
                return self.lstm(rnn.pack_sequence(tensors, enforce_sorted=False))
            return self.lstm(rnn.pad_sequence(tensors))


class TorchSeq2seq:
    def __init__(self, words, hidden, longest, threads):
        import torch

        self.torch, self.version = torch, torch.__version__
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.read, self.said = torch.nn.Embedding(words, hidden), torch.nn.Embedding(words, hidden)
        self.encoder, self.cell = torch.nn.LSTM(hidden, hidden), torch.nn.LSTMCell(hidden, hidden)
        self.linear = torch.nn.Linear(hidden, words)
        self.source = torch.randint(0, words, (longest,))

    def call(self, way, group):
        torch, rnn = self.torch, self.torch.nn.utils.rnn
        with torch.inference_mode():
            words = [self.read(self.source[:steps]) for steps, _ in group]
            _, (h, c) = self.encoder(rnn.pack_sequence(words, enforce_sorted=False))
            h, c, token, answered = h[0], c[0], torch.zeros(len(group), dtype=torch.int64), []
            for _ in range(max(answer for _, answer in group)):
                h, c = self.cell(self.said(token), (h, c))
                token = self.linear(h).argmax(1)
                answered.append(token)
            return torch.stack(answered)
