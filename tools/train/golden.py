"""golden.json: what every maker of tests/data/onnx writes beside model.onnx, and how it is checked."""

import json
import re

import numpy

CASES = [(1, 1), (2, 4), (3, 7)]  # (batch, time)
TOLERANCE = 1e-5  # against onnxruntime


def difference(path, cases):
    """The largest difference of the file's outputs in onnxruntime, and that one's version."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = 0.0
    for case in cases:
        feed = {}
        for given in case["inputs"]:
            feed[given["name"]] = numpy.array(given["data"], given["dtype"]).reshape(given["shape"])
        wanted_names = [wanted["name"] for wanted in case["outputs"]]
        for got, wanted in zip(session.run(wanted_names, feed), case["outputs"]):
            if list(got.shape) != wanted["shape"]:
                raise ValueError(f"{wanted['name']} is {list(got.shape)}, not {wanted['shape']}")
            flat = numpy.array(wanted["data"], wanted["dtype"]).reshape(wanted["shape"])
            worst = max(worst, float(numpy.abs(got - flat).max()))
    return worst, onnxruntime.__version__


def make_golden(about, checked, cases):
    """The text of golden.json; checked is what difference() says."""
    worst, runtime = checked
    about = {**about, "onnxruntime": runtime, "onnxruntime_difference": float(f"{worst:.2g}")}
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    return json.dumps(about)[:-1] + f', "cases": [\n{lines}\n]}}\n'


def first_line(error):
    """The first line of what went wrong first: dynamo wraps errors several times."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error).strip() or type(error).__name__
    text = re.sub(r"\x1b\[\d*m", "", text.split("\n")[0])
    return " ".join(text.split())[:160]
