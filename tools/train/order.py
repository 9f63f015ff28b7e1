#!/usr/bin/env python3
"""Writes tests/data/models/order: a random LSTM whose answer depends on the order of its input.

Nothing is trained. The weights are uniform in +-0.5, large enough that every step
leaves a mark on the state: run the steps in another order, lose the state once, or mix
up two requests, and the numbers are visibly others.

    x [batch, time, 8], h0 and c0 [1, batch, 16] -> y [batch, time, 16], hn and cn [1, batch, 16]

golden.json holds inputs (multiples of 1/8, so short and exact) and the outputs PyTorch
computed for them, in the fewest digits that give the same float32 back; tensors are flat,
row-major.
"""

import argparse
import json
import pathlib

import numpy
import torch
from torch import nn

SEED = 8161
INPUT = 8
HIDDEN = 16
WEIGHT_MAX = 0.5
INPUT_STEP = 1 / 8  # inputs are multiples of it in -1..1
PERMUTED_DIFFERENCE_MIN = 0.05

# (name, batch, time, initial state is nonzero)
CASES = [
    ("one_step_zero_state", 1, 1, False),
    ("one_step_given_state", 1, 1, True),
    ("two_steps_given_state", 1, 2, True),
    ("two_steps_batch_3", 3, 2, True),
    ("seven_steps_zero_state", 1, 7, False),
    ("seven_steps_batch_3", 3, 7, True),
    ("thirty_three_steps", 1, 33, True),
    ("hundred_twenty_steps", 1, 120, False),
]
PERMUTED_OF = "seven_steps_zero_state"


class Order(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(INPUT, HIDDEN, batch_first=True)
        for parameter in self.lstm.parameters():
            nn.init.uniform_(parameter, -WEIGHT_MAX, WEIGHT_MAX)

    def forward(self, x, h0, c0):
        y, (hn, cn) = self.lstm(x, (h0, c0))
        return y, hn, cn


def uniform(*shape):
    steps = round(1 / INPUT_STEP)
    return torch.randint(-steps, steps + 1, shape) * INPUT_STEP


def tensor(value):
    data = [float(str(v)) for v in value.numpy().astype(numpy.float32).flatten()]
    return {"shape": list(value.shape), "data": data}


def run_case(model, name, x, h0, c0):
    with torch.no_grad():
        y, hn, cn = model(x, h0, c0)
    inputs = {"x": tensor(x), "h0": tensor(h0), "c0": tensor(c0)}
    outputs = {"y": tensor(y), "hn": tensor(hn), "cn": tensor(cn)}
    return {"name": name, "inputs": inputs, "outputs": outputs}, y


def make_cases(model):
    cases = []
    for name, batch, time, given_state in CASES:
        x = uniform(batch, time, INPUT)
        h0 = uniform(1, batch, HIDDEN) if given_state else torch.zeros(1, batch, HIDDEN)
        c0 = uniform(1, batch, HIDDEN) if given_state else torch.zeros(1, batch, HIDDEN)
        case, y = run_case(model, name, x, h0, c0)
        cases.append(case)
        if name == PERMUTED_OF:
            permutation = [3, 0, 6, 1, 5, 2, 4]
            case, y_permuted = run_case(model, name + "_permuted", x[:, permutation], h0, c0)
            case["permutation"] = permutation
            difference = float((y[:, -1] - y_permuted[:, -1]).abs().max())
            assert difference > PERMUTED_DIFFERENCE_MIN, "the order of the input hardly matters"
            cases.append(case)
    return cases


def export(model, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    state = torch.zeros(1, 1, HIDDEN)
    torch.onnx.export(
        model,
        (torch.zeros(1, 2, INPUT), state, state),
        str(path),
        input_names=["x", "h0", "c0"],
        output_names=["y", "hn", "cn"],
        dynamic_axes={
            "x": {0: "batch", 1: "time"},
            "h0": {1: "batch"},
            "c0": {1: "batch"},
            "y": {0: "batch", 1: "time"},
            "hn": {1: "batch"},
            "cn": {1: "batch"},
        },
        opset_version=17,
    )


def check_with_onnxruntime(path, cases):
    """Compares the exported file against the stored numbers, where onnxruntime is installed."""
    try:
        import onnxruntime
    except ImportError:
        print("onnxruntime is not installed: exported file not checked")
        return
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def array(stored):
        return numpy.array(stored["data"], dtype=numpy.float32).reshape(stored["shape"])

    worst = 0.0
    for case in cases:
        got = session.run(list(case["outputs"]), {k: array(v) for k, v in case["inputs"].items()})
        for value, wanted in zip(got, case["outputs"].values()):
            worst = max(worst, float(numpy.abs(value - array(wanted)).max()))
    print(f"largest difference to onnxruntime {onnxruntime.__version__}: {worst:.2e}")
    assert worst < 1e-5, "the exported file computes something else"


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/models/order")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    model = Order().eval()
    export(model, options.out / "1" / "model.onnx")
    cases = make_cases(model)
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    header = f'"torch": "{torch.__version__}", "seed": {SEED}'
    (options.out / "golden.json").write_text(f'{{{header}, "cases": [\n{lines}\n]}}\n')
    check_with_onnxruntime(options.out / "1" / "model.onnx", cases)


if __name__ == "__main__":
    main()
