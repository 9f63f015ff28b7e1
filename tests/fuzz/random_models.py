#!/usr/bin/env python3
"""Random ONNX models, served by the daemon and asked for several requests at once, beside ONNX
Runtime. What the daemon answers must be what ONNX Runtime answers; what it does not serve it must
refuse by name. Recurrent cells in small operators come up with one thing or another changed about
them, so that an importer that takes them for what they are no longer is found out.

Usage: random_models.py [--daemon build/release/cellbatchd] [--flags "--threads 2"] [--seed 1]
                        [--rounds 10] [--models 60] [--family NAME] [--keep DIR]
                        [--config "weights: bf16; linear-weights: int8"] [--tolerance 2e-4]

In fewer bits answers are further off, and an argmax or a floor may go the other way.
Ends with `N passed, N failed`; a failure names the model, which --keep puts into that folder."""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import numpy

from random_families import FAMILIES

# ---- Asking ---------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def ask(port, name, feed, parameters=None):
    kinds = {"float32": "FP32", "int64": "INT64", "int32": "INT32"}
    request = {"parameters": parameters or {}, "inputs": [{"name": n, "datatype": kinds[a.dtype.name], "shape": list(a.shape), "data": a.ravel().tolist()}
                          for n, a in feed.items()]}
    url = f"http://127.0.0.1:{port}/v2/models/{name}/infer"
    body = json.dumps(request).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as answer:
            outputs = json.load(answer)["outputs"]
    except urllib.error.HTTPError as error:
        return error.read().decode()
    return {o["name"]: numpy.array([numpy.nan if v is None else v for v in o["data"]],
                                   dtype=numpy.float64).reshape(o["shape"]) for o in outputs}


def ask_model(port, name, model, feed):
    """As the model is asked: in one request, or in parts."""
    in_parts = getattr(model, "ask_in_parts", None)
    return ask(port, name, feed) if in_parts is None else in_parts(ask, port, name, feed)


def difference(got, wanted, tolerance):
    """In words, or None."""
    if isinstance(got, str):
        return got
    for name, want in wanted.items():
        have = got.get(name)
        if have is None or have.shape != want.shape:
            return f"{name}: shape {None if have is None else have.shape}, wanted {want.shape}"
        if not numpy.isfinite(want).all():
            continue  # too large for single precision: no question of being right
        far = numpy.abs(have - want) - tolerance * (1 + numpy.abs(want))
        if not (far <= 0).all():
            at = numpy.unravel_index(numpy.argmax(numpy.where(numpy.isnan(far), numpy.inf, far)), far.shape)
            return f"{name}{list(map(int, at))}: {have[at]:.7g}, wanted {want[at]:.7g}"
    return None


def start(options, repository, port, threads):
    flags = ["--model-repository", repository, "--grpc-port", "0", "--metrics-port", "0", "--http-port", str(port)]
    flags += options.flags.split()
    flags += ["--threads", str(threads)] if "--threads" not in flags else []
    flags += ["--calibrate", "off"] if "--calibrate" not in flags else []
    with open(f"{repository}.log", "w", encoding="utf-8") as log:
        return subprocess.Popen([options.daemon, *flags], stdout=subprocess.DEVNULL, stderr=log)


def wait_ready(daemon, port, repository):
    for _ in range(600):
        if daemon.poll() is not None:
            sys.exit(f"the daemon ended, see {repository}.log")
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    sys.exit(f"the daemon does not become ready, see {repository}.log")


def refusal(daemon, path):
    """Why the daemon does not serve a file, or None."""
    done = subprocess.run([daemon, "--check-model", path], capture_output=True, text=True, check=False)
    if done.returncode < 0 or done.returncode > 2:
        return f"CRASH {done.returncode}"
    return None if done.returncode == 0 else (done.stderr.strip() or done.stdout.strip()).splitlines()[-1]


def keep(options, seed, folder):
    if options.keep is not None:
        place = pathlib.Path(options.keep) / str(seed)
        place.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folder, place / folder.name, dirs_exist_ok=True)


def make(options, seed, repository, counts, why):
    """The models that the daemon serves, by name."""
    served = {}
    for number in range(options.models):
        kind = options.family or random.Random(seed * 1000 + number).choice(["chains", "chains", "streams", "trees", "decoders", "graphs"])
        model = FAMILIES[kind](seed * 1000 + number)
        folder = repository / f"m{number}"
        model.write(folder)
        with open(folder / "config.yaml", "a", encoding="utf-8") as config:
            lines = [*options.config.split(";"), getattr(model, "config", "")]
            config.write("".join(f"{line.strip()}\n" for line in lines if line.strip()))
        reason = refusal(options.daemon, folder)
        if reason is None:
            served[folder.name] = model
            continue
        if reason.startswith("CRASH"):
            counts["failed"] += 1
            print(f"seed {seed} {folder.name} ({', '.join(model.notes)}): {reason}", flush=True)
        else:
            why[re.sub(r'"[^"]*"|[0-9]+', "_", reason.split(".onnx: ", 1)[-1])[:150]] += 1
        keep(options, seed, folder)
        shutil.rmtree(folder)
    return served


def ask_all(repository, port, served, seed, counts, tolerance):
    """Models that answer wrongly: the first difference of each."""
    asked, wrong = [], {}
    rng = numpy.random.default_rng(seed)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for name, model in served.items():
            for feed, wanted in model.requests(repository / name, rng):
                asked.append((name, wanted, pool.submit(ask_model, port, name, model, feed)))
    for name, wanted, answer in asked:
        said = difference(answer.result(), wanted, tolerance)
        counts["failed" if said else "passed"] += 1
        if said:
            wrong.setdefault(name, said)
    return wrong


def run_round(options, seed, counts, why):
    repository = pathlib.Path(tempfile.mkdtemp(prefix="random-models-"))
    served = make(options, seed, repository, counts, why)
    port = free_port()
    daemon = start(options, repository, port, 1 + seed % 2)
    try:
        wait_ready(daemon, port, repository)
        for name, said in ask_all(repository, port, served, seed, counts, options.tolerance).items():
            print(f"seed {seed} {name} ({', '.join(served[name].notes)}): {said[:300]}", flush=True)
            keep(options, seed, repository / name)
    finally:
        daemon.terminate()
        if daemon.wait(timeout=60) != 0:
            counts["failed"] += 1
            print(f"seed {seed}: the daemon ended with {daemon.returncode}, see {repository}.log", flush=True)
        else:
            pathlib.Path(f"{repository}.log").unlink()
    shutil.rmtree(repository)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--daemon", default="build/release/cellbatchd")
    parser.add_argument("--flags", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--models", type=int, default=60)
    parser.add_argument("--family", choices=sorted(FAMILIES))
    parser.add_argument("--config", default="", help="lines for each model's config.yaml, ; between")
    parser.add_argument("--tolerance", type=float, default=2e-4)
    parser.add_argument("--keep")
    options = parser.parse_args()
    counts, why = collections.Counter(), collections.Counter()
    for seed in range(options.seed, options.seed + options.rounds):
        run_round(options, seed, counts, why)
    for reason, times in why.most_common():
        print(f"{times:5} refused: {reason}")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    sys.exit(0 if counts["failed"] == 0 else 1)


main()
