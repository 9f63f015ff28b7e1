#!/bin/bash
# Runs the blocks of docs/plugins.md: builds the plug-in of examples/unfold_grid as a user does, and
# compares the answers, over images of many sizes in one run, with PyTorch's, cell by cell. Then a
# server without --allow-plugins must refuse it, and one whose plug-in hangs must end at SIGTERM.
# Needs a Python with torch and a C compiler.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

prepare_pytorch docs/plugins.md plugin_build.sh plugin_serve.sh plugin_ask.sh
ln -s "$root/include" include
mkdir -p examples
cp -r "$root/examples/unfold_grid" examples/
sed -i "s#^python3#$torch#" plugin_build.sh
bash -e plugin_build.sh >build.log 2>&1 || fail "the example was not built"

status=0
CELLBATCH_HTTP_PORT=$http_port CELLBATCH_GRPC_PORT=$grpc_port CELLBATCH_METRICS_PORT=$metrics_port \
    timeout 60 build/release/cellbatchd --model-repository my-models >refused.log 2>&1 || status=$?
[ "$status" -eq 1 ] || fail "a plug-in that is not allowed: exit status $status"
grep -q 'plug-ins are not allowed (--allow-plugins true)' refused.log || fail "another reason was given"
build/release/cellbatchd --check-model my-models/grid >check.log 2>&1 || fail "--check-model failed"
grep -q 'cell 0 grid: ' check.log || fail "--check-model does not know the cells"

sed 's/^build/exec build/' plugin_serve.sh >serve-exec.sh
start_server bash serve-exec.sh

cat >compare.py <<'END'
import json, os, random, sys, urllib.error, urllib.request
from concurrent.futures import ThreadPoolExecutor
sys.path.insert(0, "examples/unfold_grid")
import torch
from model import grid, head, FEATURES, HIDDEN

def post(image):
    body = {"inputs": [{"name": "image", "datatype": "FP32", "shape": list(image.shape),
                        "data": image.flatten().tolist()}]}
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/grid/infer"
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())))
    return {o["name"]: torch.tensor(o["data"]).reshape(o["shape"]) for o in answer["outputs"]}

def wanted(image):
    zeros, states = torch.zeros(1, HIDDEN), {}
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            states[i, j] = grid(image[i, j][None], states.get((i - 1, j), zeros), states.get((i, j - 1), zeros))
    rows = [torch.cat([states[i, j] for j in range(image.shape[1])]) for i in range(image.shape[0])]
    return {"states": torch.stack(rows), "scores": head(states[image.shape[0] - 1, image.shape[1] - 1])[0]}

def refusal(image):
    try:
        post(image)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    return 200, ""

with torch.no_grad(), ThreadPoolExecutor(16) as pool:
    rng = random.Random(1)
    torch.manual_seed(4)
    images = [torch.randn(rng.randint(1, 9), rng.randint(1, 9), FEATURES) for _ in range(150)]
    error = 0.0
    for image, got in zip(images, pool.map(post, images)):
        for name, right in wanted(image).items():
            if got[name].shape != right.shape:
                sys.exit(f"{name}: shape {list(got[name].shape)}, wanted {list(right.shape)}")
            error = max(error, (got[name] - right).abs().max().item())
    print("150 images, largest difference from PyTorch:", error)
    code, text = refusal(torch.zeros(0, 5, FEATURES))
    if code != 400 or "an image of no pixels" not in text:
        sys.exit(f"no pixels: {code} {text}")
sys.exit(error > 1e-4)
END
HTTP_PORT=$http_port "$torch" compare.py >compare.log 2>&1 || fail "the answers are not PyTorch's"
cat compare.log
bash plugin_ask.sh >ask-sh.log 2>&1 || fail "the curl block failed"
grep -q '"scores"' ask-sh.log || fail "the curl block printed something else"
stop_server

# The same, but its unfold() never returns.
sed -e 's/^static const char \*unfold(.*$/#include <unistd.h>\n&/' -e 's/^    const int64_t height = /    for (;;) {\n        (void)pause();\n    }\n&/' \
    examples/unfold_grid/unfold.c >hang.c
cc -shared -fPIC -Iinclude hang.c -o my-models/grid/1/unfold.so >hang.log 2>&1 || fail "no plug-in that hangs"
start_server bash serve-exec.sh
HTTP_PORT=$http_port "$torch" - >late.log 2>&1 <<'END' || fail "a plug-in that hangs was not told"
import json, os, sys, urllib.error, urllib.request
body = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 3], "data": [1, 2, 3]}]})
for code, words in ((504, "unfold.so took longer than 100 ms"), (503, "unfold.so has not returned")):
    url = f"http://127.0.0.1:{os.environ['HTTP_PORT']}/v2/models/grid/infer"
    try:
        urllib.request.urlopen(urllib.request.Request(url, body.encode()))
        sys.exit("answered")
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        if error.code != code or words not in text:
            sys.exit(f"{error.code} {text}")
END
stop_server
grep -q 'its thread is left alone' server.log || fail "the server did not say that it left a thread"
