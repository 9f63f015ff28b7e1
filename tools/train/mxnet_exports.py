#!/usr/bin/env python3
"""Writes into tests/data/onnx blocks of MXNet's gluon as its exporter makes ONNX files of them. Weights are
random; the cases' outputs are what MXNet computes. Every file is run in onnxruntime before it is kept.

Needs mxnet 1.9, numpy before 1.24, onnx and onnxruntime. The exporter writes operators of opset 13 under the
number of onnx's newest; so that has to be 13 here.
"""

import tempfile

import numpy
import onnx.defs

numpy.bool = bool  # what MXNet still asks for
OPSET = 13
onnx.defs.onnx_opset_version = lambda: OPSET

import mxnet
from mxnet import gluon
from mxnet.gluon import nn, rnn

from framework_exports import CLASSES, HIDDEN, INPUT, WORDS
from framework_exports import draw_weight, generator_of, given, make_cases, run, write_golden


class Block(gluon.HybridBlock):
    """A block of these parts, and a function of it, of MXNet's operators and of its inputs."""

    def __init__(self, call, **parts):
        super().__init__()
        self.call = call
        for name, part in parts.items():
            setattr(self, name, part)

    def hybrid_forward(self, F, *inputs):
        return self.call(self, F, *inputs)


def dense(units=CLASSES):
    return nn.Dense(units, flatten=False)


def mxnet_lstm_tagger():
    """LSTM of steps first, Dense over each step"""
    return Block(lambda b, F, x: b.out(b.layer(x)), layer=rnn.LSTM(HIDDEN), out=dense())


def mxnet_lstm_two():
    """two LSTMs of rows first, the last step"""
    return Block(
        lambda b, F, x: b.out(F.slice_axis(b.layer(x), axis=1, begin=-1, end=None).reshape((-1, HIDDEN))),
        layer=rnn.LSTM(HIDDEN, 2, layout="NTC"),
        out=nn.Dense(CLASSES),
    )


def mxnet_lstm_words():
    """Embedding, bidirectional LSTM of rows first, a logarithm of a softmax"""
    return Block(
        lambda b, F, x: F.log_softmax(b.out(b.layer(b.words(x))), axis=-1),
        words=nn.Embedding(WORDS, INPUT),
        layer=rnn.LSTM(HIDDEN // 2, layout="NTC", bidirectional=True),
        out=dense(),
    )


def mxnet_lstm_states():
    """LSTM with states in and out"""

    def call(b, F, x, h, c):
        y, (h, c) = b.layer(x, [h, c])
        return b.out(y), h, c

    return Block(call, layer=rnn.LSTM(HIDDEN), out=dense())


def mxnet_lstm_recogniser():
    """Conv2D, BatchNorm and pools over the height, the width as steps, bidirectional LSTM"""
    front = nn.HybridSequential()
    front.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D((2, 1), (2, 1)))
    front.add(nn.Conv2D(INPUT, 3, padding=1), nn.LeakyReLU(0.1), nn.MaxPool2D((4, 1), (4, 1)))
    return Block(
        lambda b, F, x: b.out(b.layer(F.transpose(F.squeeze(b.front(x), axis=2), axes=(2, 0, 1)))),
        front=front,
        layer=rnn.LSTM(HIDDEN // 2, bidirectional=True),
        out=dense(),
    )


def mxnet_lstm_weighed():
    """bidirectional LSTM, a sum of its steps by weights"""

    def call(b, F, x):
        y = b.layer(x)
        return b.out(F.sum(F.broadcast_mul(y, F.softmax(b.scores(F.tanh(y)), axis=1)), axis=1))

    layer = rnn.LSTM(HIDDEN // 2, layout="NTC", bidirectional=True)
    return Block(call, layer=layer, scores=dense(1), out=nn.Dense(CLASSES))


def mxnet_gru_two():
    """two GRUs, batch and steps swapped behind them"""
    return Block(lambda b, F, x: F.swapaxes(b.out(b.layer(x)), 0, 1), layer=rnn.GRU(HIDDEN, 2), out=dense())


def mxnet_rnn_relu():
    """RNN as it is by default, with relu"""
    return Block(lambda b, F, x: b.out(b.layer(x)), layer=rnn.RNN(HIDDEN), out=dense())


def first(name, size):
    return (given(name, "T", "B", size),)


# Of several layers the exporter takes the input to be as wide as the states.
MODELS = (
    (mxnet_lstm_tagger, first("data", INPUT)),
    (mxnet_lstm_two, (given("data", "B", "T", HIDDEN),)),
    (mxnet_lstm_words, (given("data", "B", "T", words=WORDS),)),
    (
        mxnet_lstm_states,
        (*first("data0", INPUT), given("data1", 1, "B", HIDDEN), given("data2", 1, "B", HIDDEN)),
    ),
    (mxnet_lstm_recogniser, (given("data", "B", 1, 8, "T"),)),
    (mxnet_lstm_weighed, (given("data", "B", "T", INPUT),)),
    (mxnet_gru_two, first("data", HIDDEN)),
    (mxnet_rnn_relu, first("data", INPUT)),
)


def arrays(inputs):
    return [mxnet.nd.array(value, dtype=value.dtype) for value in inputs]


def generate(make, specs, out, about):
    """One folder. Raises what the exporter raises."""
    generator = generator_of(make.__name__)
    block = make()
    block.initialize()
    block.hybridize()

    def call(*inputs):
        outputs = block(*arrays(inputs))
        return [value.asnumpy() for value in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]

    make_cases(call, specs, ([], []), generator)  # shapes of weights follow from inputs
    for name, value in block.collect_params().items():
        drawn = draw_weight(generator, value.shape)
        value.set_data(mxnet.nd.array(abs(drawn) + 0.5 if "running_var" in name else drawn))
    with tempfile.TemporaryDirectory() as folder:
        block.export(f"{folder}/m")
        shapes = [[{"B": 2, "T": 4}.get(size, size) for size in spec["shape"]] for spec in specs]
        mxnet.onnx.export_model(
            f"{folder}/m-symbol.json",
            f"{folder}/m-0000.params",
            list(map(tuple, shapes)),
            [numpy.dtype(spec["dtype"]).type for spec in specs],
            str(out / "model.onnx"),
            dynamic=True,
            dynamic_input_shapes=[
                tuple(None if isinstance(size, str) else size for size in spec["shape"]) for spec in specs
            ],
        )
        outputs = [name.removesuffix("_output") for name in mxnet.sym.load(f"{folder}/m-symbol.json").list_outputs()]
    # The file has outputs in another order than the block, and calls states by their numbers.
    for number, state in enumerate(("_state", "_statecell"), 1):
        outputs = [name.removesuffix(state) + str(number) if name.endswith(state) else name for name in outputs]
    names = [spec["name"] for spec in specs], outputs
    write_golden(out, about, make_cases(call, specs, names, generator))


if __name__ == "__main__":
    about = {"torch": f"MXNet {mxnet.__version__}", "exporter": f"mxnet.onnx of {mxnet.__version__}"}
    about.update({"opset": OPSET, "constant_folding": False})
    run(__doc__, MODELS, f"mx{'.'.join(mxnet.__version__.split('.')[:2])}-op{OPSET}", about, generate)
