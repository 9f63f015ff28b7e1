#!/usr/bin/env bash
# Models and what they must answer (cases.h says which) through the built daemon, over gRPC. Ends with
# `N passed, N failed`. From the root of the tree; OUT comes from make. The suites of others lie under
# CELLBATCH_DATA; without it only this tree's exports are asked.
set -u
. tests/daemon/daemon.sh
data=${CELLBATCH_DATA:+$CELLBATCH_DATA/conformance}
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
