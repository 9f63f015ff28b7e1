#!/bin/bash
# Runs the examples of README.md against the demo models.
# shellcheck source=tests/docs/common.sh
. tests/docs/common.sh

for name in serve.sh ask.sh curl.sh triton.py; do
    write_block README.md $name
done
mkdir -p "$work/build"
ln -s "$root/$OUT" "$work/build/release"
ln -s "$root/models" "$work/models"
cd "$work" || exit 1

sed 's/^build/exec build/' serve.sh >serve-exec.sh
start_server bash serve-exec.sh

sed "s/cellbatch-load/& --target 127.0.0.1:$grpc_port/" ask.sh >ask-here.sh
bash ask-here.sh >ask.log 2>&1 || fail "the questions failed"
[ "$(grep -cE '^ *(English|German) ' ask.log)" -ge 2 ] || fail "the questions got no labels"

grep -qx '2019-05-05' ask.log || fail "dates answered something else"
grep -qx '9' ask.log || fail "listops answered something else"

bash curl.sh >curl.log 2>&1 || fail "the curl block failed"
for word in '"ready":true' '"tokens"' '"probabilities"' '"data":\[0\.7' cellbatch_requests_total; do
    tr -d ' ' <curl.log | grep -q "$word" || fail "the curl block did not print $word"
done

triton=$(python_with tritonclient.grpc numpy)
if [ -n "$triton" ]; then
    "$triton" triton.py >triton.log 2>&1 || fail "the tritonclient block failed"
    grep -qE '^\[\[0\.0[0-9]* +0\.9' triton.log || fail "the tritonclient block found no German"
else
    echo "without the tritonclient block (make deps-py)"
fi
stop_server
