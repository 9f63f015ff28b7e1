#!/usr/bin/env python3
"""ONNX Runtime as a peer: a model of one LSTM or GRU node, inputs and outputs as numpy arrays.

Usage: peer_onnxruntime.py THREADS [--pin], then lines (peer.py). --pin gives each thread a CPU.
"""

import os
import sys

import numpy
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import peer

OPSET = 14


def make_session(node, x_dims, weights, threads, cpus=()):
    """All defaults but the numbers of threads, spinning included: what users get.

    cpus: for the threads but the calling one; none: wherever they are put.
    """
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, x_dims)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    initializers = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph([node], "bench", [x], [y], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    if cpus:
        # Counted from 1.
        affinities = ";".join(str(cpu + 1) for cpu in cpus)
        options.add_session_config_entry("session.intra_op_thread_affinities", affinities)
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


class OnnxRuntime:
    def __init__(self, threads, is_pinned):
        self.threads = threads
        self.cpus = ()
        if is_pinned and threads > 1:
            first, *self.cpus = sorted(os.sched_getaffinity(0))[:threads]
            os.sched_setaffinity(0, {first})

    def about(self):
        return {"onnxruntime": onnxruntime.__version__, "numpy": numpy.__version__}

    def load(self, cell, shape, tensors):
        attributes = {"hidden_size": shape.hidden}
        if cell.name == "gru":
            attributes["linear_before_reset"] = 1
        node = helper.make_node(cell.name.upper(), ["x", "w", "r", "b"], ["y"], **attributes)
        weights = {name: tensors[name][None] for name in ("w", "r", "b")}  # one direction
        session = make_session(node, tensors["x"].shape, weights, self.threads, self.cpus)
        feed = {"x": tensors["x"]}
        return lambda: session.run(["y"], feed)[0]

    def empty(self, shape):
        x = numpy.zeros((shape.steps, shape.rows, shape.inputs), numpy.float32)
        node = helper.make_node("Identity", ["x"], ["y"])
        session = make_session(node, x.shape, {}, self.threads, self.cpus)
        return lambda: session.run(["y"], {"x": x})


if __name__ == "__main__":
    peer.serve(OnnxRuntime(int(sys.argv[1]), "--pin" in sys.argv))
