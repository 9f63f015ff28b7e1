"""What the makers of files of other frameworks than PyTorch and Keras have in common: inputs, cases, folders."""

import argparse
import pathlib
import shutil
import zlib

import numpy

from golden import CASES, TOLERANCE, difference, first_line, make_golden

INPUT, HIDDEN, CLASSES, WORDS = 6, 8, 3, 20
WEIGHT_MAX = 0.5


LENGTHS = -1  # words of what is no id, but how many steps a row has


def given(name, *shape, words=0, integers="int64"):
    """An input of a model: "B" and "T" are batch and steps; of ids `words` is how many there are."""
    return {"name": name, "shape": shape, "words": words, "dtype": integers if words else "float32"}


def draw_weight(generator, shape):
    return generator.uniform(-WEIGHT_MAX, WEIGHT_MAX, shape).astype("float32")


def sized(spec, batch, time):
    return [{"B": batch, "T": time}.get(size, size) for size in spec["shape"]]


def draw_input(generator, spec, batch, time):
    """Eighths, which every format writes exactly, or ids."""
    shape = sized(spec, batch, time)
    if spec["words"] == LENGTHS:
        return generator.integers(1, time + 1, shape).astype(spec["dtype"])
    if spec["words"]:
        return generator.integers(0, spec["words"], shape).astype(spec["dtype"])
    return (generator.integers(-8, 9, shape) / 8).astype("float32")


def tensor(name, value):
    flat = value.flatten()
    data = flat.tolist() if value.dtype.kind == "i" else [float(str(v)) for v in flat]
    return {"name": name, "dtype": str(value.dtype), "shape": list(value.shape), "data": data}


def generator_of(name):
    return numpy.random.default_rng(zlib.crc32(name.encode()))


def make_cases(call, specs, names, generator):
    """call: arrays to a list of arrays. names: of the file's inputs and of its outputs, as call gives them."""
    cases = []
    for batch, time in CASES:
        inputs = [draw_input(generator, spec, batch, time) for spec in specs]
        outputs = [numpy.asarray(value) for value in call(*inputs)]
        cases.append(
            {
                "inputs": [tensor(*pair) for pair in zip(names[0], inputs)],
                "outputs": [tensor(*pair) for pair in zip(names[1], outputs)],
            }
        )
    return cases


def write_golden(out, about, cases):
    checked = difference(out / "model.onnx", cases)
    if checked[0] > TOLERANCE:
        raise ValueError(f"outputs differ from onnxruntime's by {checked[0]:.2g}")
    (out / "golden.json").write_text(make_golden(about, checked, cases))


def run(description, models, suffix, about, generate):
    """generate(make, specs, out, about) for each of `models`, (make, specs); a folder for each."""
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/onnx")
    parser.add_argument("--only", nargs="*", help="generate these models alone")
    options = parser.parse_args()
    for make, specs in models:
        if options.only and make.__name__ not in options.only:
            continue
        folder = options.out / f"{make.__name__}-{suffix}"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            generate(make, specs, folder, {"module": make.__name__, "what": make.__doc__, **about})
        except Exception as error:  # any failure of the exporter is a finding, not ours to sort
            shutil.rmtree(folder)
            print(f"{folder.name}: left out: {first_line(error)}")
            continue
        print(folder.name)
