"""nn.LSTM and nn.GRU of PyTorch on a GPU, as lines of JSON for scripts/gpu/peers.sh.

Usage: peers_torch.py [--seconds 170] [--device cuda] [--tiny]

The shapes of peers_cudnn.cu: GRNN's and those of BatchMaker's figure 3; `sequence` is one call for all
steps, `step in graph` a call a step, recorded into a CUDA graph. Which algorithm of cuDNN runs is PyTorch's
choice; the kernels that it came to are told at the end, in lines of part "torch kernels". Outputs of the
first and the last row are compared with the same module in double precision on the CPU. Cases not reached
within --seconds have failed. --device cpu --tiny runs through all of it without a GPU, on few small shapes.
"""

import argparse
import copy
import json
import os
import sys
import time

# Before CUDA starts: nothing may be loaded while something is timed.
os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")

import torch  # noqa: E402

EXIT_NO_GPU = 3
REPEATS, WARM_UPS = 200, 20
GRNN_STEPS, FIGURE_STEPS = 100, 20
CELLS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
# Tolerances are of outputs, which are within 1.
TYPES = {
    "fp32": (torch.float32, 1e-4),
    "tf32": (torch.float32, 1e-2),
    "fp16": (torch.float16, 2e-2),
    "bf16": (torch.bfloat16, 1e-1),
}


class Failure(Exception):
    """CUDA said no, or a result is wrong."""


def quantiles(us):
    ordered = sorted(us)
    rank = lambda part: ordered[max(1, -(-int(part * 100) * len(ordered) // 100)) - 1]
    return {"p50": rank(0.5), "p99": rank(0.99), "min": ordered[0], "n": len(ordered)}


class Card:
    """Where modules run, and its clock."""

    def __init__(self, device):
        self.device = device
        self.is_gpu = device != "cpu"

    def synchronize(self):
        if self.is_gpu:
            torch.cuda.synchronize()

    def repeat(self, launch, per_repeat, repeats):
        """Microseconds of one of `per_repeat` operations, by events and by the clock."""
        events, wall = [], []
        for i in range(-min(WARM_UPS, repeats), repeats):
            self.synchronize()
            start = time.perf_counter()
            if self.is_gpu:
                marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
                marks[0].record()
            launch()
            if self.is_gpu:
                marks[1].record()
            self.synchronize()
            seconds = time.perf_counter() - start
            if i >= 0:
                wall.append(seconds * 1e6 / per_repeat)
                if self.is_gpu:
                    events.append(marks[0].elapsed_time(marks[1]) * 1e3 / per_repeat)
        times = {"per_repeat": per_repeat, "wall_us": quantiles(wall)}
        if events:
            times["events_us"] = quantiles(events)
        return times


def use_tf32(is_wanted):
    torch.backends.cuda.matmul.allow_tf32 = is_wanted
    torch.backends.cudnn.allow_tf32 = is_wanted


def make(card, case):
    """The module, and inputs [steps, rows, hidden], whose last row is the first again."""
    torch.manual_seed(case["hidden"])
    dtype = TYPES[case["type"]][0]
    module = CELLS[case["cell"]](case["hidden"], case["hidden"]).to(dtype).to(card.device).eval()
    x = torch.rand(case["steps"], case["rows"], case["hidden"]) * 2 - 1
    x[:, -1] = x[:, 0]
    return module, x.to(dtype).to(card.device)


def largest_error(case, module, x, y):
    steps = min(case["steps"], 8) if case["hidden"] > 256 else case["steps"]
    exact = copy.deepcopy(module).cpu().double()
    with torch.inference_mode():
        wanted = exact(x[:steps, [0]].cpu().double())[0]
    got = y[:steps, [0, -1]].cpu().double()
    error = (got - wanted).abs().max().item()
    if not error <= TYPES[case["type"]][1]:  # nor when it is no number
        raise Failure(f"an output is off by {error}")
    return error


def passes_of(case):
    """How often all steps are gone through in a repeat: short ones so often that a launch's own time
    is lost."""
    return GRNN_STEPS // case["steps"] if case["steps"] < GRNN_STEPS and case["rows"] <= 64 else 1


def by_step(card, module, x, passes):
    """What runs all steps, a call each, and the list where it leaves the outputs of the first pass."""
    outs = []

    def run():
        outs.clear()
        state = None
        for call in range(x.shape[0] * passes):
            step = call % x.shape[0]
            out, state = module(x[step : step + 1], state)
            if call == step:
                outs.append(out)

    if not card.is_gpu:
        return run, outs
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay, outs


def measure(card, case, repeats):
    use_tf32(case["type"] == "tf32")
    module, x = make(card, case)
    passes = passes_of(case)
    with torch.inference_mode():
        if case["case"] == "sequence":
            y = module(x)[0]
            launch = lambda: [module(x) for _ in range(passes)]
        else:
            launch, outs = by_step(card, module, x, passes)
            launch()
            card.synchronize()
            y = torch.cat(outs)
        card.synchronize()
        found = {"max_error": largest_error(case, module, x, y)}
        found.update(card.repeat(launch, case["steps"] * passes, repeats))
    return found


def emit(entry):
    print(json.dumps(entry), flush=True)


def run(card, case, repeats, end):
    """One case; True when it went well."""
    entry = {"part": "torch", **case, "algorithm": "as PyTorch picks"}
    try:
        if time.monotonic() > end:
            raise Failure("not reached in time")
        entry.update(measure(card, case, repeats), checked=True, status="ok")
    except (Failure, RuntimeError) as error:
        entry.update(status="failed", reason=" ".join(str(error).split())[:300])
    emit(entry)
    return entry["status"] == "ok"


def kernels(card, case):
    """Names and counts of the kernels of one sequence, those that took longest first."""
    from torch.profiler import ProfilerActivity, profile

    use_tf32(case["type"] == "tf32")
    module, x = make(card, case)
    with torch.inference_mode():
        module(x)
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            module(x)
            card.synchronize()
    rows = sorted(seen.key_averages(), key=lambda e: -getattr(e, "device_time_total", 0))
    return "; ".join(f"{e.count} x {e.key[:80]}" for e in rows[:3])


def tell_kernels(card, cases, end):
    """Last, since a profiler may slow whatever comes after it."""
    for case in cases:
        entry = {"part": "torch kernels", **case}
        try:
            if time.monotonic() > end:
                raise Failure("not reached in time")
            entry.update(kernels=kernels(card, case), checked=True, status="ok")
        except Exception as error:  # pylint: disable=broad-except
            entry.update(status="unsupported", reason=" ".join(str(error).split())[:300])
        emit(entry)


def cases_of(form, cells, hidden, rows, steps):
    return [
        {"case": form, "cell": c, "hidden": h, "rows": r, "steps": steps, "type": t}
        for c in cells
        for h in hidden
        for r in rows
        for t in TYPES
    ]


def all_cases(is_tiny):
    if is_tiny:
        few = [cases_of(f, CELLS, [8], [1, 3], 4) for f in ("sequence", "step in graph")]
        return [c for cases in few for c in cases if c["type"] != "fp16"]
    units, rows = [64, 256, 1024], [1, 8, 10, 16, 20, 24]
    figure = [2**i for i in range(1, 12)]
    return (
        cases_of("sequence", CELLS, units, rows, GRNN_STEPS)
        + cases_of("step in graph", ["lstm"], [1024], figure, FIGURE_STEPS)
        + cases_of("sequence", ["lstm"], [1024], figure, FIGURE_STEPS)
        + cases_of("step in graph", CELLS, units, rows, FIGURE_STEPS)
    )


def about(card):
    entry = {"part": "torch", "case": "library", "checked": True, "status": "ok"}
    entry["torch"] = torch.__version__
    if card.is_gpu:
        entry["cudnn"] = torch.backends.cudnn.version()
        entry["device"] = torch.cuda.get_device_name()
    emit(entry)


def main():
    parser = argparse.ArgumentParser(description="nn.LSTM and nn.GRU on a GPU")
    parser.add_argument("--seconds", type=float, default=170.0)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("torch: no GPU: torch.cuda is not available", file=sys.stderr)
        return EXIT_NO_GPU
    card = Card(options.device)
    end = time.monotonic() + options.seconds
    about(card)
    repeats = 3 if options.tiny else REPEATS
    results = [run(card, case, repeats, end) for case in all_cases(options.tiny)]
    if card.is_gpu:
        picked = cases_of("sequence", CELLS, [64, 256, 1024], [1, 8], GRNN_STEPS)
        tell_kernels(card, picked, end + 20)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
