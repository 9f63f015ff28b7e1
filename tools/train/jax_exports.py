#!/usr/bin/env python3
"""Writes into tests/data/onnx functions of JAX as jax2onnx makes ONNX files of them: cells of flax (nnx and
linen) and equinox, or written out, in jax.lax.scan. Weights are random; the cases' outputs are what JAX
computes. Every file is run in onnxruntime before it is kept.

Needs jax, flax, equinox, jax2onnx and onnxruntime.
"""

import importlib.metadata

import equinox
import flax.linen
import jax
import onnx
from flax import nnx
from jax import numpy
from jax2onnx import to_onnx

from framework_exports import CLASSES, HIDDEN, INPUT, LENGTHS, WORDS
from framework_exports import draw_weight, generator_of, given, make_cases, run, write_golden

OPSET = 21
STEPS = (given("x", "B", "T", INPUT),)


def zeros(x):
    """A state for each row of x, which has steps first."""
    return numpy.zeros((x.shape[1], HIDDEN))


def over_steps(cell, first, x, is_backwards=False):
    """The last state, and what the cell gives at each step of x, whose rows come first."""
    x = numpy.swapaxes(x, 0, 1)
    last, y = jax.lax.scan(cell, first(x), numpy.flip(x, 0) if is_backwards else x)
    return last, numpy.swapaxes(numpy.flip(y, 0) if is_backwards else y, 0, 1)


def pair(x):
    return zeros(x), zeros(x)


def keys_of(generator):
    return nnx.Rngs(int(generator.integers(1 << 31)))


def drawn(generator, *shape):
    return numpy.asarray(draw_weight(generator, shape))


def jax_lstm_apart(generator):
    """nnx.LSTMCell, a product for each gate; Linear over each step"""
    keys = keys_of(generator)
    cell, out = nnx.LSTMCell(INPUT, HIDDEN, rngs=keys), nnx.Linear(HIDDEN, CLASSES, rngs=keys)
    return lambda x: out(over_steps(cell, pair, x)[1])


def jax_lstm_optimised(generator):
    """nnx.OptimizedLSTMCell, states in and out"""
    keys = keys_of(generator)
    cell, out = nnx.OptimizedLSTMCell(INPUT, HIDDEN, rngs=keys), nnx.Linear(HIDDEN, CLASSES, rngs=keys)

    def call(x, c, h):
        (c, h), y = over_steps(cell, lambda _: (c, h), x)
        return out(y), c, h

    return call


def jax_gru_tagger(generator):
    """nnx.Embed, nnx.GRUCell in both directions, a softmax over each step"""
    keys = keys_of(generator)
    words, out = nnx.Embed(WORDS, INPUT, rngs=keys), nnx.Linear(2 * HIDDEN, CLASSES, rngs=keys)
    cells = [nnx.GRUCell(INPUT, HIDDEN, rngs=keys) for _ in range(2)]

    def call(x):
        y = [over_steps(cell, zeros, words(x), is_backwards=i > 0)[1] for i, cell in enumerate(cells)]
        return jax.nn.softmax(out(numpy.concatenate(y, -1)), -1)

    return call


def jax_gru_indexed(generator):
    """table[ids], nnx.GRUCell"""
    cell, table = nnx.GRUCell(INPUT, HIDDEN, rngs=keys_of(generator)), drawn(generator, WORDS, INPUT)
    return lambda x: over_steps(cell, zeros, table[x])[1]


def jax_gru_linen(generator):
    """flax.linen.GRUCell, the last state"""
    cell = flax.linen.GRUCell(HIDDEN)
    params = cell.init(jax.random.key(0), numpy.zeros((1, HIDDEN)), numpy.zeros((1, INPUT)))
    return lambda x: over_steps(lambda h, x: cell.apply(params, h, x), zeros, x)[0]


def jax_gru_masked(generator):
    """nnx.GRUCell whose state stays where a mask says so"""
    keys = keys_of(generator)
    cell = nnx.GRUCell(INPUT, HIDDEN, rngs=keys)

    def step(h, given):
        x, mask = given
        h = numpy.where(mask[:, None] > 0, cell(h, x)[0], h)
        return h, h

    def call(x, mask):
        x = numpy.swapaxes(x, 0, 1)
        return jax.lax.scan(step, zeros(x), (x, numpy.swapaxes(mask, 0, 1)))[0]

    return call


def equinox_steps(cell, first, x):
    """The last state, and h at each step of one row."""

    def step(state, x):
        state = cell(x, state)
        return state, state[0] if isinstance(state, tuple) else state

    return jax.lax.scan(step, first, x)


def jax_lstm_equinox(generator):
    """equinox.nn.LSTMCell by jax.vmap over the rows, the last h"""
    keys = jax.random.split(jax.random.key(0))
    cell, out = equinox.nn.LSTMCell(INPUT, HIDDEN, key=keys[0]), equinox.nn.Linear(HIDDEN, CLASSES, key=keys[1])
    first = numpy.zeros(HIDDEN), numpy.zeros(HIDDEN)
    return jax.vmap(lambda x: out(equinox_steps(cell, first, x)[0][0]))


def jax_gru_lone(generator):
    """equinox.nn.GRUCell over one sequence, without a batch"""
    keys = jax.random.split(jax.random.key(0))
    cell, out = equinox.nn.GRUCell(INPUT, HIDDEN, key=keys[0]), equinox.nn.Linear(HIDDEN, CLASSES, key=keys[1])
    return lambda x: jax.vmap(out)(equinox_steps(cell, numpy.zeros(HIDDEN), x)[1])


def jax_lstm_attended(generator):
    """nnx.LSTMCell, nnx.Conv before it, a sum of its steps by weights behind it"""
    keys = keys_of(generator)
    front = nnx.Conv(INPUT, INPUT, (3,), rngs=keys)
    cell = nnx.OptimizedLSTMCell(INPUT, HIDDEN, rngs=keys)
    scores, out = nnx.Linear(HIDDEN, 1, rngs=keys), nnx.Linear(HIDDEN, CLASSES, rngs=keys)

    def call(x):
        _, y = over_steps(cell, pair, nnx.relu(front(x)))
        return out(numpy.sum(y * jax.nn.softmax(scores(numpy.tanh(y)), axis=1), axis=1))

    return call


def jax_gru_scaled(generator):
    """jax.nn.gelu, nnx.GRUCell, nnx.RMSNorm over each step"""
    keys = keys_of(generator)
    front, cell = nnx.Linear(INPUT, INPUT, rngs=keys), nnx.GRUCell(INPUT, HIDDEN, rngs=keys)
    norm, out = nnx.RMSNorm(HIDDEN, rngs=keys), nnx.Linear(HIDDEN, CLASSES, rngs=keys)
    return lambda x: out(norm(over_steps(cell, zeros, jax.nn.gelu(front(x)))[1]))


def jax_gru_ended(generator):
    """nnx.GRUCell, the last valid step of each row by numpy.take_along_axis()"""
    keys = keys_of(generator)
    cell, out = nnx.GRUCell(INPUT, HIDDEN, rngs=keys), nnx.Linear(HIDDEN, CLASSES, rngs=keys)

    def call(x, used):
        _, y = over_steps(cell, zeros, x)
        return out(numpy.take_along_axis(y, (used - 1)[:, None, None], axis=1)[:, 0])

    return call


def jax_gru_normed(generator):
    """equinox.nn.GRUCell, equinox.nn.LayerNorm behind each step"""
    keys = jax.random.split(jax.random.key(0))
    cell, norm = equinox.nn.GRUCell(INPUT, HIDDEN, key=keys[0]), equinox.nn.LayerNorm(HIDDEN)
    return jax.vmap(lambda x: jax.vmap(norm)(equinox_steps(cell, numpy.zeros(HIDDEN), x)[1]))


def jax_rnn_plain(generator):
    """tanh(x W + h U + b) as a function"""
    weights = [drawn(generator, *shape) for shape in ((INPUT, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN,))]

    def step(h, x):
        h = numpy.tanh(x @ weights[0] + h @ weights[1] + weights[2])
        return h, h

    return lambda x: over_steps(step, zeros, x)[1]


def jax_scan_norm(generator):
    """an LSTM whose gates are normalised by jax.numpy.var()"""
    weights = drawn(generator, INPUT + HIDDEN, 4 * HIDDEN)

    def step(state, x):
        c, h = state
        gates = numpy.concatenate([x, h], -1) @ weights
        spread = numpy.sqrt(gates.var(-1, keepdims=True) + 1e-5)
        i, f, g, o = numpy.split((gates - gates.mean(-1, keepdims=True)) / spread, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * numpy.tanh(g)
        h = jax.nn.sigmoid(o) * numpy.tanh(c)
        return (c, h), h

    return lambda x: over_steps(step, pair, x)[1]


IDS = (given("x", "B", "T", words=WORDS, integers="int32"),)
STATES = given("c", "B", HIDDEN), given("h", "B", HIDDEN)
MODELS = (
    (jax_lstm_apart, STEPS),
    (jax_lstm_optimised, STEPS + STATES),
    (jax_gru_tagger, IDS),
    (jax_gru_indexed, IDS),
    (jax_gru_linen, STEPS),
    (jax_gru_masked, (*STEPS, given("mask", "B", "T", words=2, integers="int32"))),
    (jax_lstm_equinox, STEPS),
    (jax_gru_lone, (given("x", "T", INPUT),)),
    (jax_lstm_attended, STEPS),
    (jax_gru_scaled, STEPS),
    (jax_gru_ended, (*STEPS, given("used", "B", words=LENGTHS, integers="int32"))),
    (jax_gru_normed, STEPS),
    (jax_rnn_plain, STEPS),
    (jax_scan_norm, STEPS),
)


def generate(make, specs, out, about):
    """One folder. Raises what the exporter raises."""
    generator = generator_of(make.__name__)
    function = make(generator)
    scope = jax.export.SymbolicScope()
    shapes = []
    for spec in specs:
        shape = jax.export.symbolic_shape(",".join(map(str, spec["shape"])), scope=scope)
        shapes.append(jax.ShapeDtypeStruct(shape, spec["dtype"]))
    model = to_onnx(function, shapes, opset=OPSET, input_names=[spec["name"] for spec in specs])
    onnx.save(model, out / "model.onnx")
    names = [value.name for value in model.graph.input], [value.name for value in model.graph.output]
    cases = make_cases(lambda *x: jax.tree.leaves(function(*map(numpy.asarray, x))), specs, names, generator)
    write_golden(out, about, cases)


if __name__ == "__main__":
    exporter = importlib.metadata.version("jax2onnx")
    about = {"torch": f"JAX {jax.__version__}", "exporter": f"jax2onnx {exporter}"}
    about.update({"opset": OPSET, "constant_folding": True})
    run(__doc__, MODELS, f"jx{'.'.join(exporter.split('.')[:2])}-op{OPSET}", about, generate)
