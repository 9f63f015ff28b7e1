#!/usr/bin/env python3
"""Pictures and spectrograms of many widths (docs/pictures.md): how many a second the daemon answers, over
gRPC, with 1 and 16 under way, beside ONNX Runtime called directly, one picture at a time and in batches of
8 padded to the widest. (What a bidirectional layer makes of padding is not what it makes of the picture;
only the time is compared.) They take turns; medians of the rounds.

Usage: pictures.py --build build/release [--rounds 5] [--seconds 3] [--threads 2]
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

# Name in docs/pictures.md, input, height, widths.
CASES = [("lines", "picture", 32, (40, 200)), ("speech", "frames", 161, (60, 300))]
PEER = """
import json, sys, time
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[1])
sessions = {}
print(json.dumps({"version": onnxruntime.__version__}), flush=True)
def padded(pictures):
    out = numpy.zeros((len(pictures), 1, pictures[0].shape[2], max(p.shape[3] for p in pictures)), numpy.float32)
    for i, picture in enumerate(pictures):
        out[i, :, :, : picture.shape[3]] = picture[0]
    return out
for line in sys.stdin:
    asked = json.loads(line)
    name, given, batch = asked["model"], asked["input"], asked["batch"]
    if name not in sessions:
        sessions[name] = onnxruntime.InferenceSession(f"my-models/{name}/1/model.onnx", options, providers=["CPUExecutionProvider"])
    rng = numpy.random.default_rng(1)
    widths = rng.integers(asked["widths"][0], asked["widths"][1] + 1, 160)
    pictures = [rng.standard_normal((1, 1, asked["height"], w)).astype(numpy.float32) for w in widths]
    batches = [padded(pictures[i : i + batch]) for i in range(0, len(pictures), batch)]
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
        name, given, height, widths = case
        asked = {"model": name, "input": given, "height": height, "widths": widths, "batch": batch}
        self.process.stdin.write(json.dumps({**asked, "seconds": seconds}) + "\n")
        self.process.stdin.flush()
        rate = json.loads(self.process.stdout.readline())
        time.sleep(0.1)  # its threads spin for a while
        return rate


def our_rate(ours, case, together, seconds):
    name, given, height, widths = case
    shape, lengths = f"{given}:B,1,{height},L", f"uniform:{widths[0]}:{widths[1]}"
    return ours.ask(name, together, seconds, "--shape", shape, "--lengths", lengths)["rate_achieved"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--torch", default="/usr/bin/python3", help="a Python that has torch and onnx")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    rates = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        export(folder, args.torch, "pictures")
        ours, peer = Ours(args.build.resolve(), args.threads, folder), Peer(args.threads, folder)
        for _ in range(args.rounds):
            for case in CASES:
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
