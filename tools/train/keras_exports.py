#!/usr/bin/env python3
"""Writes into tests/data/onnx Keras models as tf2onnx makes ONNX files of them: one run under each
TensorFlow to be tried (2.15 has Keras 2, 2.16 and later Keras 3). Weights are random; the cases' outputs
are what Keras computes. Every file is run in onnxruntime before it is kept.

Needs tensorflow (or tensorflow-cpu), tf2onnx and onnxruntime.
"""

import argparse
import os
import pathlib
import shutil
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy
import tensorflow
import tf2onnx
from tensorflow import keras

from golden import CASES, TOLERANCE, difference, first_line, make_golden

layers = keras.layers
INPUT, HIDDEN, CLASSES, WORDS, STATED = 6, 8, 3, 20, 6
OPSET = 15
WEIGHT_MAX = 0.5
STEPS = (None, INPUT)


def chain(*behind, shape=STEPS, dtype="float32"):
    x = value = keras.Input(shape, dtype=dtype, name="x")
    for layer in behind:
        value = layer(value)
    return keras.Model(x, value)


def words(*behind, **options):
    return chain(layers.Embedding(WORDS, INPUT, **options), *behind, shape=(None,), dtype="int32")


def lstm_last():
    """LSTM, its last step, a softmax"""
    return chain(layers.LSTM(HIDDEN), layers.Dense(CLASSES, activation="softmax"))


def lstm_tagger():
    """LSTM with return_sequences, Dense over each step"""
    return chain(layers.LSTM(HIDDEN, return_sequences=True), layers.Dense(CLASSES))


def gru_last():
    """GRU as Keras makes it by default, reset after the product"""
    return chain(layers.GRU(HIDDEN), layers.Dense(CLASSES))


def gru_tagger():
    """GRU with return_sequences, Dense over each step"""
    return chain(layers.GRU(HIDDEN, return_sequences=True), layers.Dense(CLASSES))


def gru_before():
    """GRU(reset_after=False)"""
    return chain(layers.GRU(HIDDEN, reset_after=False), layers.Dense(CLASSES))


def rnn_tagger():
    """SimpleRNN with return_sequences"""
    return chain(layers.SimpleRNN(HIDDEN, return_sequences=True), layers.Dense(CLASSES))


def lstm_hard():
    """LSTM with relu, and the hard sigmoid of early Keras"""
    return chain(layers.LSTM(HIDDEN, activation="relu", recurrent_activation="hard_sigmoid"), layers.Dense(CLASSES))


def bidirectional_lstm():
    """Bidirectional(LSTM) over each step, a softmax"""
    inner = layers.LSTM(HIDDEN // 2, return_sequences=True)
    return chain(layers.Bidirectional(inner), layers.Dense(CLASSES, activation="softmax"))


def bidirectional_gru():
    """Bidirectional(GRU), the last step of each direction"""
    return chain(layers.Bidirectional(layers.GRU(HIDDEN // 2)), layers.Dense(CLASSES))


def bidirectional_rnn():
    """Bidirectional(SimpleRNN) over each step, summed"""
    inner = layers.SimpleRNN(HIDDEN, return_sequences=True)
    return chain(layers.Bidirectional(inner, merge_mode="sum"), layers.Dense(CLASSES))


def backwards():
    """LSTM(go_backwards=True), its last step"""
    return chain(layers.LSTM(HIDDEN, go_backwards=True), layers.Dense(CLASSES))


def stacked():
    """two LSTMs with Dropout between"""
    return chain(layers.LSTM(HIDDEN, return_sequences=True), layers.Dropout(0.2), layers.LSTM(5), layers.Dense(1))


def embedding():
    """Embedding of int32 ids, LSTM, sigmoid"""
    return words(layers.LSTM(HIDDEN), layers.Dense(2, activation="sigmoid"))


def embedding_masked():
    """Embedding(mask_zero=True), LSTM: steps of id 0 leave the state as it is"""
    return words(layers.LSTM(HIDDEN), layers.Dense(2, activation="sigmoid"), mask_zero=True)


def tagger_masked():
    """Embedding(mask_zero=True), Bidirectional(GRU) over each step"""
    inner = layers.GRU(HIDDEN // 2, return_sequences=True)
    return words(layers.Bidirectional(inner), layers.Dense(CLASSES, activation="softmax"), mask_zero=True)


def masking():
    """Masking: steps of zeros leave the GRU's state as it is"""
    return chain(layers.Masking(0.0), layers.GRU(HIDDEN), layers.Dense(2))


def conv():
    """causal Conv1D, a pool, LSTM"""
    front = layers.Conv1D(7, 3, padding="causal", activation="relu")
    return chain(front, layers.MaxPooling1D(1), layers.LSTM(HIDDEN), layers.Dense(2))


def conv_norm():
    """Conv1D, BatchNormalization, Bidirectional(GRU), GlobalAveragePooling1D"""
    inner = layers.GRU(HIDDEN // 2, return_sequences=True)
    front = (layers.Conv1D(7, 3, padding="same"), layers.BatchNormalization(), layers.ReLU())
    return chain(*front, layers.Bidirectional(inner), layers.GlobalAveragePooling1D(), layers.Dense(2))


def pooled():
    """LSTM, GlobalMaxPooling1D"""
    return chain(layers.LSTM(HIDDEN, return_sequences=True), layers.GlobalMaxPooling1D(), layers.Dense(CLASSES))


def attention():
    """LSTM, a weighted sum of its steps"""
    x = keras.Input(STEPS, name="x")
    h = layers.LSTM(HIDDEN, return_sequences=True)(x)
    weights = layers.Softmax(axis=1)(layers.Dense(1)(h))
    total = layers.Lambda(lambda pair: tensorflow.reduce_sum(pair[0] * pair[1], axis=1), output_shape=(HIDDEN,))
    return keras.Model(x, layers.Dense(CLASSES)(total([h, weights])))


def states():
    """LSTM(return_state=True) with initial_state: states in and out"""
    x, h, c = keras.Input(STEPS, name="x"), keras.Input((HIDDEN,), name="h"), keras.Input((HIDDEN,), name="c")
    y, hn, cn = layers.LSTM(HIDDEN, return_sequences=True, return_state=True)(x, initial_state=[h, c])
    return keras.Model([x, h, c], [layers.Dense(CLASSES)(y), hn, cn])


def fixed():
    """two LSTMs over a number of steps that the file states"""
    lower = layers.LSTM(HIDDEN, return_sequences=True)
    return chain(lower, layers.LSTM(HIDDEN), layers.Dense(1), shape=(4, INPUT))


def autoencoder():
    """GRU, RepeatVector of as many steps as there were, GRU over each step"""
    inner = (layers.GRU(HIDDEN), layers.RepeatVector(4), layers.GRU(HIDDEN, return_sequences=True))
    return chain(*inner, layers.Dense(INPUT), shape=(4, INPUT))


def forecast():
    """two inputs; LSTM, RepeatVector of other numbers of steps, LSTM that begins with the states of the first"""
    x, embedded = keras.Input((4, INPUT), name="x"), keras.Input((4,), dtype="int32", name="ids")
    both = layers.Concatenate()([x, layers.Embedding(WORDS, 3)(embedded)])
    _, h, c = layers.LSTM(HIDDEN, return_state=True)(both)
    less = layers.LSTM(HIDDEN, return_sequences=True)(layers.RepeatVector(3)(h), initial_state=[h, c])
    more = layers.SimpleRNN(HIDDEN, return_sequences=True)(layers.RepeatVector(7)(h))
    return keras.Model([x, embedded], [layers.Dense(1)(less), layers.Dense(1)(more)])


def cells():
    """RNN of two cells, one above the other, at each step"""
    return chain(layers.RNN([layers.LSTMCell(HIDDEN), layers.GRUCell(5)]), layers.Dense(CLASSES))


def direction_states():
    """Bidirectional(LSTM(return_state=True)): each step, and both last h side by side"""
    x = keras.Input(STEPS, name="x")
    inner = layers.LSTM(4, return_sequences=True, return_state=True)
    y, forward, _, backward, _ = layers.Bidirectional(inner)(x)
    return keras.Model(x, [layers.Dense(2)(y), layers.Concatenate()([forward, backward])])


def activations():
    """GRU, layers with selu, swish, softplus and elu"""
    behind = [layers.Dense(5, activation=name) for name in ("selu", "swish", "softplus", "elu")]
    return chain(layers.GRU(HIDDEN), *behind, layers.Dense(CLASSES))


def norm():
    """LayerNormalization over each step, between two LSTMs, and over the last one"""
    front = (layers.LSTM(HIDDEN, return_sequences=True), layers.LayerNormalization(), layers.LSTM(5))
    return chain(*front, layers.LayerNormalization(), layers.Dense(CLASSES))


def windows():
    """TimeDistributed convolutions and pools within each step, flattened, an LSTM: a CNN-LSTM"""
    inner = (
        layers.Conv1D(4, 3, activation="relu"),
        layers.Conv1D(5, 3, padding="same", strides=2),
        layers.AveragePooling1D(2),
        layers.MaxPooling1D(2, strides=1),
        layers.Flatten(),
    )
    return chain(*map(layers.TimeDistributed, inner), layers.LSTM(HIDDEN), layers.Dense(2), shape=(None, 14, 2))


def conv_lstm():
    """ConvLSTM1D over each step"""
    inner = layers.ConvLSTM1D(3, 3, padding="same", return_sequences=True)
    return chain(inner, layers.Reshape((-1, 15)), layers.Dense(2), shape=(None, 5, 2))


def conv_lstm_2d():
    """ConvLSTM2D over frames [7, 6, 2], two of them, the second without padding"""
    inner = layers.ConvLSTM2D(2, 3, padding="same", return_sequences=True), layers.ConvLSTM2D(2, 3)
    return chain(*inner, layers.Flatten(), layers.Dense(2), shape=(None, 7, 6, 2))


def frames():
    """TimeDistributed around Conv2D and MaxPooling2D, of a stated number of frames; an LSTM over them"""
    inner = layers.Conv2D(3, 3, padding="same", activation="relu"), layers.MaxPooling2D(2), layers.Flatten()
    return chain(*map(layers.TimeDistributed, inner), layers.LSTM(HIDDEN), layers.Dense(2), shape=(4, 7, 6, 2))


def attends(attend, shape=STEPS):
    """An LSTM, what attends to its own steps, a Dense over each step."""
    x = keras.Input(shape, name="x")
    return keras.Model(x, layers.Dense(CLASSES)(attend(layers.LSTM(HIDDEN, return_sequences=True)(x))))


def own_products():
    """Attention of an LSTM's steps over themselves"""
    return attends(lambda h: layers.Attention()([h, h]))


def own_additive():
    """AdditiveAttention of an LSTM's steps over themselves"""
    return attends(lambda h: layers.AdditiveAttention()([h, h]))


def own_heads():
    """MultiHeadAttention of an LSTM's steps over themselves, a shortcut, LayerNormalization"""
    return attends(lambda h: layers.LayerNormalization()(h + layers.MultiHeadAttention(2, HIDDEN // 2)(h, h)))


def own_heads_stated():
    """MultiHeadAttention over a stated number of steps"""
    return attends(lambda h: layers.MultiHeadAttention(2, HIDDEN // 2)(h, h), (STATED, INPUT))


def flat():
    """Flatten of a stated number of steps"""
    return chain(layers.GRU(HIDDEN, return_sequences=True), layers.Flatten(), layers.Dense(CLASSES), shape=(STATED, INPUT))


def tail():
    """the last 3 steps of a stated number, and one by its number"""
    x = keras.Input((STATED, INPUT), name="x")
    steps = layers.GRU(HIDDEN, return_sequences=True)(x)
    then = layers.LSTM(HIDDEN, return_sequences=True)(steps[:, -3:])
    return keras.Model(x, [layers.Dense(CLASSES)(then), layers.Dense(CLASSES)(steps[:, 2])])


def each_apart():
    """TimeDistributed(Dense) over a stated number of steps, which Keras 3 writes one by one"""
    return chain(
        layers.LSTM(HIDDEN, return_sequences=True), layers.TimeDistributed(layers.Dense(CLASSES)), shape=(STATED, INPUT)
    )


def float_words():
    """Embedding of words that are given as floats, as a Sequential model's are"""
    return chain(layers.Embedding(WORDS, INPUT), layers.LSTM(HIDDEN), layers.Dense(CLASSES), shape=(None,))


MODELS = (
    (lstm_last, lstm_tagger, gru_last, gru_tagger, gru_before, rnn_tagger, lstm_hard)
    + (bidirectional_lstm, bidirectional_gru, bidirectional_rnn, backwards, stacked)
    + (embedding, embedding_masked, tagger_masked, masking)
    + (conv, conv_norm, pooled, attention, states, fixed)
    + (autoencoder, forecast, cells, direction_states, activations, norm)
    + (conv_lstm, conv_lstm_2d, frames, own_products, own_additive, own_heads, own_heads_stated, flat, tail, float_words)
    + (each_apart,)
    # Of TimeDistributed in Keras 3 tf2onnx makes a Loop over the batch, which is not served.
    + ((windows,) if tensorflow.__version__ < "2.16" else ())
)


def tensor(name, value):
    flat = value.flatten()
    data = flat.tolist() if value.dtype.kind == "i" else [float(str(v)) for v in flat]
    return {"name": name, "dtype": str(value.dtype), "shape": list(value.shape), "data": data}


def randomise(model, generator):
    for layer in model.weights:
        value = generator.uniform(-WEIGHT_MAX, WEIGHT_MAX, layer.shape).astype("float32")
        layer.assign(numpy.abs(value) if "variance" in layer.name else value)


def make_input(given, batch, time, generator, is_masked):
    """Eighths, which every format writes exactly; of a masked model some steps are zeros."""
    shape = [batch] + [time if size is None else size for size in given.shape[1:]]
    if "int" in str(given.dtype):
        return generator.integers(0 if is_masked else 1, WORDS, shape).astype("int32")
    if given.shape[1:] == (None,): # ids as floats
        return generator.integers(0, WORDS, shape).astype("float32")
    value = (generator.integers(-8, 9, shape) / 8).astype("float32")
    if is_masked:
        value *= generator.integers(0, 2, shape[:-1] + [1]).astype("float32")
    return value


def make_cases(make, model, output_names, generator):
    is_masked = "mask" in make.__name__
    cases = []
    for batch, time in CASES:
        inputs = [make_input(given, batch, time, generator, is_masked) for given in model.inputs]
        outputs = model(inputs if len(inputs) > 1 else inputs[0])
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        named = zip([given.name.split(":")[0] for given in model.inputs], inputs)
        cases.append(
            {
                "inputs": [tensor(name, value) for name, value in named],
                "outputs": [tensor(name, value.numpy()) for name, value in zip(output_names, outputs)],
            }
        )
    return cases


def convert(model, path):
    """The file, by the way that serves both Kerases; returns the outputs' names."""
    given = [tensorflow.TensorSpec(i.shape, i.dtype, name=i.name.split(":")[0]) for i in model.inputs]
    call = tensorflow.function(lambda *x: model(list(x) if len(x) > 1 else x[0]), input_signature=given)
    proto, _ = tf2onnx.convert.from_function(call, input_signature=given, opset=OPSET, output_path=str(path))
    return [output.name for output in proto.graph.output]


def generate(make, out, about):
    """One folder. Raises what the converter raises."""
    generator = numpy.random.default_rng(zlib.crc32(b"keras " + make.__name__.encode()))
    keras.backend.clear_session()
    model = make()
    randomise(model, generator)
    names = convert(model, out / "model.onnx")
    cases = make_cases(make, model, names, generator)
    checked = difference(out / "model.onnx", cases)
    if checked[0] > TOLERANCE:
        raise ValueError(f"outputs differ from onnxruntime's by {checked[0]:.2g}")
    about = {"module": f"keras_{make.__name__}", "what": make.__doc__, **about}
    (out / "golden.json").write_text(make_golden(about, checked, cases))


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/onnx")
    parser.add_argument("--only", nargs="*", help="generate these models alone")
    options = parser.parse_args()
    version = ".".join(tensorflow.__version__.split(".")[:2])
    about = {"torch": f"TensorFlow {tensorflow.__version__}", "exporter": f"tf2onnx {tf2onnx.__version__}"}
    about.update({"opset": OPSET, "constant_folding": True})
    for make in MODELS:
        if options.only and make.__name__ not in options.only:
            continue
        folder = options.out / f"keras_{make.__name__}-tf{version}-op{OPSET}"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            generate(make, folder, about)
        except Exception as error:  # any failure of the converter is a finding, not ours to sort
            shutil.rmtree(folder)
            print(f"{folder.name}: left out: {first_line(error)}")
            continue
        print(folder.name)


if __name__ == "__main__":
    main()
