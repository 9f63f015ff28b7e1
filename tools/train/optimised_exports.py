#!/usr/bin/env python3
"""Writes into tests/data/onnx what ONNX Runtime makes of some exports that are there when it optimises
them and writes what it runs (SessionOptions.optimized_model_filepath, ORT_ENABLE_EXTENDED, on a CPU):
`ort` folders, whose nodes are some of com.microsoft.

Wanted is what the export itself answers, as its golden.json says; what ONNX Runtime answers with the
optimised file is `onnxruntime_difference` away. `optimised_block` is of no export: it has the functions
and norms that ONNX Runtime knows in small operators, and wanted is what that answers as it is written.

Run it under a Python with onnx and onnxruntime (make deps-peers: build/peers/bin/python), then
exports_readme.py.
"""

import json
import pathlib
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import numpy_helper, parser

from golden import CASES, difference, make_golden

# name: export
FILES = {
    "optimised_attention": "own_encoder-external2.15-op20",
    "optimised_between": "conv_between-external2.15-op20",
    "optimised_conv": "picture_gated-ts1.13-op17",
    "optimised_dense": "keras_activations-tf2.15-op15",
    "optimised_dynamic": "quantised_channels-ort1.31-op14",
    "optimised_forecast": "keras_forecast-tf2.15-op15",
    "optimised_loop": "loop_both_ways-ts1.13-op17",
    "optimised_packed": "mask_packed-ts1.13-op17",
    "optimised_products": "own_products-ts1.13-op17",
    "optimised_static": "quantised_static-ort1.31-op14",
}
BLOCK = """
<ir_version: 8, opset_import: ["" : 17]>
block (float[batch, time, 8] x) => (float[batch, time, 4] y)
{
  up = MatMul(x, w_up)
  up_all = Add(up, b_up)
  over = Div(up_all, root_of_two)
  erf = Erf(over)
  more = Add(erf, one)
  by = Mul(up_all, more)
  gelu = Mul(by, half)
  down = MatMul(gelu, w_down)
  down_all = Add(down, b_down)
  sum = Add(down_all, x)
  norm = LayerNormalization <axis = -1, epsilon = 1e-5> (sum, gamma, beta)
  gate = Mul(norm, quick)
  opened = Sigmoid(gate)
  quick_gelu = Mul(norm, opened)
  square = MatMul(quick_gelu, w)
  t = Add(square, b)
  t_cubed = Pow(t, three)
  t_small = Mul(t_cubed, cubic)
  t_sum = Add(t, t_small)
  t_scaled = Mul(t_sum, root_of_two_over_pi)
  t_tanh = Tanh(t_scaled)
  t_more = Add(t_tanh, one)
  t_half = Mul(t, half)
  fast_gelu = Mul(t_half, t_more)
  squared = Pow(fast_gelu, two)
  mean = ReduceMean <axes = [-1]> (squared)
  mean_more = Add(mean, epsilon)
  size = Sqrt(mean_more)
  even = Div(fast_gelu, size)
  scaled = Mul(even, gain)
  turned = Transpose <perm = [1, 0, 2]> (scaled)
  steps, last = RNN <hidden_size = 4> (turned, w_x, w_h)
  squeezed = Squeeze(steps, direction)
  y = Transpose <perm = [1, 0, 2]> (squeezed)
}
"""
NUMBERS = {
    "root_of_two": 2**0.5,
    "one": 1,
    "half": 0.5,
    "quick": 1.702,
    "three": 3,
    "two": 2,
    "cubic": 0.044715,
    "root_of_two_over_pi": (2 / numpy.pi) ** 0.5,
    "epsilon": 1e-5,
}
SHAPES = {
    "w_up": (8, 16),
    "b_up": (16,),
    "w_down": (16, 8),
    "b_down": (8,),
    "gamma": (8,),
    "beta": (8,),
    "w": (8, 8),
    "b": (8,),
    "gain": (8,),
    "w_x": (1, 4, 8),
    "w_h": (1, 4, 4),
}


def optimise(model, out):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(out)
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def make_block():
    model = parser.parse_model(BLOCK)
    random = numpy.random.default_rng(1)
    held = {name: numpy.float32(number) for name, number in NUMBERS.items()}
    for name, shape in SHAPES.items():
        held[name] = (random.standard_normal(shape) * 0.4).astype(numpy.float32)
    held["direction"] = numpy.array([1], numpy.int64)
    for name, array in held.items():
        model.graph.initializer.append(numpy_helper.from_array(numpy.asarray(array), name))
    return model


def block_cases(model):
    """What it answers without being optimised."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    random = numpy.random.default_rng(2)
    cases = []
    for batch, time in CASES:
        x = random.standard_normal((batch, time, 8)).astype(numpy.float32)
        tensors = {"x": x, "y": session.run(["y"], {"x": x})[0]}
        x, y = (
            {
                "name": name,
                "dtype": "float32",
                "shape": list(array.shape),
                "data": [float(str(v)) for v in array.reshape(-1)],
            }
            for name, array in tensors.items()
        )
        cases.append({"inputs": [x], "outputs": [y]})
    return cases


def write(root, name, model, about, cases):
    version = ".".join(onnxruntime.__version__.split(".")[:2])
    folder = root / f"{name}-ort{version}-op{about['opset']}"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        out = pathlib.Path(temporary) / "model.onnx"
        optimise(model, out)
        optimised = onnx.load(str(out))
    onnx.save(optimised, str(folder / "model.onnx"))
    checked = difference(folder / "model.onnx", cases)
    about = {"module": name, **about, "exporter": "ONNX Runtime", "torch": f"ort{version}"}
    (folder / "golden.json").write_text(make_golden(about, checked, cases))
    own = {node.op_type for node in optimised.graph.node if node.domain == "com.microsoft"}
    print(folder.name, sorted(own), checked[0])


def main():
    root = pathlib.Path(__file__).resolve().parents[2] / "tests/data/onnx"
    for name, export in FILES.items():
        golden = json.loads((root / export / "golden.json").read_text())
        about = {k: v for k, v in golden.items() if k not in ("cases", "onnxruntime", "module")}
        about["what"] = f"as `{golden['module']}`; as ONNX Runtime writes it optimised"
        del about["onnxruntime_difference"]
        write(root, name, onnx.load(str(root / export / "model.onnx")), about, golden["cases"])
    model = make_block()
    about = {
        "what": "functions and norms in small operators before an RNN; as ONNX Runtime writes it "
        "optimised",
        "opset": 17,
        "constant_folding": True,
    }
    write(root, "optimised_block", model, about, block_cases(model))


if __name__ == "__main__":
    main()
