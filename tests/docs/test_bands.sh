#!/bin/bash
# Runs the blocks of docs/bands.md and compares the server's answers, requests of many lengths and
# several rows in one run, with PyTorch's. Needs a Python with torch; the block for tritonclient runs
# where that is installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/bands.md bands_model.py bands_serve.sh bands_ask.py
"$torch" bands_model.py >export.log 2>&1 || fail "the export failed"
for name in denoiser tagger; do
    [ -s my-models/$name/1/model.onnx ] || fail "no model file of $name after the export"
done
sed 's/^build/exec build/' bands_serve.sh >serve-exec.sh
start_server bash serve-exec.sh

cat >compare.py <<'END'
import random
import torch
from asking import compare
from bands_model import denoiser, tagger

MODELS = {"denoiser": (denoiser, "frames", "FP32"), "tagger": (tagger, "words", "INT64")}

def draw(seed):
    rng = random.Random(seed)
    name = list(MODELS)[seed % 2]
    torch.manual_seed(seed)
    batch, steps = rng.randint(1, 3), rng.randint(1, 60)
    return name, torch.randn(batch, 1, steps, 65) if name == "denoiser" else torch.randint(0, 128, (batch, steps, 12))

compare(MODELS, draw)
END
compare_models

ask_with_tritonclient bands_ask.py '^\['
stop_server
