#!/usr/bin/env python3
"""cellbatch beside ONNX Runtime and PyTorch: the same cells, weights and inputs, in one run.

Each is a process of its own, and all speak one protocol (bench/serve.h, peer.py). For each shape they
take turns: a turn is some untimed runs, then some timed ones, then a pause, since the threads of a
peer spin for a while after its last run. What the others' processes compute during a turn is measured.
A time is the median of the turns' medians. Outputs are compared; one that differs by more than 1e-5
makes the exit status 1. Beside them stands what the machine's limits allow (bench/limits.h): where a
peer is near it, no engine can be far ahead.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import cells
import page

HERE = pathlib.Path(__file__).parent
TOLERANCE = 1e-5
LONG_STEPS = 100  # the rows that the geometric means are of
RUNS_MIN, RUNS_MAX = 3, 2000


class Refused(Exception):
    """A process answered `error: ...`."""


class Unavailable(Exception):
    """Ours does not have the kind of cell: the others are not measured alone."""


class Engine:
    """One process, and what was measured of it."""

    def __init__(self, name, command, threads):
        environment = dict(os.environ)
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment[variable] = str(threads)
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline()
        if not answer:
            raise Refused(f"{self.name} has ended")
        if answer.startswith("error: "):
            raise Refused(f"{self.name}: {answer[len('error: '):].strip()}")
        return json.loads(answer)

    def cpu_ns(self):
        """CPU time of all its threads so far, those that have ended too."""
        return time.clock_gettime_ns(cpu_clock(self.process.pid))

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def cpu_clock(pid):
    """The number that clock_getcpuclockid(3) gives, which Python does not have."""
    return ~pid << 3 | 2


# ---- Turns --------------------------------------------------------------------------------------


def round_trip_ns(ours, threads):
    """How far two CPUs are from each other just now; None where one thread computes."""
    return ours.ask("round_trip")["round_trip_ns"] if threads > 1 else None


def turn(engine, engines, runs):
    """Returns the median and how many CPUs' time the others took meanwhile."""
    others = [other for other in engines if other is not engine]
    engine.ask(f"run {max(1, runs // 10)}")
    start_ns, before_ns = time.perf_counter_ns(), sum(other.cpu_ns() for other in others)
    ms = engine.ask(f"run {runs}")["ms_p50"]
    other_ns = sum(other.cpu_ns() for other in others) - before_ns
    return ms, other_ns / (time.perf_counter_ns() - start_ns)


def runs_for(engine, budget_ms):
    engine.ask("run 1")
    once_ms = engine.ask("run 2")["ms_p50"]
    return max(RUNS_MIN, min(RUNS_MAX, int(budget_ms / once_ms)))


def output(engine, folder, cell, shape):
    engine.ask("write")
    return cells.read_tensor(folder, "y", cell, shape).copy()


def measure(engines, cell, shape, folder, options):
    """One row: a dict of numbers. engines[0] is ours."""
    line = f"{cell.name} {shape} {folder}"
    row = {"cell": cell.name, "input": shape.inputs, "hidden": shape.hidden, "rows": shape.rows}
    row |= {"steps": shape.steps, "threads": options.now, "precision": "fp32"}
    opened = []
    try:
        for engine in engines:
            try:
                engine.ask(f"open {line}")
            except Refused as refused:
                raise Unavailable(refused) if engine is engines[0] else refused
            opened.append(engine)
        runs = {engine.name: runs_for(engine, options.ms) for engine in engines}
        turns = {engine.name: [] for engine in engines}
        empty = {engine.name: [] for engine in engines[1:]}
        trips = {engine.name: [] for engine in engines}
        row["engines_cpu"] = 0.0
        for alternation in range(options.alternations):
            for i in range(len(engines)):
                engine = engines[(alternation + i) % len(engines)]
                time.sleep(options.pause)
                trips[engine.name].append(round_trip_ns(engines[0], options.now))
                ms, others = turn(engine, engines, runs[engine.name])
                turns[engine.name].append(ms)
                row["engines_cpu"] = max(row["engines_cpu"], others)
                if engine.name in empty:
                    empty[engine.name].append(engine.ask("empty 1000")["ms_p50"])
        outputs = {engine.name: output(engine, folder, cell, shape) for engine in engines}
    finally:
        for engine in opened:
            engine.ask("close")
    ours = engines[0].name
    for name, times in turns.items():
        row[f"{name}_ms"] = statistics.median(times)
        row[f"{name}_ms_turns"] = times
        row[f"{name}_round_trip_ns_turns"] = trips[name]
    for name, times in empty.items():
        row[f"{name}_empty_ms"] = statistics.median(times)
        left_ms = row[f"{name}_ms"] - (row[f"{name}_empty_ms"] if is_short(row) else 0.0)
        row[f"{name}_ratio"] = left_ms / row[f"{ours}_ms"]
        row[f"{name}_diff"] = float(numpy.max(numpy.abs(outputs[name] - outputs[ours])))
    return row


def is_short(row):
    return row["steps"] != LONG_STEPS


class Meter:
    """What else the machine does while we measure, in CPUs."""

    def __init__(self, engines):
        self.engines = engines
        self.start = self.read()

    def read(self):
        """Seconds: the clock, all CPUs busy, those stolen by the host, ours."""
        with open("/proc/stat", encoding="utf-8") as stat:
            user, nice, system, _, _, irq, softirq, stolen = map(int, stat.readline().split()[1:9])
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        own_s = sum(engine.cpu_ns() for engine in self.engines) / 1e9 + time.process_time()
        busy = user + nice + system + irq + softirq
        return time.monotonic(), busy * tick_s, stolen * tick_s, own_s

    def cpus(self):
        seconds, busy, stolen, own = (b - a for a, b in zip(self.start, self.read()))
        return {"other_cpus": max(0.0, busy - own) / seconds, "stolen_cpus": stolen / seconds}


def geometric_mean(ratios):
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios)) if ratios else None


# Nanoseconds there and back. One core's two threads need 40 to 70, cores of one L3 90 to 240, others 500.
ONE_CORE_NS, ONE_L3_NS = 80, 300


def places(rows, name):
    """Turns in which two CPUs were threads of one core, shared an L3, shared nothing; None: 1 thread.

    A virtual machine's CPUs change place: two on one core compute no more than one.
    """
    trips = [ns for row in rows for ns in row[f"{name}_round_trip_ns_turns"]]
    if None in trips:
        return None
    one_core = sum(ns < ONE_CORE_NS for ns in trips)
    one_l3 = sum(ONE_CORE_NS <= ns < ONE_L3_NS for ns in trips)
    return [one_core, one_l3, len(trips) - one_core - one_l3]


def summary(rows, engines, meter):
    """Geometric means of the peers' times over ours, and of each one's best over the roofline."""
    long_rows = [row for row in rows if not is_short(row)]
    line = {"cell": rows[0]["cell"], "threads": rows[0]["threads"], "rows": len(long_rows)}
    for engine in engines:
        best = [min(row[f"{engine.name}_ms_turns"]) / row["roofline_ms"] for row in long_rows]
        line[f"{engine.name}_bound"] = geometric_mean(best)
        line[f"{engine.name}_places"] = places(rows, engine.name)
    for engine in engines[1:]:
        ratios = [row[f"{engine.name}_ratio"] for row in long_rows]
        line[f"{engine.name}_geomean"] = geometric_mean(ratios)
        line[f"{engine.name}_diff"] = max(row[f"{engine.name}_diff"] for row in rows)
    line["engines_cpu"] = max(row["engines_cpu"] for row in rows)
    return line | meter.cpus()


# ---- The whole run ------------------------------------------------------------------------------


def start(options, threads):
    pin = ["--pin"] if options.pin else []
    count = str(threads)
    ours = [options.bench, "kernels", "--serve", "--threads", count, "--isa", options.isa, *pin]
    peer = [sys.executable, str(HERE / "peer_onnxruntime.py"), count, *pin]
    engines = [Engine("cellbatch", ours, threads), Engine("onnxruntime", peer, threads)]
    if options.torch_python:
        peer = [options.torch_python, str(HERE / "peer_torch.py"), count]
        engines.append(Engine("torch", peer, threads))
    return engines


def rooflines(options, name):
    """Milliseconds for each shape: what products, activations and reading the weights must take."""
    shapes = ",".join(map(str, options.shapes))
    command = [options.bench, "kernels", "--backend", "cpu", "--json", "--ms", "10", "--cells", name]
    command += ["--threads", str(options.now), "--isa", options.isa, "--shapes", shapes]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    return [line["roofline_ms"] for line in found if "roofline_ms" in line]


def measure_cell(engines, name, options, folder, report):
    """The rows and their summary."""
    cell = cells.CELLS[name]
    rows = []
    limits = rooflines(options, name)
    meter = Meter(engines)
    for i, shape in enumerate(options.shapes):
        for tensor, values in cells.random_tensors(cell, shape, options.seed + i).items():
            cells.write_tensor(folder, tensor, values)
        rows.append(measure(engines, cell, shape, folder, options) | {"roofline_ms": limits[i]})
        report(rows[-1])
    last = summary(rows, engines, meter)
    report(last)
    return {"rows": rows, "summary": last}


def measure_all(options, report):
    """Returns versions, and for each number of threads and cell its rows, or why it is left out."""
    versions, results = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for threads in options.threads:
            options.now = threads
            engines = start(options, threads)
            for engine in engines[1:]:
                versions |= engine.ask("about")
            for name in options.cells:
                result = {"cell": name, "threads": threads}
                try:
                    result |= measure_cell(engines, name, options, folder, report)
                except Unavailable as unavailable:
                    result["left_out"] = str(unavailable)
                    report(result)
                results.append(result)
            for engine in engines:
                engine.end()
    return versions, results


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default="build/release/cellbatch-bench")
    parser.add_argument("--shapes", default="deepcpu", type=cells.parse_shapes)
    parser.add_argument("--cells", default="lstm,gru", type=lambda text: text.split(","))
    parser.add_argument(
        "--threads", default="2,1", type=lambda text: [int(n) for n in text.split(",")]
    )
    parser.add_argument("--isa", default="auto")
    parser.add_argument(
        "--pin", action="store_true", help="a CPU for each thread of ours and ONNX Runtime's"
    )
    parser.add_argument("--alternations", default=5, type=int)
    parser.add_argument("--ms", default=150.0, type=float, help="about what a turn takes")
    parser.add_argument("--pause", default=0.1, type=float, help="seconds before a turn")
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument(
        "--torch-python", default="/usr/bin/python3", help="a Python with torch; empty: without"
    )
    parser.add_argument("--json", action="store_true", help="JSON lines, not the page")
    parser.add_argument("--out", help="write the page here, too")
    return parser.parse_args()


def main():
    options = parse_arguments()
    unknown = [name for name in options.cells if name not in cells.CELLS]
    if unknown:
        sys.exit(f"no cell is called {unknown[0]}")
    command = "bench/peers/compare.py " + " ".join(sys.argv[1:])
    host = page.host(options.bench)

    def report(line):
        print(json.dumps(line) if options.json else page.progress(line), flush=True)

    if options.json:
        report(host | {"command": command})
    versions, results = measure_all(options, report)
    text = page.render(host | {"command": command, "versions": versions}, results, options)
    if options.out:
        pathlib.Path(options.out).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(options.out).write_text(text, encoding="utf-8")
    elif not options.json:
        print(text)
    diffs = [row[key] for r in results for row in r.get("rows", []) for key in row if key.endswith("_diff")]
    if not diffs:
        sys.exit("nothing was measured")
    if not max(diffs) <= TOLERANCE:  # a NaN fails, too
        sys.exit(f"outputs differ by {max(diffs):.3g}, more than {TOLERANCE:g}")


if __name__ == "__main__":
    main()
