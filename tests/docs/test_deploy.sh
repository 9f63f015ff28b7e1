#!/bin/bash
# Runs the example of docs/operations.md about a new version without a restart.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

for name in serve-explicit.sh deploy.sh deploy.py; do
    write_block docs/operations.md $name
done
cp -r "$root/models" "$work/models"
PATH=$root/$OUT:$PATH
cd "$work" || exit 1
sed -i 's/^cellbatchd/exec cellbatchd/' serve-explicit.sh

start_server bash serve-explicit.sh
bash deploy.sh >deploy.log 2>&1 || fail "the new version was not loaded"
grep -q '"versions":\["1","2"\]' deploy.log || fail "the new version is not there"
ask_with_tritonclient deploy.py '^True$'
[ ! -e ask-py.log ] || grep -qx False ask-py.log || fail "the model was not unloaded"
stop_server
