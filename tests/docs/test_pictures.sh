#!/bin/bash
# Runs the blocks of docs/pictures.md and compares the server's answers, pictures of many widths and
# several rows in one run, with PyTorch's. Needs a Python with torch; the block for tritonclient runs
# where that is installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/pictures.md pictures_model.py pictures_serve.sh pictures_ask.py
"$torch" pictures_model.py >export.log 2>&1 || fail "the export failed"
for name in lines speech; do
    [ -s my-models/$name/1/model.onnx ] || fail "no model file of $name after the export"
done
sed 's/^build/exec build/' pictures_serve.sh >serve-exec.sh
start_server bash serve-exec.sh

cat >compare.py <<'END'
import random
import torch
from asking import compare
from pictures_model import lines, speech

MODELS = {"lines": (lines, "picture", "FP32"), "speech": (speech, "frames", "FP32")}
SIZES = {"lines": (32, 8), "speech": (161, 1)}  # height, fewest steps

def draw(seed):
    rng = random.Random(seed)
    name = list(MODELS)[seed % 2]
    torch.manual_seed(seed)
    height, least = SIZES[name]
    return name, torch.randn(rng.randint(1, 3), 1, height, rng.randint(least, 60))

compare(MODELS, draw)
END
compare_models

ask_with_tritonclient pictures_ask.py '^\['
stop_server
