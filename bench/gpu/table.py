"""Markdown tables from the lines of JSON that scripts/gpu/ collects.

Usage: table.py FILE.jsonl...

A table for each part. Cells of cuDNN and PyTorch are one table a form, microseconds a step by events, with
types and algorithms as columns. A line that cannot be read is told on standard error; the others are
printed, and the exit status is 1.
"""

import json
import sys

STATUSES = ("ok", "unsupported", "failed")
QUANTILES = ("p50", "p99", "min")
FRAMES = ("machine", "clocks")  # what all was measured with: no cases
SHAPE = ("case", "cell", "hidden", "rows", "steps")
HIDDEN = {"part", "case", "status", "reason", "checked"}


def check(entry):
    """Why a line is not one of ours, or None."""
    if not isinstance(entry, dict) or not isinstance(entry.get("part"), str):
        return "no part"
    if entry["part"] in FRAMES:
        return None
    if not isinstance(entry.get("case"), str):
        return "no case"
    if entry.get("status") not in STATUSES:
        return "no status"
    if entry["status"] == "ok" and entry.get("checked") is not True:
        return "measured, but not checked"
    for name, value in entry.items():
        if isinstance(value, dict) and not all(
            isinstance(value.get(q), (int, float)) for q in QUANTILES
        ):
            return f"{name} lacks a quantile"
    return None


def read(paths, report):
    entries = []
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    entry = json.loads(line)
                    why = check(entry)
                except ValueError:
                    why = "not JSON"
                if why is None:
                    entries.append(entry)
                else:
                    report(f"{path}:{number}: {why}")
    return entries


def text(value):
    """A cell of a table."""
    if isinstance(value, dict):
        return " / ".join(text(value[q]) for q in QUANTILES)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value).replace("|", "/")


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def outcome(entry):
    return "" if entry["status"] == "ok" else f"{entry['status']}: {entry.get('reason', '')}"


def plain(entries):
    """A row a case; a column for whatever any of them has, in the order of its first use."""
    keys = list(dict.fromkeys(k for e in entries for k in e if k not in HIDDEN))
    heads = ["case"]
    for key in keys:
        is_quantiles = any(isinstance(e.get(key), dict) for e in entries)
        heads.append(key + (" " + " / ".join(QUANTILES) if is_quantiles else ""))
    rows = [
        [e["case"]] + [text(e[k]) if k in e else "" for k in keys] + [text(outcome(e))]
        for e in entries
    ]
    return table(heads + ["outcome"], rows)


def facts(entries):
    """A row a fact: cases that have nothing in common."""
    rows = [
        [e["case"], k, text(v)] for e in entries for k, v in e.items() if k not in HIDDEN
    ] + [[e["case"], "outcome", text(outcome(e))] for e in entries if outcome(e)]
    return table(["case", "fact", "value"], rows)


def pivot(entries):
    """A row a shape, a column a type and algorithm; what was refused is a dash."""
    columns = sorted({(e.get("type", ""), e.get("algorithm", "")) for e in entries})
    shapes = {}
    for e in entries:
        shape = tuple(e.get(k, "") for k in SHAPE)
        time = e.get("events_us", {}).get("p50")
        cell = text(float(time)) if e["status"] == "ok" and time is not None else "-"
        if e["status"] == "failed":
            cell = "failed"
        shapes.setdefault(shape, {})[(e.get("type", ""), e.get("algorithm", ""))] = cell
    heads = list(SHAPE) + [" ".join(c).strip() for c in columns]
    rows = [[text(v) for v in s] + [got.get(c, "") for c in columns] for s, got in shapes.items()]
    return table(heads, rows)


def reasons(entries):
    """Each refusal and failure once, with how many cases had it."""
    counts = {}
    for e in entries:
        if e["status"] != "ok":
            what = " ".join(str(e[k]) for k in ("type", "algorithm") if k in e)
            counts[(what, outcome(e))] = counts.get((what, outcome(e)), 0) + 1
    return "\n".join(f"- {what or 'all'} ({n}): {why}" for (what, why), n in counts.items())


def document(entries):
    pieces = []
    for e in entries:
        if e["part"] == "machine":
            pieces.append("; ".join(f"{k} {text(v)}" for k, v in e.items() if k != "part"))
    parts = list(dict.fromkeys(e["part"] for e in entries if e["part"] not in FRAMES))
    for part in parts:
        of_part = [e for e in entries if e["part"] == part]
        peers = [e for e in of_part if "algorithm" in e]
        others = [e for e in of_part if "algorithm" not in e]
        pieces.append(f"## {part}")
        pieces += [(facts if part == "facts" else plain)(others)] if others else []
        pieces += [pivot(peers)] if peers else []
        pieces += [reasons(peers)] if reasons(peers) else []
    clocks = [e for e in entries if e["part"] == "clocks"]
    if clocks:
        heads = [k for k in clocks[0] if k != "part"]
        rows = [[text(e.get(k)) for k in heads] for e in clocks]
        pieces += ["## sensors", table(heads, rows)]
    counts = {s: sum(e.get("status") == s for e in entries) for s in STATUSES}
    pieces.append(", ".join(f"{n} {status}" for status, n in counts.items()))
    return "\n\n".join(pieces)


def main(paths):
    if not paths:
        print("usage: table.py FILE.jsonl...", file=sys.stderr)
        return 2
    broken = []
    entries = read(paths, broken.append)
    print(document(entries))
    for line in broken:
        print(line, file=sys.stderr)
    return 1 if broken or not entries else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
