#!/usr/bin/env python3
"""The readers of docs/readers.md at DeepCPU's sizes (USENIX ATC 2018, tables 2 to 4, figure 6): one
request at a time through the daemon, over gRPC, beside ONNX Runtime and PyTorch in their own processes,
called directly. They take turns; medians of all calls of all rounds.

Usage: readers.py --build build/release [--out FILE] [--rounds 5] [--seconds 2] [--threads 2]
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import page

GRPC, HTTP = 18101, 18102
# Name, model, {input: shape}: T@K is one query and K documents.
CASES = [
    (f"text similarity, T@{k}", "similarity", {"query": (1, 20, 200), "documents": (k, 20, 200)})
    for k in (1, 10, 15, 20, 33)
] + [
    ("attention-sum reader", "asr", {"question": (10, 20, 200), "text": (10, 100, 200)}),
    ("BiDAF", "bidaf", {"question": (1, 15, 50), "text": (1, 100, 50)}),
]
PEER = """
import json, os, sys, time
threads, kind = int(sys.argv[1]), sys.argv[2]
if kind == "torch":
    import torch, readers_model
    torch.set_num_threads(threads)
else:
    import numpy, onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    sessions = {}
def call_of(model, shapes):
    if kind == "torch":
        inputs = [torch.randn(*shape) for shape in shapes.values()]
        def run():
            with torch.inference_mode():
                getattr(readers_model, model)(*inputs)
        return run
    if model not in sessions:
        path = f"my-models/{model}/1/model.onnx"
        sessions[model] = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {n: numpy.random.normal(size=s).astype(numpy.float32) for n, s in shapes.items()}
    return lambda: sessions[model].run(None, feed)
print(json.dumps({"version": torch.__version__ if kind == "torch" else onnxruntime.__version__}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    call = call_of(asked["model"], asked["shapes"])
    call(); call()
    times, end = [], time.perf_counter() + asked["seconds"]
    while time.perf_counter() < end or len(times) < 3:
        begun = time.perf_counter()
        call()
        times.append((time.perf_counter() - begun) * 1e3)
    print(json.dumps(times), flush=True)
"""


class Peer:
    def __init__(self, kind, python, threads, folder):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        self.process = subprocess.Popen(
            [python, "-c", PEER, str(threads), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, **{name: str(threads) for name in names}},
            text=True,
        )
        self.version = json.loads(self.process.stdout.readline())["version"]

    def times(self, model, shapes, seconds):
        asked = {"model": model, "shapes": shapes, "seconds": seconds}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        times = json.loads(self.process.stdout.readline())
        time.sleep(0.1)  # its threads spin for a while
        return times

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Ours:
    def __init__(self, build, threads, folder):
        self.load = build / "cellbatch-load"
        self.process = subprocess.Popen(
            [build / "cellbatchd", "--model-repository", "my-models", "--threads", str(threads)]
            + ["--grpc-port", str(GRPC), "--http-port", str(HTTP), "--log-level", "error"],
            cwd=folder,
        )
        for _ in range(600):
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(f"http://127.0.0.1:{HTTP}/v2/health/ready").status == 200:
                    return
            time.sleep(0.1)
        sys.exit("the daemon does not become ready")

    def ask(self, model, together, seconds, *more, warmup=0.5):
        """What cellbatch-load has seen in so many seconds, with so many requests under way."""
        printed = subprocess.run(
            [self.load, "--target", f"127.0.0.1:{GRPC}", "--model", model, "--concurrency", str(together)]
            + ["--duration", str(seconds), "--warmup", str(warmup), "--cooldown", "0", "--json", *more],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        return json.loads(printed.splitlines()[-1])

    def times(self, model, shapes, seconds):
        wanted = [f"--shape={name}:{','.join(map(str, s))}" for name, s in shapes.items()]
        return [self.ask(model, 1, seconds, *wanted, warmup=0.3)["latency_ms"]["p50"]]

    def close(self):
        self.process.terminate()
        self.process.wait()


def export(folder, python, name):
    """Runs docs/NAME.md's block NAME_model.py."""
    root = pathlib.Path(__file__).resolve().parents[2]
    text = (root / f"docs/{name}.md").read_text()
    block = re.search(rf"<!-- run: {name}_model.py -->\n```python\n(.*?)```", text, re.S).group(1)
    (folder / f"{name}_model.py").write_text(block)
    subprocess.run([python, f"{name}_model.py"], cwd=folder, check=True, stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--torch", default="/usr/bin/python3", help="a Python that has torch and onnx")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        export(folder, args.torch, "readers")
        engines = {
            "cellbatch": Ours(args.build.resolve(), args.threads, folder),
            "ONNX Runtime": Peer("onnxruntime", sys.executable, args.threads, folder),
            "PyTorch": Peer("torch", args.torch, args.threads, folder),
        }
        times = {(case[0], engine): [] for case in CASES for engine in engines}
        for turn in range(args.rounds):
            order = list(engines)[turn % 3 :] + list(engines)[: turn % 3]
            for title, model, shapes in CASES:
                for engine in order:
                    times[title, engine] += engines[engine].times(model, shapes, args.seconds)
        about = ", ".join(f"{n} {e.version}" for n, e in engines.items() if hasattr(e, "version"))
        for engine in engines.values():
            engine.close()
    lines = ["| model | cellbatch, ms | ONNX Runtime, ms | PyTorch, ms | ratio to each |", "|---|---|---|---|---|"]
    for title, _, _ in CASES:
        ours, onnx, torch = (statistics.median(times[title, engine]) for engine in engines)
        lines.append(f"| {title} | {ours:.2f} | {onnx:.2f} | {torch:.2f} | {onnx / ours:.2f}, {torch / ours:.2f} |")
    text = f"""# Readers

{page.cpu_model()}, {len(os.sched_getaffinity(0))} CPUs, {page.caches()}; load before {load:.2f}; commit {page.commit()};
{about}; {args.threads} threads each.

One request at a time; ours through the daemon over gRPC on the loopback, with the tensors on the wire, the others called in their own
processes; {args.rounds} rounds in turns of {args.seconds:g} s, medians. Command: `{" ".join(["readers.py"] + sys.argv[1:])}`. Models:
[readers.md](../readers.md), at the sizes of DeepCPU's table 2; T@K is one query and K documents in one request.

""" + "\n".join(lines) + "\n"
    if args.out is None:
        print(text)
    else:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text)


if __name__ == "__main__":
    main()
