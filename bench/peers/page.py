"""What compare.py prints and writes: the host, and Markdown."""

import datetime
import os
import pathlib
import subprocess


def first_line(command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip().splitlines()[0] if result.stdout.strip() else "unknown"


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def caches():
    """Of CPU 0: "L1d 32K, L2 1024K, L3 36608K (CPUs 0-1)"."""
    found = []
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size, shared = (
            (index / name).read_text(encoding="utf-8").strip()
            for name in ("level", "type", "size", "shared_cpu_list")
        )
        if kind != "Instruction":
            letter = "d" if kind == "Data" else ""
            found.append(f"L{level}{letter} {size} (CPUs {shared})")
    return ", ".join(found) or "unknown"


def commit():
    changed = first_line(["git", "status", "--porcelain", "--untracked-files=no"]) != "unknown"
    return first_line(["git", "rev-parse", "--short", "HEAD"]) + (", changed" if changed else "")


def host(bench):
    peak = subprocess.run([bench, "peak"], capture_output=True, text=True, check=True).stdout
    return {
        "cpu": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "caches": caches(),
        "kernel": os.uname().release,
        "load": round(os.getloadavg()[0], 2),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "peak": [line for line in peak.splitlines() if not line.startswith("#")],
    }


def number(ms):
    digits = 4 if ms < 1 else 3 if ms < 10 else 1
    return f"{ms:.{digits}f}"


def progress(line):
    """One line of text for a row or a summary."""
    if "left_out" in line:
        return f"{line['cell']}, {line['threads']} threads: left out: {line['left_out']}"
    words = [f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
             for key, value in line.items() if not isinstance(value, list)]
    return ", ".join(words)


# ---- The page -----------------------------------------------------------------------------------

TITLES = {"cellbatch": "cellbatch", "onnxruntime": "ONNX Runtime", "torch": "PyTorch"}

METHOD = """Each engine is a process of its own with that many threads. For each shape they take
turns, {alternations} each: untimed runs, about {ms:g} ms of timed runs, the median of which counts, then
a pause of {pause:g} s, in which the threads of a peer that spin after a run fall asleep. A time is the
median over the turns, in brackets the smallest and the largest turn; milliseconds of a whole sequence,
from the call to the outputs of all steps in memory. The peers get and give numpy arrays and have their
defaults, spinning included. Ours goes through the device of the `cpu` backend, which the server uses.
Weights (uniform within 1/sqrt(hidden), seed {seed}) and inputs are the same; `difference` is the largest
absolute one of any output. A ratio is the peer's time over ours. Rows of less than 100 steps have the
time of a call that computes nothing (an Identity node of the same size, measured in the same turns)
subtracted from the peer's time before the ratio, and are not part of the geometric means. `roofline`
is what the same number of threads must take at the least: products and activations at the rates of
fixed loops, and weights read from the nearest cache that holds them, whichever takes longer."""


def peers_of(row):
    return [name for name in TITLES if f"{name}_ratio" in row]


def table(rows):
    peers = peers_of(rows[0])
    heads = ["input", "hidden", "rows", "steps", "roofline", "cellbatch"]
    for name in peers:
        heads += [TITLES[name], "ratio", "difference"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---:|" * len(heads)]
    for row in rows:
        columns = [str(row[key]) for key in ("input", "hidden", "rows", "steps")]
        columns += [number(row["roofline_ms"]), times(row, "cellbatch")]
        for name in peers:
            cell = times(row, name)
            if row["steps"] != 100:
                cell += f" - {number(row[f'{name}_empty_ms'])}"
            columns += [cell, f"{row[f'{name}_ratio']:.2f}", f"{row[f'{name}_diff']:.1e}"]
        lines.append("| " + " | ".join(columns) + " |")
    return lines


def times(row, name):
    turns = row[f"{name}_ms_turns"]
    return f"{number(row[f'{name}_ms'])} ({number(min(turns))} .. {number(max(turns))})"


# More than this of the machine in other hands, and the page says that it is not to be relied on.
QUIET_CPUS = 0.05


def notes(summary):
    lines = []
    if summary["other_cpus"] + summary["stolen_cpus"] > QUIET_CPUS:
        lines.append("- **not measured on an idle machine: to be measured again**")
    for name, title in TITLES.items():
        mean = summary.get(f"{name}_geomean")
        if mean is not None:
            lines.append(
                f"- {title} over cellbatch, geometric mean of {summary['rows']} rows: **{mean:.2f}**; "
                f"its best turns over the roofline, which nothing passes: "
                f"{summary[f'{name}_bound']:.2f}"
            )
    placed = [
        f"{title} {' + '.join(map(str, summary[f'{name}_places']))}"
        for name, title in TITLES.items()
        if summary.get(f"{name}_places")
    ]
    if placed:
        lines.append(
            f"- turns that began with both CPUs on one core, on two of one L3, on two of none in common: "
            f"{', '.join(placed)}"
        )
    lines.append(f"- best turns of cellbatch over the roofline: {summary['cellbatch_bound']:.2f}")
    lines.append(
        f"- the other engines during a timed turn: at most {summary['engines_cpu']:.4f} CPUs; other "
        f"work on the machine all the while: {summary['other_cpus']:.2f} CPUs; taken by the host: "
        f"{summary['stolen_cpus']:.2f} CPUs"
    )
    return lines


def render(host_facts, results, options):
    versions = ", ".join(f"{key} {value}" for key, value in host_facts["versions"].items())
    lines = [
        "# Cells beside ONNX Runtime and PyTorch",
        "",
        "Written by `make bench-kernels`; not edited.",
        "",
        "| | |",
        "|---|---|",
        f"| host | {host_facts['cpu']}, {host_facts['cpus']} CPUs; {host_facts['caches']}; "
        f"Linux {host_facts['kernel']} |",
        f"| date | {host_facts['date']}, load average at the start {host_facts['load']} |",
        f"| commit | {host_facts['commit']} |",
        f"| versions | {versions} |",
        f"| command | `{host_facts['command']}` |",
        "",
        "Limits of this host (`cellbatch-bench peak`):",
        "",
        *(f"    {line}" for line in host_facts["peak"]),
        "",
        *METHOD.format(**vars(options)).splitlines(),
    ]
    for result in results:
        lines += ["", f"## {result['cell'].upper()}, fp32, threads: {result['threads']}", ""]
        if "left_out" in result:
            lines += [f"Left out: {result['left_out']}."]
            continue
        lines += [*table(result["rows"]), "", *notes(result["summary"])]
    return "\n".join(lines) + "\n"
