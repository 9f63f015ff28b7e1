#!/usr/bin/python3
"""PyTorch as a peer: nn.LSTM or nn.GRU in inference mode, on the CPU.

Usage: peer_torch.py THREADS, then lines (peer.py). OMP_NUM_THREADS and OPENBLAS_NUM_THREADS are to be
the same number: the products may run in OpenBLAS's own threads.
"""

import sys

import numpy
import torch

import peer

MODULES = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}


def reorder(cell, tensor):
    """Gates from ONNX's order to PyTorch's; a copy."""
    gates = numpy.split(tensor, cell.gates)
    return torch.from_numpy(numpy.concatenate([gates[g] for g in cell.torch_order]))


def blas_name():
    """The library that a generic build of PyTorch has found its products in."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        names = {line.split("/")[-1].strip() for line in maps if "blas" in line}
    return ", ".join(sorted(names)) or "its own"


class Torch:
    def __init__(self, threads):
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)

    def about(self):
        return {
            "torch": torch.__version__,
            "mkl": torch.backends.mkl.is_available(),
            "onednn": torch.backends.mkldnn.is_available(),
            "blas": blas_name(),
        }

    def load(self, cell, shape, tensors):
        module = MODULES[cell.name](shape.inputs, shape.hidden).eval()
        w_bias, r_bias = numpy.split(tensors["b"], 2)
        with torch.no_grad():
            module.weight_ih_l0.copy_(reorder(cell, tensors["w"]))
            module.weight_hh_l0.copy_(reorder(cell, tensors["r"]))
            module.bias_ih_l0.copy_(reorder(cell, w_bias))
            module.bias_hh_l0.copy_(reorder(cell, r_bias))
        x = torch.from_numpy(tensors["x"])

        def run():
            with torch.inference_mode():
                return module(x)[0].numpy()

        return run

    def empty(self, shape):
        x = torch.zeros(shape.steps, shape.rows, shape.inputs)
        module = torch.nn.Identity()

        def run():
            with torch.inference_mode():
                return module(x).numpy()

        return run


if __name__ == "__main__":
    peer.serve(Torch(int(sys.argv[1])))
