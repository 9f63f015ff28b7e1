#!/usr/bin/env python3
"""Writes into tests/data/onnx modules of PaddlePaddle as paddle2onnx makes ONNX files of them. Weights are
random; the cases' outputs are what PaddlePaddle computes. Every file is run in onnxruntime before it is kept.

Needs paddlepaddle, paddle2onnx and onnxruntime.
"""

import os
import tempfile

os.environ["GLOG_minloglevel"] = "3"

import paddle
import paddle2onnx
from paddle import nn
from paddle.nn import functional

from framework_exports import CLASSES, HIDDEN, INPUT, LENGTHS, WORDS
from framework_exports import draw_weight, generator_of, given, make_cases, run, write_golden

OPSET = 17
STEPS = (given("x", "B", "T", INPUT),)


class Module(nn.Layer):
    """A module of these parts, and a function of it and of its inputs."""

    def __init__(self, call, **parts):
        super().__init__()
        self.call = call
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.call(self, x)


class Measured(Module):
    def forward(self, x, n):
        return self.call(self, x, n)


class Stateful(Module):
    def forward(self, x, h, c):
        return self.call(self, x, h, c)


def paddle_lstm_tagger():
    """two bidirectional LSTMs, Linear over each step"""
    layer = nn.LSTM(INPUT, HIDDEN // 2, num_layers=2, direction="bidirect")
    return Module(lambda m, x: m.out(m.layer(x)[0]), layer=layer, out=nn.Linear(HIDDEN, CLASSES))


def paddle_lstm_last():
    """two LSTMs, the last h of the upper one, a softmax"""
    layer = nn.LSTM(INPUT, HIDDEN, num_layers=2)
    return Module(
        lambda m, x: functional.softmax(m.out(m.layer(x)[1][0][-1])), layer=layer, out=nn.Linear(HIDDEN, CLASSES)
    )


def paddle_lstm_states():
    """LSTM(time_major=True) with initial states, states out"""

    def call(m, x, h, c):
        y, (h, c) = m.layer(x, (h, c))
        return m.out(y), h, c

    return Stateful(call, layer=nn.LSTM(INPUT, HIDDEN, time_major=True), out=nn.Linear(HIDDEN, CLASSES))


def paddle_gru_words():
    """Embedding, bidirectional GRU, softmax over each step"""
    return Module(
        lambda m, x: functional.softmax(m.out(m.layer(m.words(x))[0]), -1),
        words=nn.Embedding(WORDS, INPUT, padding_idx=0),
        layer=nn.GRU(INPUT, HIDDEN // 2, direction="bidirect"),
        out=nn.Linear(HIDDEN, CLASSES),
    )


def paddle_gru_sensors():
    """Conv1D over channels first, BatchNorm1D, GRU, the largest over the steps"""
    front = nn.Sequential(nn.Conv1D(3, INPUT, 3, padding=1), nn.BatchNorm1D(INPUT), nn.ReLU())
    return Module(
        lambda m, x: m.out(m.layer(m.front(x).transpose([0, 2, 1]))[0].max(1)),
        front=front,
        layer=nn.GRU(INPUT, HIDDEN),
        out=nn.Linear(HIDDEN, CLASSES),
    )


def paddle_gru_speech():
    """Conv2D with strides over steps and features, GRUs with LayerNorm between, as DeepSpeech2"""

    def call(m, x):
        y = m.front(x.unsqueeze(1)).transpose([0, 2, 1, 3]).reshape([0, -1, 4 * 3])
        y = m.norm(m.lower(y)[0])
        return functional.log_softmax(m.out(m.upper(y)[0]), -1)

    front = nn.Sequential(nn.Conv2D(1, 4, 3, 2, padding=1), nn.ReLU(), nn.Conv2D(4, 4, 3, 2, padding=1), nn.ReLU())
    parts = {"lower": nn.GRU(12, HIDDEN), "norm": nn.LayerNorm(HIDDEN), "upper": nn.GRU(HIDDEN, HIDDEN)}
    return Module(call, front=front, out=nn.Linear(HIDDEN, CLASSES), **parts)


def paddle_lstm_recogniser():
    """Conv2D with strides over the height, the width as steps, bidirectional LSTM, as PP-OCR's CRNN"""

    def call(m, x):
        y = m.front(x).squeeze(axis=2).transpose([0, 2, 1])
        return functional.softmax(m.out(m.layer(y)[0]), axis=2)

    def block(before, behind):
        inner = nn.Conv2D(before, behind, 3, stride=(2, 1), padding=1, bias_attr=False), nn.BatchNorm2D(behind)
        return nn.Sequential(*inner, nn.Hardswish())

    front = nn.Sequential(block(3, 4), block(4, INPUT), nn.MaxPool2D((2, 1)))
    layer = nn.LSTM(INPUT, HIDDEN // 2, direction="bidirectional")
    return Module(call, front=front, layer=layer, out=nn.Linear(HIDDEN, CLASSES))


def paddle_lstm_interactive():
    """bidirectional LSTM, a sum of its steps by weights, whose parameters stand there once for each row"""

    def call(m, x):
        y, _ = m.layer(m.words(x))
        weight = m.weight.expand([paddle.shape(y)[0], HIDDEN, HIDDEN])
        hidden = functional.tanh(paddle.bmm(y, weight) + m.bias)
        scores = paddle.matmul(hidden, m.query).squeeze(-1)
        scores = scores + ((x != 0).astype("float32") - 1) * 1e9
        return m.out((y * functional.softmax(scores, -1).unsqueeze(-1)).sum(1))

    module = Module(
        call,
        words=nn.Embedding(WORDS, INPUT),
        layer=nn.LSTM(INPUT, HIDDEN // 2, direction="bidirect"),
        out=nn.Linear(HIDDEN, CLASSES),
    )
    for name, shape in ("weight", [1, HIDDEN, HIDDEN]), ("bias", [1, 1, HIDDEN]), ("query", [1, HIDDEN, 1]):
        module.add_parameter(name, module.create_parameter(shape))
    return module


def paddle_gru_encoder():
    """GRU, a TransformerEncoderLayer over its steps"""
    inner = nn.TransformerEncoderLayer(HIDDEN, 2, 12, dropout=0.0, activation="gelu")
    parts = {"layer": nn.GRU(INPUT, HIDDEN), "inner": inner, "out": nn.Linear(HIDDEN, CLASSES)}
    return Module(lambda m, x: m.out(m.inner(m.layer(x)[0])), **parts)


def paddle_gru_lengths():
    """GRU, the last step that each row has, by gather_nd(); half of how many these are"""

    def call(m, x, n):
        y, _ = m.layer(x)
        rows = paddle.arange(paddle.shape(x)[0], dtype="int64")
        return m.out(paddle.gather_nd(y, paddle.stack([rows, n - 1], axis=-1))), (n - 1) // 2

    return Measured(call, layer=nn.GRU(INPUT, HIDDEN), out=nn.Linear(HIDDEN, CLASSES))


def paddle_gru_positions():
    """Embedding of words and of positions, which are sums of ones less ones, as PaddleNLP has them; GRU"""

    def call(m, x):
        ones = paddle.ones_like(x)
        return m.out(m.layer(m.words(x) + m.places(paddle.cumsum(ones, axis=-1) - ones))[0])

    parts = {"words": nn.Embedding(WORDS, INPUT), "places": nn.Embedding(WORDS, INPUT)}
    return Module(call, layer=nn.GRU(INPUT, HIDDEN), out=nn.Linear(HIDDEN, CLASSES), **parts)


STATES = given("h", 1, "B", HIDDEN), given("c", 1, "B", HIDDEN)
IDS = (given("x", "B", "T", words=WORDS),)
MODELS = (
    (paddle_lstm_tagger, STEPS),
    (paddle_lstm_last, STEPS),
    (paddle_lstm_states, (given("x", "T", "B", INPUT), *STATES)),
    (paddle_gru_words, IDS),
    (paddle_gru_sensors, (given("x", "B", 3, "T"),)),
    (paddle_gru_speech, (given("x", "B", "T", 12),)),
    (paddle_lstm_recogniser, (given("x", "B", 3, 8, "T"),)),
    (paddle_lstm_interactive, IDS),
    (paddle_gru_encoder, STEPS),
    (paddle_gru_lengths, (*STEPS, given("n", "B", words=LENGTHS))),
    (paddle_gru_positions, IDS),
)


def randomise(module, generator):
    for name, value in module.state_dict().items():
        drawn = draw_weight(generator, value.shape)
        value.set_value(abs(drawn) + 0.5 if "_variance" in name else drawn)


def convert(module, specs, path):
    """The file; returns the names of its inputs and outputs."""
    inputs = []
    for spec in specs:
        shape = [None if isinstance(size, str) else size for size in spec["shape"]]
        inputs.append(paddle.static.InputSpec(shape, spec["dtype"], spec["name"]))
    with tempfile.TemporaryDirectory() as folder:
        paddle.jit.save(module, f"{folder}/m", input_spec=inputs)
        paddle2onnx.export(
            f"{folder}/m.json", f"{folder}/m.pdiparams", str(path), opset_version=OPSET, verbose=False
        )
    import onnx

    graph = onnx.load(path).graph
    return [value.name for value in graph.input], [value.name for value in graph.output]


def generate(make, specs, out, about):
    """One folder. Raises what the exporter raises."""
    generator = generator_of(make.__name__)
    module = make()
    module.eval()
    randomise(module, generator)
    names = convert(module, specs, out / "model.onnx")

    def call(*inputs):
        outputs = module(*map(paddle.to_tensor, inputs))
        return [value.numpy() for value in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]

    write_golden(out, about, make_cases(call, specs, names, generator))


def short(version):
    return ".".join(version.split(".")[:2])


if __name__ == "__main__":
    version = paddle.__version__
    about = {"torch": f"PaddlePaddle {version}", "exporter": f"paddle2onnx {paddle2onnx.__version__}"}
    about.update({"opset": OPSET, "constant_folding": True})
    run(__doc__, MODELS, f"pd{short(version)}-op{OPSET}", about, generate)
