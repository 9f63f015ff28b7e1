#!/usr/bin/env python3
"""A transducer (docs/transducers.md): recordings of many lengths, and chunks of streams, how many a second the
daemon answers over gRPC, beside the same search in Python over ONNX Runtime, one at a time: what its three
files are asked by without a server. They take turns; medians of the rounds. ONNX Runtime's encoder has as many
threads as ours, its predictor and joiner one, with which they are faster; of a chunk it begins with zeros, which
takes as long.

Usage: transducers.py --build build/release [--rounds 5] [--seconds 3] [--threads 2]
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
from readers import Ours

BANDS, MAX_SYMBOLS = 240, 5
RECORDING, CHUNK = (50, 150), (16, 16)  # frames
# Three LSTMs of 512 units, one in the predictor, 500 labels; weights at random, so that a label comes about every
# fourth frame.
EXPORT = f"""
import pathlib, torch
from torch import nn
UNITS, LABELS = 512, 500
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM({BANDS}, UNITS, num_layers=3, batch_first=True)
    def forward(self, frames):
        return self.rnn(frames)[0]
class Predictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.cell = nn.Embedding(LABELS, UNITS), nn.LSTMCell(UNITS, UNITS)
    def forward(self, token, h, c):
        h, c = self.cell(self.embedding(token), (h, c))
        return h, h, c
class Joiner(nn.Module):
    def __init__(self):
        super().__init__()
        self.heard, self.said, self.out = nn.Linear(UNITS, UNITS), nn.Linear(UNITS, UNITS), nn.Linear(UNITS, LABELS)
    def forward(self, heard, said):
        return self.out(torch.tanh(self.heard(heard) + self.said(said)))
torch.manual_seed(3)
encoder, predictor, joiner = Encoder().eval(), Predictor().eval(), Joiner().eval()
with torch.no_grad():
    for parameter in encoder.rnn.parameters():
        parameter *= 3
    predictor.cell.weight_ih *= 3
    predictor.cell.weight_hh *= 2
    joiner.heard.weight *= 4
    joiner.said.weight *= 4
    joiner.out.weight *= 6
    joiner.out.bias[0] += 4.2
def export(module, name, example, inputs, outputs, axes):
    for model in ("recordings", "streams"):
        folder = pathlib.Path(f"my-models/{{model}}/1")
        folder.mkdir(parents=True, exist_ok=True)
        torch.onnx.export(module, example, f"{{folder}}/{{name}}.onnx", input_names=inputs, output_names=outputs,
                          dynamic_axes={{n: axes for n in inputs + outputs}})
        states = "states: recurrent\\n" if model == "streams" else ""
        (folder.parent / "config.yaml").write_text("unfold: transducer\\nmax-symbols: {MAX_SYMBOLS}\\n" + states)
row = torch.zeros(2, UNITS)
export(encoder, "encoder", torch.zeros(2, 9, {BANDS}), ["frames"], ["heard"], {{0: "batch", 1: "time"}})
export(predictor, "decoder", (torch.zeros(2, dtype=torch.int64), row, row), ["token", "h", "c"],
       ["said", "h_next", "c_next"], {{0: "rows"}})
export(joiner, "joiner", (row, row.clone()), ["heard", "said"], ["logits"], {{0: "rows"}})
"""
PEER = f"""
import json, sys, time
import numpy, onnxruntime
def session(name, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(f"my-models/recordings/1/{{name}}.onnx", options, providers=["CPUExecutionProvider"])
encoder, predictor, joiner = session("encoder", int(sys.argv[1])), session("decoder", 1), session("joiner", 1)
zeros = numpy.zeros((1, 512), numpy.float32)
def predict(label, h, c):
    return predictor.run(None, {{"token": numpy.array([label]), "h": h, "c": c}})
def search(frames):
    labels = 0
    said, h, c = predict(0, zeros, zeros)
    heard = encoder.run(None, {{"frames": frames}})[0][0]
    for t in range(len(heard)):
        for _ in range({MAX_SYMBOLS}):
            label = int(joiner.run(None, {{"heard": heard[t : t + 1], "said": said}})[0].argmax())
            if label == 0:
                break
            labels += 1
            said, h, c = predict(label, h, c)
    return labels
print(json.dumps({{"version": onnxruntime.__version__}}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    rng = numpy.random.default_rng(1)
    lengths = rng.integers(asked["lengths"][0], asked["lengths"][1] + 1, 64)
    sounds = [rng.uniform(-1, 1, (1, n, {BANDS})).astype(numpy.float32) for n in lengths]
    search(sounds[0])
    n, labels, frames, begun = 0, 0, 0, time.perf_counter()
    while time.perf_counter() - begun < asked["seconds"]:
        sound = sounds[n % len(sounds)]
        labels += search(sound)
        frames += sound.shape[1]
        n += 1
    print(json.dumps({{"rate": n / (time.perf_counter() - begun), "labels": labels / frames}}), flush=True)
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
        self.labels = 0.0

    def rate(self, lengths, seconds):
        self.process.stdin.write(json.dumps({"lengths": lengths, "seconds": seconds}) + "\n")
        self.process.stdin.flush()
        seen = json.loads(self.process.stdout.readline())
        self.labels = seen["labels"]
        time.sleep(0.1)  # its threads spin for a while
        return seen["rate"]


def our_rate(ours, model, together, lengths, seconds):
    more = ["--sequence-length", "12"] if model == "streams" else []
    return ours.ask(model, together, seconds, "--lengths", f"uniform:{lengths[0]}:{lengths[1]}", *more)["rate_achieved"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--torch", default="/usr/bin/python3", help="a Python that has torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    rates = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([args.torch, "-c", EXPORT], cwd=folder, check=True, stderr=subprocess.DEVNULL)
        ours, peer = Ours(args.build.resolve(), args.threads, folder), Peer(args.threads, folder)
        cases = [("recordings", RECORDING, (1, 16)), ("streams", CHUNK, (1, 16, 64))]
        for _ in range(args.rounds):
            for model, lengths, many in cases:
                rates.setdefault((model, "ONNX Runtime, one at a time"), []).append(peer.rate(lengths, args.seconds))
                for together in many:
                    rates.setdefault((model, f"cellbatch, {together} under way"), []).append(
                        our_rate(ours, model, together, lengths, args.seconds)
                    )
        ours.close()
        peer.process.stdin.close()
        peer.process.wait()
    print(f"{page.cpu_model()}, {len(os.sched_getaffinity(0))} CPUs, {page.caches()}; commit {page.commit()}")
    print(
        f"ONNX Runtime {peer.version}; {args.threads} threads each; answers a second, medians (least, most); recordings of"
        f" {RECORDING[0]} to {RECORDING[1]} frames, chunks of {CHUNK[0]}"
    )
    for (model, way), seen in rates.items():
        print(f"{model:10} {way:28} {statistics.median(seen):7.1f}  ({min(seen):.1f}, {max(seen):.1f})")


if __name__ == "__main__":
    main()
