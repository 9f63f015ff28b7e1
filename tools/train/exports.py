#!/usr/bin/env python3
"""Writes tests/data/onnx: tiny random recurrent models just as PyTorch's exporters emit them.

The importer's tests run over these folders. Each holds model.onnx and golden.json (the
inputs of two or three cases of different batch and time, and PyTorch's outputs). Models
of one name have the same weights and cases whatever exported them, so their outputs agree.

    exports.py             one run under each installed PyTorch; every run adds its variants
    exports_readme.py      afterwards: README.md, with the operators found in the files

Every file is run in onnxruntime before it is kept. What cannot be exported, or computes
something else than the module it came from, is left out and listed in left_out.json.

One thing is removed from the files: the stack traces that the newer exporter attaches to
each node, since they name folders of the machine that wrote them.
"""

import argparse
import inspect
import json
import logging
import pathlib
import re
import shutil
import warnings
import zlib

import numpy
import onnx
import torch
from torch.nn.modules.rnn import RNNBase

import lstm_modules
import recurrent_modules
from lstm_modules import HIDDEN, INPUT, INPUTS, WORDS
from golden import CASES, TOLERANCE, difference, first_line, make_golden
from onnx_nodes import all_nodes

WEIGHT_MAX = 0.5
SAMPLE = (2, 4)  # what the exporter sees; every export must work for the others too
MODULES = {**lstm_modules.MODULES, **recurrent_modules.MODULES}
EXPORTERS = {"ts": "TorchScript", "dynamo": "dynamo", "external": "dynamo"}
FILES = ("model.onnx", "model.onnx.data", "golden.json")  # the second: of "external" alone

# Exported with every opset and with constant folding off as well.
CORE = [
    "last_slice",
    "last_hn",
    "last_index_time_major",
    "bare_batch_first",
    "zero_state",
    "state_in",
    "embedding",
    "tagger",
    "tagger_view",
    "two_layer",
    "cat_hc",
    "packed_hn",
    "packed_zero_state",
    "gru_state_in",
    "gru_packed_zero_state",
    "rnn_relu_two_layer",
]


# ---- weights and cases --------------------------------------------------------------------


def draw_weights(module, name):
    """The same weights in every PyTorch: seeded by the name, drawn in order of the names."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    for _, parameter in sorted(module.named_parameters()):
        values = torch.rand(parameter.shape, generator=generator) * 2 - 1
        parameter.data.copy_(values * WEIGHT_MAX)
    return module.eval()


def make_module(name):
    return draw_weights(MODULES[name](), name)


def make_input(module, name, batch, time, generator):
    layers = next(part.num_layers for part in module.modules() if isinstance(part, RNNBase))
    shapes = {
        "x": (batch, time, INPUT),
        "x_time_major": (time, batch, INPUT),
        "x_alone": (time, INPUT),
        "series": (batch, time),
        "h0": (layers, batch, HIDDEN),
        "c0": (layers, batch, HIDDEN),
    }
    if name in shapes:  # multiples of 1/8: short and exact in the file
        return torch.randint(-8, 9, shapes[name], generator=generator) / 8
    if name.startswith("lengths"):  # the first row is never padded, see PackedTagger
        lengths = torch.clamp(time - 2 * torch.arange(batch), min=1)
        return lengths if name == "lengths_sorted" else lengths.roll(1)
    dtype = torch.int32 if name == "tokens_int32" else torch.int64
    return torch.randint(0, WORDS, (batch, time), generator=generator).to(dtype)


def make_inputs(module, batch, time, generator):
    batch = module.batch_fixed or batch
    return [make_input(module, name, batch, time, generator) for name in module.inputs]


def public_name(name):
    return name.split("_")[0]


def tensor(name, value):
    dtype = str(value.dtype).replace("torch.", "")
    flat = value.numpy().flatten()
    is_float = dtype.startswith("float")
    data = [float(str(v)) for v in flat] if is_float else [int(v) for v in flat]
    return {"name": name, "dtype": dtype, "shape": list(value.shape), "data": data}


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def make_cases(module, generator):
    cases = []
    for batch, time in CASES:
        inputs = make_inputs(module, batch, time, generator)
        with torch.no_grad():
            outputs = as_tuple(module(*inputs))
        names = [public_name(name) for name in module.inputs]
        cases.append(
            {
                "inputs": [tensor(name, value) for name, value in zip(names, inputs)],
                "outputs": [tensor(n, v) for n, v in zip(module.outputs, outputs)],
            }
        )
    return cases


def draw_cases(name, module, make_inputs, shapes=CASES):
    """For a module whose inputs and outputs have the names that they have in the file."""
    generator = torch.Generator().manual_seed(zlib.crc32(b"cases of " + name.encode()))
    cases = []
    for shape in shapes:
        inputs = make_inputs(module, *shape, generator)
        with torch.no_grad():
            outputs = as_tuple(module(*inputs))
        cases.append(
            {
                "inputs": [tensor(n, v) for n, v in zip(module.inputs, inputs)],
                "outputs": [tensor(n, v) for n, v in zip(module.outputs, outputs)],
            }
        )
    return cases


# ---- exporting ----------------------------------------------------------------------------


def torch_version():
    """Major and minor: 1.13, 2.15."""
    return ".".join(torch.__version__.split(".")[:2])


def has_dynamo():
    return "dynamo" in inspect.signature(torch.onnx.export).parameters


def export_torchscript(module, sample, path, opset, fold):
    names = [public_name(name) for name in module.inputs]
    axes = {public_name(name): INPUTS[name] for name in module.inputs}
    axes.update(module.outputs)
    extra = {"dynamo": False} if has_dynamo() else {}
    torch.onnx.export(
        module,
        tuple(sample),
        str(path),
        input_names=names,
        output_names=list(module.outputs),
        dynamic_axes={name: dims for name, dims in axes.items() if dims},
        opset_version=opset,
        do_constant_folding=fold,
        **extra,
    )


def export_dynamo(module, sample, path, opset, fold, is_external=False):
    shapes = []
    for name in module.inputs:
        shapes.append({axis: torch.export.Dim(label) for axis, label in INPUTS[name].items()})
    extra = {"opset_version": opset} if opset else {}
    torch.onnx.export(
        module,
        tuple(sample),
        str(path),
        input_names=[public_name(name) for name in module.inputs],
        output_names=list(module.outputs),
        dynamic_shapes=tuple(shapes),
        dynamo=True,
        external_data=is_external,
        optimize=fold,
        verbose=False,
        **extra,
    )


def export_external(module, sample, path, opset, fold):
    """As the newest PyTorch does unless told otherwise: the weights in a second file."""
    export_dynamo(module, sample, path, opset, fold, is_external=True)


def strip_stack_traces(path):
    model = onnx.load(str(path), load_external_data=False)
    stripped = False
    holders = list(all_nodes(model.graph)) + list(model.graph.value_info)
    holders += list(model.graph.input) + list(model.graph.output) + [model.graph]
    for holder in holders:
        props = getattr(holder, "metadata_props", [])
        for i in reversed(range(len(props))):
            if "stack_trace" in props[i].key:
                del props[i]
                stripped = True
    if stripped:
        onnx.save(model, str(path))
    here = str(pathlib.Path(__file__).resolve().parent)
    raw = path.read_bytes()
    assert here.encode() not in raw and b"site-packages" not in raw, "a path of this machine"
    assert b"dist-packages" not in raw, "a path of this machine"


def generate_one(out, name, tool, opset, fold):
    """Writes one folder. Returns None, or why it was left out."""
    module = make_module(name)
    generator = torch.Generator().manual_seed(zlib.crc32(b"cases of " + name.encode()))
    folder = out / "new"  # becomes target when everything has gone well
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    try:
        cases = make_cases(module, generator)
        sample = make_inputs(module, *SAMPLE, generator)
        exporters = {"ts": export_torchscript, "dynamo": export_dynamo, "external": export_external}
        exporters[tool](module, sample, path, opset, fold)
        strip_stack_traces(path)
        worst, runtime = difference(path, cases)
        if worst > TOLERANCE:
            raise ValueError(f"outputs differ from PyTorch's by {worst:.2g}")
    except Exception as error:  # any failure of the exporter is a finding, not ours to sort
        for file in FILES:
            (folder / file).unlink(missing_ok=True)
        return first_line(error)
    opset = onnx.load(str(path)).opset_import[0].version
    about = {
        "module": name,
        "what": MODULES[name].__doc__.strip(),
        "torch": torch.__version__.split("+")[0],
        "exporter": EXPORTERS[tool],
        "opset": opset,
        "constant_folding": fold,
    }
    (folder / "golden.json").write_text(make_golden(about, (worst, runtime), cases))
    target = out / variant_name(name, tool, opset, fold)
    target.mkdir(exist_ok=True)
    for file in FILES:
        if (folder / file).exists():
            (folder / file).replace(target / file)
    return None


def variant_name(name, tool, opset, fold):
    opset_part = f"-op{opset}" if opset else ""
    return f"{name}-{tool}{torch_version()}{opset_part}" + ("" if fold else "-nofold")


def plan():
    """(module, exporter, opset, folding) of what the installed PyTorch can be asked for."""
    version = tuple(int(part) for part in torch_version().split("."))
    if version < (2, 0):  # the exporter most existing files come from: everything
        for name in MODULES:
            yield name, "ts", 14, True
        for name in CORE:
            for opset in (11, 13, 17):
                yield name, "ts", opset, True
            yield name, "ts", 14, False
        return
    for name in CORE:
        yield name, "ts", 17, True
    if not has_dynamo():
        return
    for name in MODULES if version >= (2, 9) else CORE:  # the default exporter from 2.9 on
        yield name, "dynamo", None, True
    for name in ("last_slice", "last_hn", "tagger"):
        yield name, "dynamo", 18, True
    for name in ("last_slice", "tagger", "two_layer", "gru_tagger", "flipped", "head_gelu") if version >= (2, 15) else ():
        yield name, "dynamo", 25, True
    for name in ("tagger", "two_layer", "char_lm") if version >= (2, 9) else ():
        yield name, "external", None, True
    yield "last_hn", "dynamo", 18, False  # one is enough: half of its 46 KB is metadata


def generate(out, only):
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    left_out_path = out / "left_out.json"
    left_out = json.loads(left_out_path.read_text()) if left_out_path.exists() else {}
    for name, tool, opset, fold in plan():
        if only and name not in only:
            continue
        label = variant_name(name, tool, opset, fold)
        reason = generate_one(out, name, tool, opset, fold)
        print(f"{label}: {reason or 'ok'}", flush=True)
        left_out.pop(label, None)
        if reason:
            left_out[label] = reason
    if (out / "new").exists():
        (out / "new").rmdir()
    left_out_path.write_text(json.dumps(left_out, indent=1, sort_keys=True) + "\n")


def default_tool():
    """What torch.onnx.export is without further ado: its name in a folder's, and the opset it is asked for."""
    is_newest = tuple(int(part) for part in torch_version().split(".")) >= (2, 9)
    return ("external", 20) if is_newest else ("ts", 17)


def write_model(folder, module, cases, export):
    """model.onnx and what lies beside it, and how far it is from onnxruntime. Raises what the exporter raises."""
    folder.mkdir(parents=True, exist_ok=True)
    export(folder / "model.onnx")
    worst, runtime = difference(folder / "model.onnx", cases)
    if worst > TOLERANCE:
        raise ValueError(f"outputs differ from onnxruntime's by {worst:.2g}")
    return worst, runtime


def export_open(module, path, opset, inputs):
    """As PyTorch does by default, with the axes open that module.inputs and module.outputs name."""
    torch.onnx.export(
        module,
        tuple(inputs),
        str(path),
        input_names=list(module.inputs),
        output_names=list(module.outputs),
        dynamic_axes={**module.inputs, **module.outputs},
        opset_version=opset,
    )
    strip_stack_traces(path)


def write_models(about_tool, modules, make):
    """For a tool that exports as PyTorch does by default: each module's folder, checked against onnxruntime.
    make has make_module(name), make_cases(name, module) and export(module, path, opset); and tool(), where
    that is another exporter than PyTorch's default."""
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=about_tool.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/onnx")
    parser.add_argument("--only", nargs="*", help="generate these modules alone")
    parser.add_argument("--opset", type=int, help="in place of the exporter's own")
    options = parser.parse_args()
    tool, opset = getattr(make, "tool", default_tool)()
    opset = options.opset or opset
    for name in options.only or modules:
        folder = options.out / f"{name}-{tool}{torch_version()}-op{opset}"
        module = make.make_module(name)
        cases = make.make_cases(name, module)
        try:
            checked = write_model(folder, module, cases, lambda path: make.export(module, path, opset))
        except Exception as error:  # any failure of the exporter is a finding, not ours to sort
            shutil.rmtree(folder)
            print(f"{folder.name}: left out: {first_line(error)}")
            continue
        about = {"module": name, "what": module.__doc__, "torch": torch.__version__.split("+")[0]}
        about.update({"exporter": EXPORTERS[tool], "opset": opset, "constant_folding": True})
        (folder / "golden.json").write_text(make_golden(about, checked, cases))
        print(f"{folder.name}: differs by {checked[0]:.2g}")


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/onnx")
    parser.add_argument("--only", nargs="*", help="generate these modules alone")
    options = parser.parse_args()
    generate(options.out, options.only)


if __name__ == "__main__":
    main()
