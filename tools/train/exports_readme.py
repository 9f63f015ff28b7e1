#!/usr/bin/env python3
"""Writes tests/data/onnx/README.md: the variants, and the operators found in the files."""

import collections
import json
import pathlib

import onnx
from onnx import numpy_helper

from onnx_nodes import all_nodes

README_HEAD = """# Exports of PyTorch, Keras and others

Tiny LSTM, GRU and RNN models with random weights, as PyTorch's exporters and tf2onnx write them, for the importer's tests.
Made by `tools/train/exports.py`, (modules that loop over time) `tools/train/loops.py` and `loop_habits.py`, (modules that read two
sequences) `tools/train/reader_exports.py`, (attention of a sequence over itself) `tools/train/attention_exports.py`,
(by how far apart steps are) `tools/train/relative_exports.py`,
(by chunks of so many) `tools/train/chunk_exports.py`, (masks of padded sequences) `tools/train/mask_exports.py`, (groups of features, rows cut as others are, frames of denoisers) `tools/train/group_exports.py`,
(steps joined to steps) `tools/train/join_exports.py`, (steps that read earlier ones alone) `tools/train/stream_exports.py`, (layers of one step, sorted sequences) `tools/train/single_exports.py`, (sines, powers, signs) `tools/train/function_exports.py`, (categories, labels that are chosen) `tools/train/id_exports.py`, (modules that are functions of the file's own) `tools/train/module_exports.py`,
(convolutions) `tools/train/conv_exports.py`, (transposed ones) `tools/train/transposed_exports.py`, (pictures)
`tools/train/picture_exports.py`, (layers over bands and letters) `tools/train/band_exports.py`, (Keras models) `tools/train/keras_exports.py`, (other frameworks) `tools/train/paddle_exports.py`, `jax_exports.py`, `mxnet_exports.py`, and what no exporter writes by
`tools/train/handmade.py` and (cells as bodies of a Scan) `tools/train/scans.py`, by PyTorch itself `tools/train/scan_exports.py`; of some of them (quantised weights) `tools/train/quantised_exports.py` and (halves) `tools/train/half_exports.py` made others; this file by `tools/train/exports_readme.py`. Do not edit any by hand.

A folder is named `MODULE-EXPORTERtorch-opOPSET[-nofold]`: `ts` is the TorchScript exporter, `dynamo` the
newer one (the default of `torch.onnx.export` since 2.9), `external` the same with its default of weights in a second
file, `model.onnx.data`, `nofold` means
`do_constant_folding=False` (`ts`) or `optimize=False` (`dynamo`), `tf2.15` is tf2onnx under that
TensorFlow, `ort1.31` ONNX Runtime's tools for quantised weights, `half1.16` onnxconverter-common's float16, `pd3.3`
PaddlePaddle by paddle2onnx, `jx0.17` JAX by jax2onnx, `mx1.9` MXNet, `helper` is no exporter but `onnx.helper`, and `parser` is `onnx.parser`: written node by node. Models of one module have the same weights whatever exported
them. GRU and RNN modules are named after their cell (`gru_`, `rnn_tanh_`, `rnn_relu_`), and were tried with
PyTorch 1.13 and 2.15. Sizes: input 6, hidden 8, 3 classes, 20 words.

`golden.json`: `cases`, each with `inputs` and `outputs` as a list of {`name`, `dtype`, `shape`, `data`}, data
flat and row-major, float32 values in the fewest digits that give the same float32 back. Cases differ in batch
and time: (1, 1), (2, 4), (3, 7), of two sequences (1, 1, 1), (2, 4, 3), (3, 5, 7), of `conv_bare` 2 and of `conv_unpadded` 6 steps more; the exporter saw (2, 4) or (2, 4, 3). `packed_hn` alone has batch 1 throughout, since the
exporter writes its zero state's batch into the file. Every model was run in onnxruntime on all cases and
agrees within 1e-5 (`onnxruntime_difference`; those with quantised weights by less than 4e-3, since it rounds more, or elsewhere; of halves the file with floats of the same values was run); outputs are PyTorch's or Keras', of `helper` and `parser` those of the equations
written out. Stack traces, which name folders of the machine that exported,
were removed from the node metadata of the dynamo files; nothing else was changed.

What an importer meets here, beyond the operator list below:
- Constants are `Constant` nodes (`ts`) or initializers (`dynamo`, both with `nofold`); all weights are initializers
  in `raw_data`, of `external` in the second file. With `nofold` W, R and B are computed from them by Slice, Concat and Unsqueeze.
- LSTM: activations, clip and peepholes are never written by an exporter; GRU: `linear_before_reset` is always 1;
  RNN: `activations` is always there, once for each direction. Of all three B and sequence_lens may be empty names; zero states
  are ConstantOfShape, Expand or Slice chains over `Shape(x)`, or an initializer (`unbatched`). An unused Y is an
  empty name, unused Y_h and Y_c are dropped. `layout` is absent or 0, so batch_first shows as Transpose around the operator.
- The last step is `Gather` on the time axis with index -1, or Slice, or Y_h.
- Y [time, directions, batch, hidden] becomes [time, batch, hidden] by Squeeze (`ts`), by Transpose and
  Reshape (bidirectional), or (`dynamo`) by Transpose [0 2 1 3] and a Reshape whose shape is computed from `Shape`, `Slice`,
  `Mul` and `Concat` of the same tensor.
- Squeeze, Unsqueeze and ReduceMean have `axes` as attribute or as input, by opset; `Squeeze` may sit in an `If`
  that asks whether the dimension is 1 (`last_range_squeeze-ts1.13-op14`).
- Linear is Gemm (`transB` 1) on two axes, MatMul and Add (operands in either order) on three.
- tf2onnx computes shapes in int32 and compares them as floats. What it does not make an LSTM or GRU of is a Loop that
  carries its weights, the number of steps and a counter, and ends on a condition, with a number of steps (Keras 3) or without (Keras 2).
  A backward layer has ReverseSequence around it; Keras 3's Embedding takes ids from the end.

To make them again, once under each PyTorch (Debian 12 has 1.13.1, Debian 13 has 2.6, PyPI the newest), each
with `onnx`, `onnxruntime` and, for dynamo, `onnxscript`:
```
python3 tools/train/exports.py
python3 tools/train/exports_readme.py
```
"""

LEFT_OUT_HEAD = """## Left out
Tried, and not kept: the exporter failed, or its file did not compute what the module computes for another
batch or time than the one it was exported with.

| variant | reason |
|---|---|
"""


def attribute_text(attribute):
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.type == onnx.AttributeProto.TENSOR:
        array = numpy_helper.to_array(value)
        return f"{array.dtype}{list(array.shape)}" if attribute.name == "value" else "tensor"
    if attribute.type == onnx.AttributeProto.GRAPH:
        return "graph"
    if isinstance(value, bytes):
        return value.decode()
    if attribute.type == onnx.AttributeProto.STRINGS:
        return "[" + " ".join(v.decode() for v in value) + "]"
    if attribute.type == onnx.AttributeProto.FLOAT:
        return f"{value:g}"
    return str(value).replace(", ", " ")


def collect_operators(models):
    """{operator: ({attribute: {values}}, variants that have it)}"""
    found = collections.defaultdict(lambda: (collections.defaultdict(set), set()))
    for label, model in models.items():
        for node in all_nodes(model.graph):
            attributes, labels = found[node.op_type]
            labels.add(label)
            for attribute in node.attribute:
                attributes[attribute.name].add(attribute_text(attribute))
        for function in model.functions:
            found[f"function {function.name}"][1].add(label)
    return found


def operators_of(model):
    counts = collections.Counter(node.op_type for node in all_nodes(model.graph))
    return ", ".join(f"{op} {n}" if n > 1 else op for op, n in sorted(counts.items()))


def modules_table(goldens):
    text = "## Modules\n| name | what the module does |\n|---|---|\n"
    whats = {golden["module"]: golden["what"] for golden in goldens.values()}
    return text + "".join(f"| `{name}` | {what} |\n" for name, what in sorted(whats.items()))


def variants_table(out, models, goldens):
    text = "## Variants\nNodes counted in the file, constants included.\n\n"
    text += "| folder | by | exporter | opset | folding | IR | bytes | operators |\n"
    text += "|---|---|---|---|---|---|---|---|\n"
    for label, golden in goldens.items():
        size = (out / label / "model.onnx").stat().st_size
        folding = "on" if golden["constant_folding"] else "off"
        text += f"| `{label}` | {golden['torch']} | {golden['exporter']} | {golden['opset']} "
        text += f"| {folding} | {models[label].ir_version} | {size} "
        text += f"| {operators_of(models[label])} |\n"
    return text


def operators_table(models):
    text = "## Operators\nOver all variants, `models/langid` and `tests/data/models/order`.\n\n"
    text += "| operator | files | attributes as written, with their values |\n|---|---|---|\n"
    for op, (attributes, labels) in sorted(collect_operators(models).items()):
        shown = "; ".join(f"`{k}`: {', '.join(sorted(v))}" for k, v in sorted(attributes.items()))
        text += f"| {op} | {len(labels)} | {shown or '-'} |\n"
    return text


def left_out_table(left_out):
    text = LEFT_OUT_HEAD
    for label, reason in sorted(left_out.items()):
        text += f"| `{label}` | {reason.replace('|', '/')} |\n"
    return text


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    out = root / "tests/data/onnx"
    models, goldens = {}, {}
    for path in sorted(out.glob("*/model.onnx")):
        models[path.parent.name] = onnx.load(str(path))
        goldens[path.parent.name] = json.loads((path.parent / "golden.json").read_text())
    others = {
        "langid": onnx.load(str(root / "models/langid/1/model.onnx")),
        "order": onnx.load(str(root / "tests/data/models/order/1/model.onnx")),
    }
    left_out = json.loads((out / "left_out.json").read_text())
    parts = [
        README_HEAD,
        modules_table(goldens),
        variants_table(out, models, goldens),
        operators_table({**models, **others}),
        left_out_table(left_out),
    ]
    (out / "README.md").write_text("\n".join(parts))
    print(f"{len(models)} variants, {len(left_out)} left out")


if __name__ == "__main__":
    main()
