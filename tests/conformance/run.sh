#!/usr/bin/env bash
# Conformance suites of others through the built daemon, over gRPC (cases.h says which). Ends with
# `N passed, N failed`. From the root of the tree, with CELLBATCH_DATA; OUT comes from make.
set -u
. tests/daemon/daemon.sh
data=${CELLBATCH_DATA:-}/conformance
if [ ! -d "$data" ]; then
    echo "SKIP: no conformance suites: CELLBATCH_DATA is not given"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
cases=$OUT/tests/conformance/conformance
mkdir "$daemon_dir/models"
"$cases" write "$data" "$daemon_dir/models" || exit 1
if ! daemon_start --exit-on-error=false --strict-readiness=false --calibrate off \
    --model-repository "$daemon_dir/models"; then
    cat "$daemon_dir/log"
    exit 1
fi
grep 'is unavailable' "$daemon_dir/log"
"$cases" ask "$data" "${grpc##*:}"
status=$?
kill -TERM "$daemon_pid"
daemon_wait
exit $status
