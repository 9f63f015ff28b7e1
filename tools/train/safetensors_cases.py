"""Small models of named layers as safetensors, and what they must answer: tests/data/safetensors.

    python3 tools/train/safetensors_cases.py

Needs PyTorch and numpy; neither Keras nor the safetensors package. What PyTorch's modules answer comes from
PyTorch. What Keras' layers answer comes from their equations, written out below in numpy from the
documentation and the source of Keras 3 (keras.io/api/layers/recurrent_layers, keras/src/layers/rnn/lstm.py,
gru.py, simple_rnn.py, bidirectional.py; layers/normalization/layer_normalization.py). Everything is seeded:
a second run writes the same bytes.
"""
import json
import pathlib
import struct

import numpy as np
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/safetensors"
INPUT, HIDDEN, CLASSES, WORDS = 6, 8, 3, 20
SHAPES = [(1, 1), (2, 4), (3, 7)]  # batch and time of the cases


# ---- The format --------------------------------------------------------------------------------------------


def raw(tensor):
    """dtype, shape and bytes of a torch or numpy array."""
    if isinstance(tensor, np.ndarray):
        tensor = torch.from_numpy(np.ascontiguousarray(tensor, np.float32))
    names = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
    values = tensor.detach().contiguous()
    plain = values.view(torch.int16) if values.dtype == torch.bfloat16 else values
    return names[tensor.dtype], list(tensor.shape), plain.numpy().tobytes()


def save(path, tensors, metadata=None, align=8):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name in sorted(tensors):
        dtype, shape, content = raw(tensors[name])
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * ((1 if align == 1 and len(text) % 2 == 0 else 0) or -len(text) % align)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def numbers(array):
    """In the fewest digits that give the same float32 back."""
    array = np.asarray(array)
    if array.dtype.kind == "i":
        return [int(x) for x in array.ravel()]
    return [float(str(x)) for x in array.astype(np.float32).ravel()]


def write(name, layers, tensors, cases, **how):
    """cases: pairs of input and output."""
    folder = ROOT / name
    save(folder / "1/model.safetensors", tensors, **how)
    (folder / "config.yaml").write_text(f"layers: [{', '.join(layers)}]\n")
    listed = []
    for given, wanted in cases:
        listed.append({"inputs": {"input": {"shape": list(given.shape), "data": numbers(given)}},
                       "outputs": {"output": {"shape": list(wanted.shape), "data": numbers(wanted)}}})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in listed)
    (folder / "golden.json").write_text('{"cases": [\n' + lines + "\n]}\n")


def inputs(of_ids, seed=5):
    rng = np.random.default_rng(seed)
    for batch, time in SHAPES:
        yield (rng.integers(0, WORDS, (batch, time)) if of_ids
               else rng.standard_normal((batch, time, INPUT)).astype(np.float32))


# ---- PyTorch -----------------------------------------------------------------------------------------------


class Net(nn.Module):
    """Layers by name, and a function that runs them."""

    def __init__(self, run, **layers):
        super().__init__()
        self.run = run
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x):
        return self.run(self, x)


def last(state):
    """Of both directions side by side, as in torch.cat([h[-2], h[-1]], 1), or of the only one."""
    h = state[0] if isinstance(state, tuple) else state
    return h


def torch_case(name, layers, module, of_ids=True, dtype=torch.float32, **how):
    module = module.eval()
    with torch.no_grad():
        for parameter in module.parameters():  # as wide as a gate's curve
            parameter.copy_((parameter * 2).to(dtype).to(torch.float32))
        cases = [(x, module(torch.from_numpy(x)).numpy()) for x in inputs(of_ids)]
    tensors = {key: value.to(dtype) for key, value in module.state_dict().items()}
    write(name, layers, tensors, cases, **{"metadata": {"format": "pt"}, **how})


def recurrent(kind, width, layers=1, both=False, **more):
    return kind(width, HIDDEN, num_layers=layers, bidirectional=both, batch_first=True, **more)


def embedding():
    return nn.Embedding(WORDS, INPUT)


def torch_lstms():
    def classify(net, x):
        _, (h, _) = net.rnn(net.embed(x))
        return torch.log_softmax(net.fc(h[-1]), -1)

    layers = ["embedding:embed", "lstm:rnn", "last", "linear:fc", "log_softmax"]
    for name, dtype in (("lstm_last", torch.float32), ("lstm_last_f16", torch.float16),
                        ("lstm_last_bf16", torch.bfloat16)):
        torch.manual_seed(1)
        torch_case(name, layers, Net(classify, embed=embedding(), rnn=recurrent(nn.LSTM, INPUT),
                                     fc=nn.Linear(HIDDEN, CLASSES)), dtype=dtype)
    torch_case("lstm_unaligned", layers, Net(classify, embed=embedding(), rnn=recurrent(nn.LSTM, INPUT),
                                             fc=nn.Linear(HIDDEN, CLASSES)), align=1)
    torch_case("lstm_tagger", ["embedding:embed", "lstm:encoder.rnn", "linear:fc", "softmax"],
               Net(lambda net, x: torch.softmax(net.fc(net.encoder.rnn(net.embed(x))[0]), -1),
                   embed=embedding(), encoder=Net(None, rnn=recurrent(nn.LSTM, INPUT, 2, True)),
                   fc=nn.Linear(2 * HIDDEN, CLASSES)))
    torch_case("lstm_bidirectional_last", ["lstm:rnn", "last", "linear:fc"],
               Net(lambda net, x: net.fc(torch.cat(list(net.rnn(x)[1][0][-2:]), 1)),
                   rnn=recurrent(nn.LSTM, INPUT, 2, True), fc=nn.Linear(2 * HIDDEN, CLASSES)), of_ids=False)
    torch_case("lstm_no_bias", ["lstm:rnn"],
               Net(lambda net, x: net.rnn(x)[0], rnn=recurrent(nn.LSTM, INPUT, bias=False)), of_ids=False)
    torch_case("lstm_projected", ["embedding:embed", "lstm:rnn", "linear:fc"],
               Net(lambda net, x: net.fc(net.rnn(net.embed(x))[0]), embed=embedding(),
                   rnn=recurrent(nn.LSTM, INPUT, 2, proj_size=5), fc=nn.Linear(5, CLASSES)))
    torch_case("lstm_projected_bidirectional", ["lstm:rnn", "last", "linear:fc"],
               Net(lambda net, x: net.fc(torch.cat(list(net.rnn(x)[1][0][-2:]), 1)),
                   rnn=recurrent(nn.LSTM, INPUT, 2, True, proj_size=5, bias=False),
                   fc=nn.Linear(10, CLASSES)), of_ids=False)
    tied = nn.Linear(HIDDEN, WORDS, bias=False)
    table = nn.Embedding(WORDS, HIDDEN)
    tied.weight = table.weight
    net = Net(lambda net, x: torch.nn.functional.linear(net.rnn(net.embed(x))[0], net.embed.weight),
              embed=table, rnn=recurrent(nn.LSTM, HIDDEN))
    torch_case("lstm_tied", ["embedding:embed", "lstm:rnn", "linear:embed"], net)


def torch_others():
    torch.manual_seed(2)
    torch_case("gru_mean", ["embedding:embed", "gru:rnn", "mean", "linear:fc", "sigmoid"],
               Net(lambda net, x: torch.sigmoid(net.fc(net.rnn(net.embed(x))[0].mean(1))),
                   embed=embedding(), rnn=recurrent(nn.GRU, INPUT, 2), fc=nn.Linear(HIDDEN, CLASSES)))
    torch_case("gru_bidirectional_max", ["gru:rnn", "max", "linear:fc"],
               Net(lambda net, x: net.fc(net.rnn(x)[0].max(1).values),
                   rnn=recurrent(nn.GRU, INPUT, 1, True), fc=nn.Linear(2 * HIDDEN, CLASSES)), of_ids=False)
    torch_case("rnn_bare", ["rnn"], BareRnn(INPUT, HIDDEN, batch_first=True), of_ids=False)
    torch_case("rnn_relu_last", ["embedding:0", "rnn_relu:1", "last", "linear:2"],
               Net(lambda net, x: net.get_submodule("2")(torch.cat(list(
                   net.get_submodule("1")(net.get_submodule("0")(x))[1][-2:]), 1)),
                   **{"0": embedding(), "1": recurrent(nn.RNN, INPUT, 1, True, nonlinearity="relu"),
                      "2": nn.Linear(2 * HIDDEN, CLASSES)}))
    torch_case("norms", ["linear:first", "layer_norm:norm", "relu", "lstm:rnn", "layer_norm", "last",
                         "linear:fc", "tanh"],
               Net(lambda net, x: torch.tanh(net.fc(nn.functional.layer_norm(
                   net.rnn(torch.relu(net.norm(net.first(x))))[0], (HIDDEN,))[:, -1])),
                   first=nn.Linear(INPUT, 5), norm=nn.LayerNorm(5), rnn=recurrent(nn.LSTM, 5),
                   fc=nn.Linear(HIDDEN, CLASSES)), of_ids=False)


class BareRnn(nn.RNN):
    """Names without anything before them."""

    def forward(self, x):
        return super().forward(x)[0]


# ---- Keras -------------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def keras_lstm(x, h, c, kernel, state, bias):
    """Gates i, f, c, o."""
    i, f, g, o = np.split(x @ kernel + h @ state + bias, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def keras_gru(x, h, c, kernel, state, bias):
    """Gates z, r, h; with reset_after the bias is [2, 3 * units], the input's and the state's."""
    if bias.ndim == 2:
        xz, xr, xh = np.split(x @ kernel + bias[0], 3, -1)
        hz, hr, hh = np.split(h @ state + bias[1], 3, -1)
        candidate = np.tanh(xh + sigmoid(xr + hr) * hh)
    else:
        xz, xr, xh = np.split(x @ kernel + bias, 3, -1)
        hz, hr, _ = np.split(h @ state, 3, -1)
        candidate = np.tanh(xh + (sigmoid(xr + hr) * h) @ np.split(state, 3, -1)[2])
    z = sigmoid(xz + hz)
    return z * h + (1 - z) * candidate, c


def keras_simple_rnn(x, h, c, kernel, state, bias):
    return np.tanh(x @ kernel + bias + h @ state), c


def steps(cell, x, weights, backwards=False):
    """Every h in the order of x, and the last one that the direction makes."""
    h = c = np.zeros((x.shape[0], HIDDEN))
    made = [None] * x.shape[1]
    for t in reversed(range(x.shape[1])) if backwards else range(x.shape[1]):
        h, c = cell(x[:, t], h, c, *weights)
        made[t] = h
    return np.stack(made, 1), h


def keras_weights(rng, gates, width, bias=None):
    draw = lambda *shape: rng.uniform(-0.7, 0.7, shape).astype(np.float32)
    return [draw(width, gates * HIDDEN), draw(HIDDEN, gates * HIDDEN), draw(*(bias or [gates * HIDDEN]))]


def keras_case(name, layers, names, weights, run, of_ids=True):
    """names and weights in the same order; run takes an input."""
    write(name, layers, dict(zip(names, weights)), [(x, run(x)) for x in inputs(of_ids)])


def keras_cases():
    rng = np.random.default_rng(3)
    draw = lambda *shape: rng.uniform(-0.7, 0.7, shape).astype(np.float32)
    table, lstm, gru = draw(WORDS, INPUT), keras_weights(rng, 4, INPUT), keras_weights(rng, 3, INPUT)
    head, back = [draw(HIDDEN, CLASSES), draw(CLASSES)], keras_weights(rng, 4, INPUT)
    wide, after = [draw(2 * HIDDEN, CLASSES), draw(CLASSES)], keras_weights(rng, 3, INPUT, [2, 3 * HIDDEN])
    leaves = ["kernel", "recurrent_kernel", "bias"]
    dense = lambda x, layer: x @ layer[0] + layer[1]

    keras_case("keras_lstm", ["embedding:embedding", "lstm:lstm", "last", "linear:dense"],
               ["embedding/embeddings", *(f"lstm/lstm_cell/{leaf}" for leaf in leaves), "dense/kernel",
                "dense/bias"], [table, *lstm, *head],
               lambda x: dense(steps(keras_lstm, table[x], lstm)[1], head))
    keras_case("keras_numbered", ["embedding:layers/embedding", "lstm:layers/lstm", "last",
                                  "linear:layers/dense"],
               ["layers/embedding/vars/0", *(f"layers/lstm/cell/vars/{i}" for i in range(3)),
                "layers/dense/vars/0", "layers/dense/vars/1"], [table, *lstm, *head],
               lambda x: dense(steps(keras_lstm, table[x], lstm)[1], head))
    keras_case("keras_gru_reset_after", ["gru:gru_1/gru_1", "linear:dense"],
               [*(f"gru_1/gru_1/gru_cell_1/{leaf}:0" for leaf in leaves), "dense/kernel:0", "dense/bias:0"],
               [*after, *head], lambda x: dense(steps(keras_gru, x, after)[0], head), of_ids=False)
    keras_case("keras_gru_reset_before", ["gru:gru", "linear:dense"],
               [*(f"gru.{leaf}" for leaf in leaves), "dense.kernel", "dense.bias"], [*gru, *head],
               lambda x: dense(steps(keras_gru, x, gru)[0], head), of_ids=False)
    halves = [f"bidirectional/{way}_lstm/lstm_cell/{leaf}" for way in ("forward", "backward") for leaf in leaves]
    keras_case("keras_bidirectional_last", ["lstm:bidirectional", "last", "linear:dense"],
               [*halves, "dense/kernel", "dense/bias"], [*lstm, *back, *wide],
               lambda x: dense(np.concatenate([steps(keras_lstm, x, lstm)[1],
                                               steps(keras_lstm, x, back, True)[1]], -1), wide), of_ids=False)
    keras_case("keras_bidirectional", ["lstm:layers/bidirectional", "linear:layers/dense"],
               [*(f"layers/bidirectional/{way}_layer/cell/vars/{i}" for way in ("forward", "backward")
                  for i in range(3)), "layers/dense/vars/0", "layers/dense/vars/1"], [*lstm, *back, *wide],
               lambda x: dense(np.concatenate([steps(keras_lstm, x, lstm)[0],
                                               steps(keras_lstm, x, back, True)[0]], -1), wide), of_ids=False)
    simple, scale, shift = keras_weights(rng, 1, INPUT), draw(HIDDEN), draw(HIDDEN)

    def normed(x):
        x = steps(keras_simple_rnn, x, simple)[0]
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + 1e-3) * scale + shift

    keras_case("keras_simple_rnn", ["rnn:simple_rnn", "layer_norm:layer_normalization"],
               [*(f"simple_rnn/simple_rnn_cell/{leaf}" for leaf in leaves),
                "layer_normalization/gamma", "layer_normalization/beta"], [*simple, scale, shift], normed,
               of_ids=False)


if __name__ == "__main__":
    torch_lstms()
    torch_others()
    keras_cases()
