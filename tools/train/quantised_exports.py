#!/usr/bin/env python3
"""Writes into tests/data/onnx what ONNX Runtime's tools for quantised weights make of some exports
that are there: `ort` folders.

    dynamic   onnxruntime.quantization.quantize_dynamic: DynamicQuantizeLSTM, MatMulInteger, ConvInteger
              behind DynamicQuantizeLinear. Wanted is what the export answers with the weights that the
              integers stand for, and nothing else rounded (cells/import/op_quantize.c); what ONNX
              Runtime answers, which rounds activations too, is `onnxruntime_difference` away.
    static    quantize_static: QuantizeLinear and DequantizeLinear, scales stated. Wanted is what ONNX
              Runtime answers when it takes the file as it is written, without optimising it.

Run it under a Python with onnx and onnxruntime (make deps-peers: build/peers/bin/python), then
exports_readme.py.
"""

import json
import pathlib
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime import quantization

from golden import make_golden

# name: (export, kind, options, what its module does)
FILES = {
    "quantised_tagger": ("bidirectional_tagger-ts1.13-op14", "dynamic", {}),
    "quantised_channels": ("bidirectional_tagger-ts1.13-op14", "dynamic", {"per_channel": True}),
    "quantised_lm": ("char_lm-ts1.13-op14", "dynamic", {}),
    "quantised_conv": ("conv_unpadded-ts1.13-op17", "dynamic", {}),
    "quantised_unsigned": (
        "two_layer-ts1.13-op14",
        "dynamic",
        {"weight_type": quantization.QuantType.QUInt8},
    ),
    "quantised_static": ("tagger-ts1.13-op14", "static", {}),
    "quantised_static_conv": ("conv_front-ts1.13-op17", "static", {"per_channel": True}),
    "quantised_static_signed": (
        "gru_tagger-ts1.13-op14",
        "static",
        {"activation_type": quantization.QuantType.QInt8},
    ),
}
WHATS = {
    "dynamic": "as {}; weights of 8 bits, activations rounded at a scale of their own",
    "static": "as {}; weights and what products read of 8 bits, at scales that are stated",
}


def feed_of(case):
    return {
        given["name"]: numpy.array(given["data"], given["dtype"]).reshape(given["shape"])
        for given in case["inputs"]
    }


def run(model, cases, is_optimised):
    options = onnxruntime.SessionOptions()
    if not is_optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [wanted["name"] for wanted in cases[0]["outputs"]]
    return [session.run(names, feed_of(case)) for case in cases]


class Reader(quantization.CalibrationDataReader):
    def __init__(self, cases):
        self.feeds = iter([feed_of(case) for case in cases])

    def get_next(self):
        return next(self.feeds, None)


def quantise(path, kind, options, cases):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "model.onnx"
        if kind == "dynamic":
            quantization.quantize_dynamic(str(path), str(out), **options)
        else:
            quantization.quantize_static(
                str(path),
                str(out),
                Reader(cases),
                quant_format=quantization.QuantFormat.QDQ,
                **options,
            )
        return onnx.load(str(out))


def dequantise(array, scale, zero, axis):
    shape = [1] * array.ndim
    if scale.size > 1:
        shape[axis] = scale.size
    number = array.astype(numpy.float64) - zero.reshape(shape if zero.size > 1 else ()).astype(
        numpy.float64
    )
    return (number.astype(numpy.float32) * scale.reshape(shape if scale.size > 1 else ())).astype(
        numpy.float32
    )


def float_twin(original, quantised):
    """The export with the weights that the integers of the other file stand for."""
    held = {i.name: numpy_helper.to_array(i) for i in quantised.graph.initializer}
    twin = onnx.ModelProto()
    twin.CopyFrom(original)
    found = 0
    by_output = {o: node for node in twin.graph.node for o in node.output}
    for initializer in list(twin.graph.initializer):
        replace(initializer, held)
        found += initializer.name + "_quantized" in held
    for output, node in by_output.items():
        if node.op_type == "Constant" and output + "_quantized" in held:
            replace(node.attribute[0].t, held, output)
            found += 1
    assert found == sum(name.endswith("_quantized") for name in held), (found, sorted(held))
    return twin


def replace(tensor, held, name=None):
    name = name or tensor.name
    array = held.get(name + "_quantized")
    if array is None:
        return
    scale, zero = held[name + "_scale"], held[name + "_zero_point"]
    before = numpy_helper.to_array(tensor)
    if scale.ndim == 2:  # an LSTM's, a scale for each of a direction's columns
        pairs = zip(array, scale, zero)
        tries = [numpy.stack([dequantise(*pair, 1) for pair in pairs])]
    else:
        axes = [k for k in range(array.ndim) if array.shape[k] == scale.size] or [0]
        tries = [dequantise(array, scale, zero, axis) for axis in axes]
    tries += [numpy.swapaxes(t, -1, -2) for t in tries if t.ndim > 1]  # some are turned round
    fitting = [t for t in tries if t.shape == before.shape]
    after = min(fitting, key=lambda t: abs(t - before).max())
    assert after.shape == before.shape and abs(after - before).max() < 0.02, name
    tensor.CopyFrom(numpy_helper.from_array(numpy.ascontiguousarray(after), tensor.name))


def with_outputs(cases, answers):
    out = []
    for case, answer in zip(cases, answers):
        outputs = [
            {
                **wanted,
                "shape": list(got.shape),
                "data": [float(str(v)) for v in got.reshape(-1)],
            }
            for wanted, got in zip(case["outputs"], answer)
        ]
        out.append({"inputs": case["inputs"], "outputs": outputs})
    return out


def main():
    root = pathlib.Path(__file__).resolve().parents[2] / "tests/data/onnx"
    version = ".".join(onnxruntime.__version__.split(".")[:2])
    for name, (export, kind, options) in FILES.items():
        golden = json.loads((root / export / "golden.json").read_text())
        original = onnx.load(str(root / export / "model.onnx"))
        cases = golden["cases"]
        model = quantise(root / export / "model.onnx", kind, options, cases)
        if kind == "dynamic":
            answers = run(float_twin(original, model), cases, False)
        else:
            answers = run(model, cases, False)
        rounded = run(model, cases, True)
        worst = max(
            float(numpy.abs(a - b).max()) for x, y in zip(answers, rounded) for a, b in zip(x, y)
        )
        about = {k: v for k, v in golden.items() if k not in ("cases", "onnxruntime")}
        about.update(module=name, exporter="ONNX Runtime", torch=f"ort{version}")
        about["what"] = WHATS[kind].format(f"`{golden['module']}`")
        del about["onnxruntime_difference"]
        folder = root / f"{name}-ort{version}-op{golden['opset']}"
        folder.mkdir(exist_ok=True)
        onnx.save(model, str(folder / "model.onnx"))
        checked = (worst, onnxruntime.__version__)
        (folder / "golden.json").write_text(
            make_golden(about, checked, with_outputs(cases, answers))
        )
        print(folder.name, sorted({n.op_type for n in model.graph.node}), worst)


if __name__ == "__main__":
    main()
