#!/bin/bash
# Runs the curl commands of docs/http.md as they stand, but for the port, against the daemon with the
# demo model, and compares what each prints with the block that follows it.
# CELLBATCH_UPDATE_DOCS=1 writes what was printed into the document instead.
set -u
. tests/daemon/daemon.sh
document=docs/http.md

if ! command -v curl >/dev/null; then
    echo 'no curl'
    exit 77
fi

# Each ```sh block goes to N.sh, the block after it to N.want.
awk -v dir="$daemon_dir" '
    /^```sh$/ { n++; file = dir "/" n ".sh"; next }
    /^```(json|text)$/ && n { file = dir "/" n ".want"; next }
    /^```/ { file = ""; next }
    file { print > file }' "$document"

# The N-th block prints what the document says, and nothing to standard error.
prints() {
    local block=$daemon_dir/$1
    sed "s/localhost:8000/$http/" "$block.sh" >"$daemon_dir/run.sh"
    bash "$daemon_dir/run.sh" >"$block.got" 2>"$daemon_dir/errors"
    [ -z "$(tail -c 1 "$block.got")" ] || echo >>"$block.got"
    cat "$daemon_dir/errors"
    diff "$block.want" "$block.got" && [ ! -s "$daemon_dir/errors" ]
}

check 'starts' daemon_start --model-repository models
for ((n = 1; ; n++)); do
    [ -e "$daemon_dir/$n.sh" ] || break
    check "$(cat "$daemon_dir/$n.sh")" prints "$n"
done
check 'the document has examples' [ "$n" -gt 1 ]

if [ -n "${CELLBATCH_UPDATE_DOCS:-}" ]; then
    awk -v dir="$daemon_dir" '
        /^```sh$/ { n++ }
        skipping && /^```$/ { skipping = 0 }
        !skipping { print }
        /^```(json|text)$/ && n {
            file = dir "/" n ".got"
            while ((getline line < file) > 0) print line
            skipping = 1
        }' "$document" >"$daemon_dir/new" && cp "$daemon_dir/new" "$document"
fi

kill -TERM "$daemon_pid"
daemon_wait
check 'exits cleanly' [ "$daemon_exit" -eq 0 ]
report
