"""Kinds of cells, shapes and raw files: what the driver and the peers share.

Layouts are those of bench/cell.h: weights as in ONNX, rows step by step.
"""

import dataclasses
import pathlib

import numpy

DEEPCPU = """
64x64x1x100 256x64x1x100 1024x64x1x100 64x256x1x100 64x1024x1x100 1024x1024x1x100
256x256x1x1 256x256x1x10 256x256x1x100 64x64x10x100 64x64x20x100 256x256x10x100
256x256x20x100 1024x1024x10x100 1024x1024x20x100
""".split()


@dataclasses.dataclass(frozen=True)
class Cell:
    """A kind: its gates in ONNX's order, and where PyTorch's gates stand among them."""

    name: str
    gates: int
    torch_order: tuple


CELLS = {
    "lstm": Cell("lstm", 4, (0, 2, 3, 1)),  # i o f c -> i f g o
    "gru": Cell("gru", 3, (1, 0, 2)),  # z r h -> r z n
}


@dataclasses.dataclass(frozen=True)
class Shape:
    inputs: int
    hidden: int
    rows: int
    steps: int

    def __str__(self):
        return f"{self.inputs}x{self.hidden}x{self.rows}x{self.steps}"


def parse_shape(text):
    numbers = [int(number) for number in text.split("x")]
    if len(numbers) != 4 or min(numbers) < 1:
        raise ValueError(f"{text} is not INPUTxHIDDENxROWSxSTEPS")
    return Shape(*numbers)


def parse_shapes(text):
    words = [w for word in text.split(",") for w in (DEEPCPU if word == "deepcpu" else [word])]
    return [parse_shape(word) for word in words]


def tensor_shapes(cell, shape):
    columns = cell.gates * shape.hidden
    return {
        "w": (columns, shape.inputs),
        "r": (columns, shape.hidden),
        "b": (2 * columns,),
        "x": (shape.steps, shape.rows, shape.inputs),
        "y": (shape.steps, shape.rows, shape.hidden),
    }


def random_tensors(cell, shape, seed):
    """Weights within 1/sqrt(hidden), as PyTorch begins; inputs within 1."""
    random = numpy.random.default_rng(seed)
    tensors = {}
    for name, dims in tensor_shapes(cell, shape).items():
        if name != "y":
            bound = 1.0 if name == "x" else shape.hidden**-0.5
            tensors[name] = random.uniform(-bound, bound, dims).astype(numpy.float32)
    return tensors


def write_tensor(folder, name, tensor):
    numpy.ascontiguousarray(tensor, dtype="<f4").tofile(pathlib.Path(folder) / f"{name}.f32")


def read_tensor(folder, name, cell, shape):
    dims = tensor_shapes(cell, shape)[name]
    return numpy.fromfile(pathlib.Path(folder) / f"{name}.f32", dtype="<f4").reshape(dims)
