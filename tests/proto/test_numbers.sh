#!/bin/bash
# Our .proto files against the descriptors of installed Python clients; skipped without them.
set -u
python=build/venv/bin/python
if [ ! -x "$python" ]; then
    echo "no build/venv: make deps-py"
    exit 77
fi
descriptors=$(mktemp)
trap 'rm -f "$descriptors"' EXIT
protoc-c --descriptor_set_out="$descriptors" -I proto \
    proto/inference.proto proto/health.proto || exit 1
"$python" tests/proto/check_numbers.py "$descriptors"
