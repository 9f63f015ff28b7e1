#!/usr/bin/env python3
"""Writes into tests/data/onnx models whose floats are halves: `half_*` folders.

    converted  onnxconverter_common.float16.convert_float_to_float16() of exports that are there, whose
               inputs and outputs stay floats or become halves too
    exported   a module of PyTorch that was made one of halves (`.half()`, `.bfloat16()`) before

Wanted is what the file with floats of the same values answers (cells/import/tensor.c): nothing but
weights, and what comes and goes as halves, is rounded. ONNX Runtime, which rounds between any two
operators, has no kernels for most of these.

Run it under PyTorch's newest with onnx, onnxruntime and onnxconverter_common, then exports_readme.py.
"""

import json
import pathlib
import tempfile

import numpy
import onnx
import onnxruntime
import torch
from onnx import TensorProto, numpy_helper
from onnxconverter_common import float16

from exports import strip_stack_traces
from golden import CASES, make_golden

FLOATS = {TensorProto.FLOAT16: "float16", TensorProto.BFLOAT16: "bfloat16"}

# name: (export, whether its inputs and outputs stay floats)
CONVERTED = {
    "half_tagger": ("bidirectional_tagger-ts1.13-op14", True),
    "half_tagger_whole": ("bidirectional_tagger-ts1.13-op14", False),
    "half_conv": ("conv_front-ts1.13-op17", False),
    "half_masked": ("mask_own-ts1.13-op17", False),
    "half_product": ("mask_own_product-ts1.13-op17", True),
    "half_sines": ("own_sines-external2.15-op20", True),
}


class Tagger(torch.nn.Module):
    """Two bidirectional layers, a softmax."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.LSTM(5, 6, 2, batch_first=True, bidirectional=True)
        self.head = torch.nn.Linear(12, 3)

    def forward(self, x):
        return self.head(self.layers(x)[0]).softmax(-1)


class Sensor(torch.nn.Module):
    """A GRU behind a convolution, its last step."""

    def __init__(self):
        super().__init__()
        self.front = torch.nn.Conv1d(5, 6, 3, padding=1)
        self.layer = torch.nn.GRU(6, 7, batch_first=True)
        self.head = torch.nn.Linear(7, 2)

    def forward(self, x):
        x = self.front(x.transpose(1, 2)).relu().transpose(1, 2)
        return self.head(self.layer(x)[0][:, -1])


# name: (module, element)
EXPORTED = {
    "half_module": (Tagger, torch.float16),
    "half_brain": (Tagger, torch.bfloat16),
    "half_sensor": (Sensor, torch.float16),  # weights in a file beside it
}


def make_floats(graph):
    """The same numbers as floats, in place."""
    for initializer in graph.initializer:
        widen(initializer)
    for infos in (graph.input, graph.output, graph.value_info):
        for info in infos:
            if info.type.tensor_type.elem_type in FLOATS:
                info.type.tensor_type.elem_type = TensorProto.FLOAT
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                widen(attribute.t)
            if attribute.type == onnx.AttributeProto.GRAPH:
                make_floats(attribute.g)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i in FLOATS:
                attribute.i = TensorProto.FLOAT


def widen(tensor):
    if tensor.data_type in FLOATS:
        array = numpy_helper.to_array(tensor).astype(numpy.float32)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def dtypes_of(infos, cases_dtype):
    return {
        info.name: FLOATS.get(info.type.tensor_type.elem_type, cases_dtype.get(info.name))
        for info in infos
    }


def rounded(array, dtype):
    """Floats that are halves of the kind."""
    if dtype == "float16":
        return array.astype(numpy.float16).astype(numpy.float32)
    if dtype == "bfloat16":
        return torch.tensor(array).bfloat16().float().numpy()
    return array


def answer(model, feeds):
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    make_floats(twin.graph)
    options = onnxruntime.SessionOptions()
    session = onnxruntime.InferenceSession(
        twin.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    have = {given.name for given in session.get_inputs()}
    return names, [
        session.run(names, {k: v for k, v in feed.items() if k in have}) for feed in feeds
    ]


def case_of(feed, names, outputs, dtypes):
    def tensor(name, array):
        return {
            "name": name,
            "dtype": dtypes.get(name) or str(array.dtype),
            "shape": list(array.shape),
            "data": [float(str(v)) for v in array.reshape(-1)]
            if array.dtype == numpy.float32
            else [int(v) for v in array.reshape(-1)],
        }

    return {
        "inputs": [tensor(name, array) for name, array in feed.items()],
        "outputs": [tensor(name, array) for name, array in zip(names, outputs)],
    }


def write(root, folder, model, about, feeds):
    dtypes = dtypes_of(model.graph.input, {})
    feeds = [{k: rounded(v, dtypes.get(k)) for k, v in feed.items()} for feed in feeds]
    names, answers = answer(model, feeds)
    dtypes |= dtypes_of(model.graph.output, {})
    cases = [case_of(*pair, dtypes) for pair in ((f, names, a) for f, a in zip(feeds, answers))]
    path = root / folder
    path.mkdir(exist_ok=True)
    outside = {"save_as_external_data": True, "location": "model.onnx.data", "size_threshold": 0}
    onnx.save(model, str(path / "model.onnx"), **(outside if "-external" in folder else {}))
    # The answers are ONNX Runtime's own, of the twin.
    (path / "golden.json").write_text(make_golden(about, (0.0, onnxruntime.__version__), cases))
    print(folder, (path / "model.onnx").stat().st_size)


def convert(root):
    for name, (export, keeps_io) in CONVERTED.items():
        golden = json.loads((root / export / "golden.json").read_text())
        model = float16.convert_float_to_float16(
            onnx.load(str(root / export / "model.onnx")), keep_io_types=keeps_io
        )
        feeds = [
            {
                given["name"]: numpy.array(given["data"], given["dtype"]).reshape(given["shape"])
                for given in case["inputs"]
            }
            for case in golden["cases"]
        ]
        about = {
            k: v
            for k, v in golden.items()
            if k not in ("cases", "onnxruntime", "onnxruntime_difference")
        }
        about.update(module=name, exporter="onnxconverter-common", torch="half1.16")
        about["what"] = f"as `{golden['module']}`; weights are halves" + (
            "" if keeps_io else ", and so is what comes and goes"
        )
        write(root, f"{name}-half1.16-op{golden['opset']}", model, about, feeds)


def export(root):
    for name, (make, dtype) in EXPORTED.items():
        torch.manual_seed(sum(map(ord, name)))
        module = make().eval().to(dtype)
        generator = numpy.random.default_rng(3)
        feeds = [
            {"x": generator.standard_normal((batch, time + 2, 5)).astype(numpy.float32)}
            for batch, time in CASES
        ]
        axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("time")}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            torch.onnx.export(
                module,
                (torch.tensor(feeds[1]["x"]).to(dtype),),
                str(path),
                input_names=["x"],
                output_names=["y"],
                dynamic_shapes=(axes,),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
            strip_stack_traces(path)
            model = onnx.load(str(path))
        version = ".".join(torch.__version__.split(".")[:2])
        opset = next(o.version for o in model.opset_import if o.domain == "")
        about = {
            "module": name,
            "exporter": "dynamo",
            "torch": version,
            "opset": opset,
            "constant_folding": True,
            "what": f"{make.__doc__[:-1].lower()}, `{str(dtype).replace('torch.', '')}` all through",
        }
        how = "external" if name == "half_sensor" else "dynamo"
        write(root, f"{name}-{how}{version}-op{opset}", model, about, feeds)


def main():
    root = pathlib.Path(__file__).resolve().parents[2] / "tests/data/onnx"
    convert(root)
    export(root)


if __name__ == "__main__":
    main()
