"""The measured part of docs/benchmarks/gpu.md, from the lines of JSON that scripts/gpu/ collects.

Usage: document.py DOCUMENT FILE.jsonl...

Replaces what stands between the document's two marks, and prints the whole. Files that are not there are
parts that were not measured, and the document says so. A line that cannot be read, or a document without
marks, is told on standard error; the exit status is then 1.
"""

import os
import sys

import table

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
NOT_YET = "**Not yet measured.** No number stands here until a script has printed it on a card; there are no estimates."
GRNN = [(hidden, rows) for hidden in (64, 256, 1024) for rows in (1, 10, 20)]
FIGURE = [(1024, 2**n) for n in range(1, 12)]
FORMS = {
    "step in graph": "a call a step, as joins at each step need it",
    "sequence": "one call for all steps, whose inputs are known ahead",
}
BUSY_TARGET = 0.9


def p50(entry, name):
    value = entry.get(name) if entry.get("status") == "ok" else None
    return value["p50"] if isinstance(value, dict) else None


def our_column(entry):
    """Of a step of ours: which column it stands in, or None."""
    if entry["part"] == "step":
        return entry.get("device", "")
    if entry["part"] == "lane" and entry["case"] == "step":
        return f"lane {entry['type']}, x {entry['x']}"
    return None


def ours(entries, cell):
    """{(hidden, rows): {column: microseconds}}"""
    steps = {}
    for e in entries:
        column = our_column(e)
        if column is not None and e.get("cell", e["case"]) == cell:
            steps.setdefault((e["hidden"], e["rows"]), {})[column] = outcome(e, "step_us")
    return steps


def peers(entries, cell, form, prefer):
    """The same of others; where a shape was run with several numbers of steps, those that `prefer` picks."""
    steps, chosen = {}, {}
    for e in entries:
        if "algorithm" not in e or e.get("cell") != cell or e["case"] != form:
            continue
        column = f"{e.get('type', '')} {e['algorithm']}".strip()
        key = (e["hidden"], e["rows"], column)
        if key in chosen and prefer(chosen[key], e.get("steps", 0)) == chosen[key]:
            continue
        chosen[key] = e.get("steps", 0)
        steps.setdefault((e["hidden"], e["rows"]), {})[column] = outcome(e, "events_us")
    return steps


def outcome(entry, name):
    time = p50(entry, name)
    if time is not None:
        return table.text(float(time))
    return "failed" if entry["status"] == "failed" else "-"


def columns_of(steps, shapes):
    return sorted({c for s in shapes for c in steps.get(s, {})})


def side_by_side(shapes, own, others):
    """A row a shape; ours in bold heads, then theirs. None: nobody was measured at any of them."""
    own_columns, other_columns = columns_of(own, shapes), columns_of(others, shapes)
    if not own_columns and not other_columns:
        return None
    heads = ["units", "rows"] + [f"**{c}**" for c in own_columns] + other_columns
    rows = [
        [str(hidden), str(rows)]
        + [own.get((hidden, rows), {}).get(c, "") for c in own_columns]
        + [others.get((hidden, rows), {}).get(c, "") for c in other_columns]
        for hidden, rows in shapes
    ]
    return table.table(heads, rows)


def steps(entries):
    pieces = []
    for title, cells, shapes, prefer in (
        ("GRNN's shapes", ("lstm", "gru"), GRNN, max),
        ("BatchMaker's figure 3", ("lstm",), FIGURE, min),
    ):
        for cell in cells:
            for form, why in FORMS.items():
                found = side_by_side(shapes, ours(entries, cell), peers(entries, cell, form, prefer))
                if found:
                    pieces += [f"**{title}, {cell.upper()}, cuDNN and PyTorch: {form}** ({why})", found]
    return "### A step, ours beside others", (
        "Microseconds a step, p50: ours (bold) by the CPU's clock from submit until it is seen complete, over 64 steps "
        "(a lane: 2,048), others `events_us`. No batch of ours has more than 1,024 rows."
    ), pieces


def lanes(entries):
    found = [e for e in entries if e["part"] == "lane"]
    heads = ["cell", "type", "units", "x", "rows", "step us", "target us", "limit us", "within", "one step, host to host"]
    rows = [
        [e["cell"], e["type"], str(e["hidden"]), e["x"], str(e["rows"]), outcome(e, "step_us")]
        + [table.text(e[k]) if k in e else "" for k in ("target_us", "limit_us", "within")]
        + [outcome(e, "one_step_us")]
        for e in found
        if e["case"] == "step"
    ]
    ring = [
        [e["cell"], e["type"], str(e["hidden"])]
        + [outcome(e, k) for k in ("fence_us", "launch_call_us", "relaunch_us")]
        for e in found
        if e["case"] == "ring and launch"
    ]
    pieces = [table.table(heads, rows)] if rows else []
    if ring:
        ring_heads = ["cell", "type", "units", "task without work us", "launch call us", "relaunch us"]
        pieces += [table.table(ring_heads, ring)]
    return "### Lanes of one SM", "p50. The limit is 1.5 times the target.", pieces


def engine(entries):
    found = [e for e in entries if e["part"] == "engine" and e["case"] == "closed loop"]
    heads = ["device", "model", "requests inside", "requests/s", "device busy", "of bare kernels", "rows a batch"]
    rows, pieces = [], []
    for e in found:
        if e["status"] == "ok":
            rows.append(
                [e["device"], os.path.basename(e["model"]), str(e["requests_present"])]
                + [table.text(e[k]) for k in ("requests_per_s", "device_busy", "ideal_ratio", "mean_rows")]
            )
    if rows:
        pieces.append(table.table(heads, rows))
    for device in dict.fromkeys(e["device"] for e in found if e["status"] == "ok"):
        peak = max(
            (e for e in found if e["status"] == "ok" and e["device"] == device),
            key=lambda e: e["requests_per_s"],
        )
        verdict = "reached" if peak["device_busy"] >= BUSY_TARGET else "missed"
        pieces.append(
            f"{device}, {os.path.basename(peak['model'])}: {100 * peak['device_busy']:.1f} % busy at its peak of "
            f"{peak['requests_per_s']:.0f} requests/s with {peak['requests_present']} inside "
            f"(target {100 * BUSY_TARGET:.0f} %: {verdict})."
        )
    return "### Scheduler and worker on a card", (
        "`cellbatch-bench engine`: busy is the time in which a queue had work, over wall time."
    ), pieces


def checks(entries):
    counts = {}
    for e in entries:
        if e["part"] in ("check", "lane check"):
            key = (e["part"], e.get("device") or f"{e.get('cell', '')} {e.get('type', '')}".strip())
            count = counts.setdefault(key, {"ok": 0, "failed": 0, "error": 0.0})
            count["ok" if e["status"] == "ok" else "failed"] += 1
            if e["status"] == "ok":
                count["error"] = max(count["error"], e.get("error", 0.0))
    rows = [
        [part, what, str(c["ok"]), str(c["failed"]), table.text(float(c["error"]))]
        for (part, what), c in counts.items()
    ]
    heads = ["part", "of", "right", "wrong", "largest error"]
    return "### Answers", "", [table.table(heads, rows)] if rows else []


def floors(entries):
    """The best of each case: what a design may reckon with."""
    best = {}
    for e in entries:
        for name in ("events_us", "wall_us"):
            time = p50(e, name)
            if e["part"] in ("barrier", "cluster", "broadcast", "doorbell", "launch") and time is not None:
                key = (e["part"], e["case"], name)
                best[key] = min(best.get(key, time), time)
    rows = [[part, case, name, table.text(float(time))] for (part, case, name), time in best.items()]
    return "### Floors, the best of each", "", [table.table(["part", "case", "clock", "us"], rows)] if rows else []


def measured(entries, tables):
    """All between the marks."""
    if not any("status" in e for e in entries):
        return NOT_YET
    pieces = []
    for e in entries:
        if e["part"] == "machine":
            pieces.append("; ".join(f"{k} {table.text(v)}" for k, v in e.items() if k != "part"))
    pieces = list(dict.fromkeys(pieces))
    for title, why, tables_of in (steps(entries), lanes(entries), engine(entries), checks(entries), floors(entries)):
        pieces += [title]
        pieces += ([why] if why else []) + tables_of if tables_of else ["Not yet measured."]
    failures = [f"- {e['part']}, {e['case']}: {e.get('reason', '')}" for e in entries if e.get("status") == "failed"]
    if failures:
        pieces += ["### Failed", "\n".join(dict.fromkeys(failures))]
    return "\n\n".join(pieces + tables)


def main(arguments):
    if len(arguments) < 2:
        print("usage: document.py DOCUMENT FILE.jsonl...", file=sys.stderr)
        return 2
    with open(arguments[0], encoding="utf-8") as file:
        text = file.read()
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        print(f"{arguments[0]}: no two marks", file=sys.stderr)
        return 1
    broken, entries, tables = [], [], []
    for path in arguments[1:]:
        if not os.path.exists(path):
            continue
        of_file = table.read([path], broken.append)
        entries += of_file
        name = os.path.basename(path).removesuffix(".jsonl")
        if name in ("floors", "peers") and of_file:
            all_of_it = table.document(of_file).replace("\n## ", "\n#### ")
            tables.append(f"### All lines of {name}\n\n{all_of_it}")
    print(text[: text.index(BEGIN)] + BEGIN, measured(entries, tables), text[text.index(END) :], sep="\n\n", end="")
    for line in broken:
        print(line, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
