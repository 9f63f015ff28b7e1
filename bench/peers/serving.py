#!/usr/bin/env python3
"""One model asked by many: cells as they come (cellbatch-bench policies) beside ONNX Runtime, PyTorch and
DyNet, which are given whole requests: one by one, padded in buckets as dynamic batchers do, packed, merged
by depth, or as DyNet batches by itself. Nobody has a server around: ours is the engine, a peer a loop that
calls the library (asked*.py). They take turns; medians.

First what each can with so many clients that always ask again, then open loops with Poisson arrivals at
parts of what ours can. A latency counts from when a request should have come.

Usage: serving.py --bench build/release/cellbatch-bench --lengths FILE.tsv [--lstm 256x256 |
--seq2seq 8000x512] [--threads 1]
       serving.py --bench build/release/cellbatch-bench --tree 256x256 --lengths FILE.shapes
"""

import argparse
import collections
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

import page
from asked import OnnxLstm, OnnxSeq2seq, TorchLstm, TorchSeq2seq
from asked_dynet import DynetLstm, DynetTree
from asked_trees import OnnxTree, TorchTree, read_trees

GROUP = 64  # the most requests of a call
BUCKET = 10  # lengths that are padded to one another
CLIENTS = 256
PAUSE_S = 0.2  # a library's threads spin for a while

PEERS = {
    "lstm": {"onnxruntime": OnnxLstm, "torch": TorchLstm, "dynet": DynetLstm},
    "seq2seq": {"onnxruntime": OnnxSeq2seq, "torch": TorchSeq2seq},
    "tree": {"onnxruntime": OnnxTree, "torch": TorchTree, "dynet": DynetTree},
}
WAYS = {
    "lstm": {"onnxruntime": ("single", "padded"), "torch": ("single", "padded", "packed"), "dynet": ("batched",)},
    "seq2seq": {"onnxruntime": ("single", "padded"), "torch": ("single", "padded")},
    "tree": {"onnxruntime": ("single", "merged"), "torch": ("single", "merged"), "dynet": ("batched",)},
}


# ---- A peer: its own process, {"way", "rate" or "clients", "seconds", "seed"} a line ----


class Waiting:
    """Requests that wait: (should have come at, (steps, steps of its answer)), of trees (leaves, tree), in
    one line or in buckets of steps that take turns."""

    def __init__(self, way):
        self.width = BUCKET if way == "padded" else 0
        self.queues, self.turn, self.n = collections.OrderedDict(), 0, 0
        self.most = 1 if way == "single" else GROUP

    def add(self, request):
        bucket = (request[1][0] - 1) // self.width if self.width else 0
        self.queues.setdefault(bucket, collections.deque()).append(request)
        self.n += 1

    def take(self):
        bucket, queue = next(iter(self.queues.items()))
        group = [queue.popleft() for _ in range(min(len(queue), self.most))]
        del self.queues[bucket]
        if queue:
            self.queues[bucket] = queue  # behind the others
        self.n -= len(group)
        return group


def serve_for(peer, lengths, asked):
    """Latencies in seconds of what was answered within the time, and how many a second that were."""
    draw = random.Random(asked["seed"])
    waiting, latencies = Waiting(asked["way"]), []
    begun = time.perf_counter()
    end, due = begun + asked["seconds"], begun
    for _ in range(asked.get("clients", 0)):
        waiting.add((begun, draw.choice(lengths)))
    while (now := time.perf_counter()) < end:
        while "rate" in asked and due <= now:
            waiting.add((due, draw.choice(lengths)))
            due += draw.expovariate(asked["rate"])
        if waiting.n == 0:
            time.sleep(max(0, min(due, end) - now - 5e-5))
            continue
        group = waiting.take()
        peer.call(asked["way"], [lengths for _, lengths in group])
        now = time.perf_counter()
        latencies += [now - came for came, _ in group]
        for _ in range(len(group) if "clients" in asked else 0):
            waiting.add((now, draw.choice(lengths)))
    return latencies, len(latencies) / asked["seconds"]


def run_peer(args):
    lengths = read_shapes(args.lengths) if args.model == "tree" else read_lengths(args.lengths)
    longest = max(steps for steps, _ in lengths)
    sizes = map(int, args.size.split("x"))
    peer = PEERS[args.model][args.peer](*sizes, longest, args.threads)
    print(json.dumps({"version": peer.version}), flush=True)
    for line in sys.stdin:
        latencies, rate = serve_for(peer, lengths, json.loads(line))
        latencies.sort()
        at = lambda part: 1e3 * latencies[int(part * (len(latencies) - 1))] if latencies else 0
        print(json.dumps({"rate": rate, "p50": at(0.5), "p99": at(0.99)}), flush=True)


# ---- The driver ----


def read_shapes(path):
    import numpy  # which the driver has no need of

    return [(tree.leaves, tree) for tree in read_trees(numpy, path)]


def read_lengths(path):
    """Steps and, where there is a second column, those of answers."""
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    fields = [line.split() for line in lines if line and not line.startswith("#")]
    return [(int(one[0]), int(one[1]) if len(one) > 1 else 0) for one in fields]


class Peer:
    def __init__(self, kind, python, args):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        command = [python, __file__, "--peer", kind, f"--{args.model}", args.size, "--lengths", args.lengths]
        self.process = subprocess.Popen(
            command + ["--threads", str(args.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **{name: str(args.threads) for name in names}},
            text=True,
        )
        self.version = json.loads(self.process.stdout.readline())["version"]

    def run(self, **asked):
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        time.sleep(PAUSE_S)
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def our_runs(args, rates):
    """What ours can, then a run at each rate; one round."""
    kind = "trees" if args.model == "tree" else "trace"
    printed = subprocess.run(
        [args.bench, "policies", f"--{args.model}", args.size, "--lengths", f"{kind}:{args.lengths}", "--json"]
        + (["--answers", f"trace:{args.lengths}:target"] if args.model == "seq2seq" else [])
        + ["--policies", "cellular", "--rounds", "1", "--seconds", str(args.seconds)]
        + ["--clients", str(CLIENTS), "--threads", str(args.threads)]
        + ["--rates", ",".join(f"{rate:.1f}" for rate in rates)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [
        {"rate": one["answered_per_s"], "p50": one["p50_ms"], "p99": one["p99_ms"]}
        for one in map(json.loads, printed.splitlines())
    ]


def measure(args, peers):
    """{(way, rate or None): answers of all rounds}, and the rates."""
    can = our_runs(args, [args.parts[0]])[0]["rate"]
    rates = [part * can for part in args.parts]
    seen = collections.defaultdict(list)
    for number in range(args.rounds):
        for rate, answer in zip([None, *rates], our_runs(args, rates)):
            seen["cellbatch, cells", rate].append(answer)
        for kind, peer in peers.items():
            for way in WAYS[args.model][kind]:
                for rate in [None, *rates]:
                    load = {"clients": CLIENTS} if rate is None else {"rate": rate}
                    answer = peer.run(way=way, seconds=args.seconds, seed=number, **load)
                    seen[f"{kind}, {way}", rate].append(answer)
    return seen, rates


def table(seen, rates):
    print("| way | can, requests/s | " + " | ".join(f"at {rate:.0f}" for rate in rates) + " |")
    print("|---|---|" + "---|" * len(rates))
    median = lambda way, rate, what: statistics.median(one[what] for one in seen[way, rate])
    for way in dict.fromkeys(way for way, _ in seen):
        cells = [f"{median(way, None, 'rate'):,.0f}"]
        for rate in rates:
            is_late = median(way, rate, "rate") < 0.9 * rate
            times = [float(f"{median(way, rate, what):.2g}") for what in ("p50", "p99")]
            cells.append("more than it can" if is_late else "{:g}, {:g}".format(*times))
        print(f"| {way} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench", help="cellbatch-bench")
    parser.add_argument("--lstm", default="256x256", help="INPUTSxUNITS")
    parser.add_argument("--seq2seq", help="WORDSxUNITS: an LSTM that reads and one that answers instead")
    parser.add_argument("--tree", help="INPUTSxUNITS: a binary TreeLSTM instead")
    parser.add_argument(
        "--lengths", required=True, help="a length a line, of answers in the second column; of trees their shapes"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--parts", default="0.2,0.5,0.8", help="of what ours can: the open loops")
    parser.add_argument("--torch-python", default="/usr/bin/python3", help="a Python with torch; empty: none")
    parser.add_argument("--dynet-python", default=sys.executable, help="a Python with DyNet; empty: none")
    parser.add_argument("--peer", choices=PEERS["lstm"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.parts = [float(part) for part in args.parts.split(",")]
    args.model = "seq2seq" if args.seq2seq else "tree" if args.tree else "lstm"
    args.size = args.seq2seq or args.tree or args.lstm
    if args.peer:
        run_peer(args)
        return
    peers = {"onnxruntime": Peer("onnxruntime", sys.executable, args)}
    for kind, python in (("torch", args.torch_python), ("dynet", args.dynet_python)):
        if python and kind in PEERS[args.model]:
            peers[kind] = Peer(kind, python, args)
    seen, rates = measure(args, peers)
    for peer in peers.values():
        peer.close()
    versions = ", ".join(f"{kind} {peer.version}" for kind, peer in peers.items())
    print(f"{page.cpu_model()}, {len(os.sched_getaffinity(0))} CPUs, {page.caches()}; commit {page.commit()}")
    print(f"{versions}; {args.model} {args.size}, {args.threads} threads each; p50, p99 in ms, medians of {args.rounds}\n")
    table(seen, rates)


if __name__ == "__main__":
    main()
