#!/usr/bin/env python3
"""Pictures and spectrograms of many widths (docs/pictures.md), videos of many lengths (docs/video.md), sequences
through cells of one's own (docs/cells.md): how many a second the daemon answers, over gRPC, with 1 and 16 under
way, beside ONNX Runtime called directly, one at a time and in batches of 8 padded to the longest. (What a recurrent layer makes of padding may not be
what it makes of the picture; only the time is compared.) They take turns; medians of the rounds.

Usage: pictures.py --build build/release [--document video] [--rounds 5] [--seconds 3] [--threads 2]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import page
from readers import Ours, export

# Of each document: name, input, numpy's type, shape, with None where time is, and how long.
CASES = {
    "pictures": [
        ("lines", "picture", "float32", (1, 1, 32, None), (40, 200)),
        ("speech", "frames", "float32", (1, 1, 161, None), (60, 300)),
    ],
    "video": [
        ("gestures", "frames", "float32", (1, None, 3, 64, 64), (8, 24)),
        ("scenes", "frames", "uint8", (1, None, 3, 64, 64), (8, 24)),
        ("lips", "frames", "float32", (1, 3, None, 32, 64), (16, 48)),
    ],
    "cells": [
        ("mamba", "x", "float32", (1, None, 32), (20, 100)),
        ("slstm", "x", "float32", (1, None, 32), (20, 100)),
    ],
}
PEER = """
import json, sys, time
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[1])
sessions = {}
print(json.dumps({"version": onnxruntime.__version__}), flush=True)
def drawn(asked):
    rng = numpy.random.default_rng(1)
    least, most = asked["lengths"]
    made = []
    for length in rng.integers(least, most + 1, 160):
        shape = [length if size is None else size for size in asked["shape"]]
        made.append((rng.standard_normal(shape) * 64 + 128 * (asked["type"] == "uint8")).astype(asked["type"]))
    return made
def padded(made, axis):
    shape = [len(made), *made[0].shape[1:]]
    shape[axis] = max(one.shape[axis] for one in made)
    out = numpy.zeros(shape, made[0].dtype)
    for i, one in enumerate(made):
        out[(i, *(slice(size) for size in one.shape[1:]))] = one[0]
    return out
for line in sys.stdin:
    asked = json.loads(line)
    name, given, batch = asked["model"], asked["input"], asked["batch"]
    if name not in sessions:
        sessions[name] = onnxruntime.InferenceSession(f"my-models/{name}/1/model.onnx", options, providers=["CPUExecutionProvider"])
    made, axis = drawn(asked), asked["shape"].index(None)
    batches = [padded(made[i : i + batch], axis) for i in range(0, len(made), batch)]
    sessions[name].run(None, {given: batches[0]})
    n, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < asked["seconds"]:
        sessions[name].run(None, {given: batches[n % len(batches)]})
        n += 1
    print(json.dumps(n * batch / (time.perf_counter() - begun)), flush=True)
"""


class Peer:
    def __init__(self, threads, folder):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PEER, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            text=True,
        )
        self.version = json.loads(self.process.stdout.readline())["version"]

    def rate(self, case, batch, seconds):
        asked = dict(zip(("model", "input", "type", "shape", "lengths"), case))
        self.process.stdin.write(json.dumps({**asked, "batch": batch, "seconds": seconds}) + "\n")
        self.process.stdin.flush()
        rate = json.loads(self.process.stdout.readline())
        time.sleep(0.1)  # its threads spin for a while
        return rate


def our_rate(ours, case, together, seconds):
    name, given, _, sizes, lengths = case
    shape = ",".join(["B", *("L" if size is None else str(size) for size in sizes[1:])])
    more = ["--shape", f"{given}:{shape}", "--lengths", f"uniform:{lengths[0]}:{lengths[1]}"]
    return ours.ask(name, together, seconds, *more)["rate_achieved"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--torch", default="/usr/bin/python3", help="a Python that has torch and onnx")
    parser.add_argument("--document", default="pictures", choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    rates = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        export(folder, args.torch, args.document)
        ours, peer = Ours(args.build.resolve(), args.threads, folder), Peer(args.threads, folder)
        for _ in range(args.rounds):
            for case in CASES[args.document]:
                for together in (1, 16):
                    rates.setdefault((case[0], f"cellbatch, {together} under way"), []).append(
                        our_rate(ours, case, together, args.seconds)
                    )
                for batch in (1, 8):
                    way = "one at a time" if batch == 1 else "8 padded"
                    rates.setdefault((case[0], f"ONNX Runtime, {way}"), []).append(
                        peer.rate(case, batch, args.seconds)
                    )
        ours.close()
        peer.process.stdin.close()
        peer.process.wait()
    print(f"{page.cpu_model()}, {len(os.sched_getaffinity(0))} CPUs, {page.caches()}; commit {page.commit()}")
    print(f"ONNX Runtime {peer.version}; {args.threads} threads each; answers a second, medians (least, most)")
    for (model, way), seen in rates.items():
        print(f"{model:8} {way:30} {statistics.median(seen):7.1f}  ({min(seen):.1f}, {max(seen):.1f})")


if __name__ == "__main__":
    main()
