#!/bin/bash
# Runs the blocks of docs/video.md and compares the server's answers, videos of many lengths and
# several rows in one run, with PyTorch's. Needs a Python with torch; the block for tritonclient runs
# where that is installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/video.md video_model.py video_serve.sh video_ask.py
"$torch" video_model.py >export.log 2>&1 || fail "the export failed"
for name in gestures scenes lips; do
    [ -s my-models/$name/1/model.onnx ] || fail "no model file of $name after the export"
done
sed 's/^build/exec build/' video_serve.sh >serve-exec.sh
start_server bash serve-exec.sh

cat >compare.py <<'END'
import random
import torch
from asking import compare
from video_model import gestures, lips, scenes

MODELS = {"gestures": (gestures, "frames", "FP32"), "scenes": (scenes, "frames", "UINT8"), "lips": (lips, "frames", "FP32")}

def draw(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    batch, steps, name = 1 + (seed % 7 == 0), rng.randint(1, 6), list(MODELS)[seed % 3]
    shape = (batch, 3, steps, 32, 64) if name == "lips" else (batch, steps, 3, 64, 64)
    return name, torch.randint(0, 256, shape).byte() if name == "scenes" else torch.randn(shape)

compare(MODELS, draw)
END
compare_models

ask_with_tritonclient video_ask.py '^\['
stop_server
