"""The protocol of `cellbatch-bench kernels --serve` (bench/serve.h), spoken by a peer.

Two commands more: `about` answers with versions, `empty N` times N calls that compute nothing.
A peer gives
    about()                      what it is, as a JSON object
    load(cell, shape, tensors)   a function that runs the sequence and returns y
    empty(shape)                 a function that takes x and hands it back
"""

import json
import statistics
import sys
import time

import cells


class Session:
    """What is open."""

    def __init__(self, peer, cell, shape, folder):
        self.cell = cells.CELLS[cell]
        self.shape = cells.parse_shape(shape)
        self.folder = folder
        names = ("w", "r", "b", "x")
        tensors = {n: cells.read_tensor(folder, n, self.cell, self.shape) for n in names}
        self.run = peer.load(self.cell, self.shape, tensors)
        self.empty = peer.empty(self.shape)
        self.y = None


def timed(call, runs):
    """Times every call by the clock; returns the times and the last result."""
    times_ns = []
    result = None
    for _ in range(runs):
        start_ns = time.perf_counter_ns()
        result = call()
        times_ns.append(time.perf_counter_ns() - start_ns)
    median_ms = statistics.median(times_ns) / 1e6
    return {"runs": runs, "ms_p50": median_ms, "ms_min": min(times_ns) / 1e6}, result


def execute(peer, session, words):
    """Returns the answer and the session."""
    match words:
        case ["about"]:
            return peer.about(), session
        case ["open", cell, shape, folder] if session is None:
            return {"cell": cell}, Session(peer, cell, shape, folder)
        case ["run", runs] if session is not None:
            answer, session.y = timed(session.run, int(runs))
            return answer, session
        case ["empty", runs] if session is not None:
            return timed(session.empty, int(runs))[0], session
        case ["write"] if session is not None and session.y is not None:
            y = session.y.reshape(cells.tensor_shapes(session.cell, session.shape)["y"])
            cells.write_tensor(session.folder, "y", y)
            return {"floats": y.size}, session
        case ["close"] if session is not None:
            return {}, None
    raise ValueError(f"cannot do {' '.join(words)} now")


def serve(peer):
    session = None
    for line in sys.stdin:
        try:
            answer, session = execute(peer, session, line.strip().split(maxsplit=3))
            print(json.dumps(answer), flush=True)
        except Exception as error:  # whatever a library raises is an answer
            print("error:", " ".join(str(error).split()), flush=True)
