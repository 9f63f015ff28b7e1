#!/bin/bash
# `--lanes` from the command line and the environment to the answer: a model whose cell fits one SM,
# served by two CUDA devices over the host's driver, with lanes and without. Such a device is exact:
# both give the same answers, and `--explain-model` says which of them computes.
set -u
. tests/daemon/daemon.sh
make_model=$OUT/tests/tools/make_model
OUT=$OUT/reference

mkdir -p "$daemon_dir/models/small/1"
model=$daemon_dir/models/small/1/model.onnx
"$make_model" --input 5 --hidden 24 --seed 7 --out "$model" || exit 1

explains() {
    local text=$1
    shift
    "$OUT/cellbatchd" --device cuda-host:0 --explain-model "$model" "$@" >"$daemon_dir/out" \
        2>"$daemon_dir/log" && grep -q -- "$text" "$daemon_dir/out"
}
if [ "$(uname -m)" = x86_64 ]; then
    check 'a lane' explains 'a lane on each queue: cell_sm_lstm__f32_64'
    check 'a lane, asked for' explains 'a lane on each queue' --lanes true
fi
check 'no lane' explains 'no lane: lanes are turned off' --lanes false
CELLBATCH_LANES=false check 'no lane, by the environment' explains 'no lane: lanes are turned off'
check 'the stream has it' explains 'product    LSTM' --lanes false

# A sequence of 40 steps.
request() {
    awk 'BEGIN {
        printf "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[40,1,5],\"data\":["
        for (i = 0; i < 200; i++) { printf "%s%.3f", i ? "," : "", (i * 37 % 101) / 50 - 1 }
        print "]}]}"
    }'
}
# answers OPTION...: what eight requests get, one after the other and then at once.
answers() {
    local i
    daemon_start --model-repository "$daemon_dir/models" --device cuda-host:0,1 "$@" || return 1
    for i in 1 2 3 4; do
        request | curl -sS "http://$http/v2/models/small/infer" -d @- || return 1
    done >"$daemon_dir/alone"
    for i in 1 2 3 4; do
        request | curl -sS "http://$http/v2/models/small/infer" -d @- -o "$daemon_dir/at_once$i" &
        clients[i]=$!
    done
    for i in 1 2 3 4; do
        wait "${clients[i]}" || return 1
    done
    kill -TERM "$daemon_pid"
    daemon_wait
    [ "$daemon_exit" -eq 0 ]
}
data_of() { sed 's/.*"data"/"data"/' "$@" | sort -u; }
clients=()

check 'with lanes' answers
data_of "$daemon_dir/alone" >"$daemon_dir/wanted"
is_one_answer() { [ "$(wc -l <"$daemon_dir/wanted")" -eq 1 ] && grep -q '"data":\[-\?0\.' "$daemon_dir/wanted"; }
check 'the same answer each time' is_one_answer
same_at_once() { data_of "$daemon_dir"/at_once? | cmp -s - "$daemon_dir/wanted"; }
check 'the same at once' same_at_once
check 'without' answers --lanes false
same_alone() { data_of "$daemon_dir/alone" | cmp -s - "$daemon_dir/wanted"; }
check 'the same without' same_alone
check 'and at once' same_at_once
report
