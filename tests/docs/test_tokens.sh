#!/bin/bash
# Runs the examples of docs/operations.md about tokens.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh
command -v openssl >/dev/null || skip "there is no openssl"

for name in tokens.sh serve-tokens.sh ask-tokens.sh ask-tokens.py; do
    write_block docs/operations.md $name
done
ln -s "$root/models" "$work/models"
PATH=$root/$OUT:$PATH
cd "$work" || exit 1
bash tokens.sh >tokens.log 2>&1 || fail "no tokens were made"
sed 's/^cellbatchd/exec cellbatchd/' serve-tokens.sh >serve-exec.sh
start_server bash serve-exec.sh

bash ask-tokens.sh >ask.log 2>&1 || fail "the questions failed"
grep -q '"probabilities":\[0\.744' ask.log || fail "the question was answered otherwise"
grep -q '{}' ask.log || fail "the model was not loaded"
grep -q ' 100 ok  0 failed' ask.log || fail "cellbatch-load was not answered"
triton=$(python_with tritonclient.grpc tritonclient.http)
if [ -n "$triton" ]; then
    "$triton" ask-tokens.py >python.log 2>&1 || fail "the tritonclient block failed"
    grep -qx 'True True' python.log || fail "the tritonclient block printed something else"
fi
: >askers.tokens # what follows has none to send
bash ask-tokens.sh >ask.log 2>&1 && fail "cellbatch-load was answered without a token"
grep -q 'a token is needed' ask.log || fail "the question without a token was answered otherwise"
stop_server
