#!/bin/bash
# Runs the blocks of docs/cells.md and compares the server's answers, sequences of many lengths and
# several rows in one run, with PyTorch's. Needs a Python with torch; the block for tritonclient runs
# where that is installed.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/cells.md cells_model.py cells_serve.sh cells_ask.py
"$torch" cells_model.py >export.log 2>&1 || fail "the export failed"
for name in mamba slstm; do
    [ -s my-models/$name/1/model.onnx ] || fail "no model file of $name after the export"
done
sed 's/^build/exec build/' cells_serve.sh >serve-exec.sh
start_server bash serve-exec.sh

cat >compare.py <<'END'
import random
import torch
from asking import compare
from cells_model import mamba, slstm

MODELS = {"mamba": (mamba, "x", "FP32"), "slstm": (slstm, "x", "FP32")}

def draw(seed):
    torch.manual_seed(seed)
    return list(MODELS)[seed % 2], torch.randn(1 + (seed % 7 == 0), random.Random(seed).randint(1, 40), 32)

compare(MODELS, draw)
END
compare_models

ask_with_tritonclient cells_ask.py '^(1, 20, 32)'
stop_server
