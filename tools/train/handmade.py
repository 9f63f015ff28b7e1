#!/usr/bin/env python3
"""Writes into tests/data/onnx what PyTorch's exporters never do: a GRU that resets before the
product, an LSTM with peepholes. Node by node with onnx.helper, weights and cases in the manner of
exports.py; the outputs are the equations of ONNX written out, and agree with onnxruntime's.
"""

import argparse
import pathlib
import zlib

import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from exports import WEIGHT_MAX, tensor
from golden import CASES, TOLERANCE, difference, make_golden
from lstm_modules import HIDDEN, INPUT

OPSET = 14
IR_VERSION = 7  # of that opset's time


# ---- One step, of x [batch, INPUT] and states [batch, HIDDEN] ---------------------------------


def gru_reset_before(weights, x, h):
    w, r = weights["w"][0].chunk(3), weights["r"][0].chunk(3)
    wb, rb = (half.chunk(3) for half in weights["b"][0].chunk(2))
    z = torch.sigmoid(x @ w[0].T + wb[0] + h @ r[0].T + rb[0])
    s = torch.sigmoid(x @ w[1].T + wb[1] + h @ r[1].T + rb[1])
    n = torch.tanh(x @ w[2].T + wb[2] + (s * h) @ r[2].T + rb[2])
    return ((1 - z) * n + z * h,)


def lstm_peepholes(weights, x, h, c):
    bias = weights["b"][0] if "b" in weights else torch.zeros(8 * HIDDEN)
    sums = x @ weights["w"][0].T + h @ weights["r"][0].T + bias[: 4 * HIDDEN] + bias[4 * HIDDEN :]
    i, o, f, g = sums.chunk(4, dim=1)
    pi, po, pf = weights["p"][0].chunk(3)
    i, f = torch.sigmoid(i + pi * c), torch.sigmoid(f + pf * c)
    c = f * c + i * torch.tanh(g)
    return torch.sigmoid(o + po * c) * torch.tanh(c), c


# name: (operator, gates, state names, weights beside w and r, one step, what)
MODELS = {
    "gru_reset_before": ("GRU", 3, ["h"], "b", gru_reset_before, "GRU, linear_before_reset 0"),
    "lstm_peepholes": ("LSTM", 4, ["h", "c"], "bp", lstm_peepholes, "LSTM with P"),
    "lstm_peepholes_no_bias": ("LSTM", 4, ["h", "c"], "p", lstm_peepholes, "LSTM with P, no B"),
}


def make_weights(name):
    _, gates, _, others, _, _ = MODELS[name]
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    shapes = {"w": (gates * HIDDEN, INPUT), "r": (gates * HIDDEN, HIDDEN)}
    shapes.update({"b": (2 * gates * HIDDEN,)} if "b" in others else {})
    shapes.update({"p": (3 * HIDDEN,)} if "p" in others else {})
    return {
        key: (torch.rand((1, *shape), generator=generator) * 2 - 1) * WEIGHT_MAX
        for key, shape in shapes.items()
    }


def make_cases(name, weights):
    _, _, states, _, step, _ = MODELS[name]
    generator = torch.Generator().manual_seed(zlib.crc32(b"cases of " + name.encode()))
    cases = []
    for batch, time in CASES:
        x = torch.randint(-8, 9, (time, batch, INPUT), generator=generator) / 8
        given = [torch.randint(-8, 9, (batch, HIDDEN), generator=generator) / 8 for _ in states]
        now, steps = given, []
        for t in range(time):
            now = step(weights, x[t], *now)
            steps.append(now[0])
        inputs = [tensor(f"{s}0", value[None]) for s, value in zip(states, given)]
        outputs = [tensor(f"{s}n", value[None]) for s, value in zip(states, now)]
        y = tensor("y", torch.stack(steps)[:, None])
        cases.append({"inputs": [tensor("x", x), *inputs], "outputs": [y, *outputs]})
    return cases


def make_model(name, weights):
    op, _, states, _, _, _ = MODELS[name]
    state = [1, "batch", HIDDEN]

    def info(label, shape):
        return helper.make_tensor_value_info(label, TensorProto.FLOAT, shape)

    inputs = ["x", "w", "r", "b" if "b" in weights else "", "", *(f"{s}0" for s in states)]
    node = helper.make_node(
        op,
        inputs + (["p"] if "p" in weights else []),
        ["y", *(f"{s}n" for s in states)],
        name=name,
        hidden_size=HIDDEN,
    )
    graph = helper.make_graph(
        [node],
        name,
        [info("x", ["time", "batch", INPUT]), *(info(f"{s}0", state) for s in states)],
        [info("y", ["time", 1, "batch", HIDDEN]), *(info(f"{s}n", state) for s in states)],
        [numpy_helper.from_array(value.numpy(), key) for key, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return model


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/onnx")
    out = parser.parse_args().out
    version = ".".join(onnx.__version__.split(".")[:2])
    for name, (_, _, _, _, _, what) in MODELS.items():
        folder = out / f"{name}-helper{version}-op{OPSET}"
        folder.mkdir(parents=True, exist_ok=True)
        weights = make_weights(name)
        cases = make_cases(name, weights)
        onnx.save(make_model(name, weights), str(folder / "model.onnx"))
        worst, runtime = difference(folder / "model.onnx", cases)
        assert worst < TOLERANCE, f"{name}: outputs differ from onnxruntime's by {worst:.2g}"
        about = {"module": name, "what": what, "torch": "-", "exporter": "onnx.helper"}
        about.update({"opset": OPSET, "constant_folding": True})
        (folder / "golden.json").write_text(make_golden(about, (worst, runtime), cases))
        print(f"{folder.name}: differs by {worst:.2g}")


if __name__ == "__main__":
    main()
