#!/bin/bash
# Our .proto files against the descriptors of installed Python clients; skipped without them.
set -u
: "${OUT:=build/release}"
python=build/venv/bin/python
if [ ! -x "$python" ]; then
    echo "no build/venv: make deps-py"
    exit 77
fi
# What reflection tells, v1alpha's file too.
"$python" tests/proto/check_numbers.py "$OUT/proto/proto/descriptors.set"
