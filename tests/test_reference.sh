#!/bin/bash
# The server's suites with two of the tests' devices; `make test-reference` runs more.
set -u
if [ "${BUILD:-}" = tsan ]; then
    echo "too slow; the suites of worker/ have lanes under ThreadSanitizer"
    exit 77
fi
exec bash tests/reference.sh 2
