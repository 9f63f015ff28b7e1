#!/usr/bin/env bash
# Tokens as operators meet them: files that are refused at the start, the start block, warnings, and
# what either set may do. Each kind of call: tests/server/test_grpc_access.c, test_http_access.c.
set -u
. tests/daemon/daemon.sh
use=$daemon_dir/use control=$daemon_dir/control
(
    umask 077
    echo 'token-of-those-who-ask' >"$use"
    printf '# operators\n\ntoken-of-those-who-load\n' >"$control"
)

# fails_with TEXT OPTION...: exit status 1 and a line that says why, before any model is loaded.
fails_with() {
    local text=$1
    shift
    timeout 20 "$OUT/cellbatchd" --model-repository models --grpc-port 0 --http-port 0 --metrics-port 0 "$@" \
        >"$daemon_dir/out" 2>"$daemon_dir/log"
    [ $? -eq 1 ] && grep -q -- "$text" "$daemon_dir/log" && ! daemon_says 'pool: started'
}
echo short >"$daemon_dir/short"
: >"$daemon_dir/empty"
for option in --auth-token-file --control-token-file; do
    check "no file for $option" fails_with "$daemon_dir/none: no such file" $option "$daemon_dir/none"
    check "an empty file for $option" fails_with "$daemon_dir/empty: holds no token" $option "$daemon_dir/empty"
    check "a short token for $option" fails_with "$daemon_dir/short: line 1: a token has" $option "$daemon_dir/short"
    check "check-config looks at $option" fails_with "$daemon_dir/short: line 1" $option "$daemon_dir/short" \
        --check-config
done

# code PATH TOKEN CURL-OPTION...: the code of the answer.
code() {
    local path=$1 header=(-H "Authorization: Bearer $2")
    [ -n "$2" ] || header=()
    shift 2
    curl -s -o "$daemon_dir/answer" -w '%{http_code}' "http://$http$path" "${header[@]}" "$@"
}
is() { [ "$(code "${@:2}")" = "$1" ]; }

check 'starts with both' daemon_start --model-repository models --model-control-mode explicit \
    --load-model langid --auth-token-file "$use" --control-token-file "$control"
check 'says which' daemon_says "^  tokens    $use\$"
check 'says which may load' daemon_says "^  tokens    $control, to load and unload models\$"
check 'warns of nothing' eval '! daemon_says "WARN "'
check 'ready for everybody' is 200 /v2/health/ready ''
check 'no question without a token' is 401 /v2/models/langid ''
check 'a question' is 200 /v2/models/langid token-of-those-who-ask
check 'a question of an operator' is 200 /v2/models/langid token-of-those-who-load
check 'no load by those who ask' is 403 /v2/repository/models/dates/load token-of-those-who-ask -d '{}'
check 'a load' is 200 /v2/repository/models/dates/load token-of-those-who-load -d '{}'
check 'metrics for everybody' metric_is cellbatch_model_ready 2
printf '# mine\n token-of-those-who-ask \n' >"$daemon_dir/mine"
check 'cellbatch-load with a token' "$OUT/cellbatch-load" --target "$grpc" --token-file "$daemon_dir/mine" \
    --concurrency 2 --requests 10 --warmup 0
refused() { ! "$OUT/cellbatch-load" --target "$grpc" --concurrency 2 --requests 10 "$@" >"$daemon_dir/out" 2>&1; }
check 'cellbatch-load without one' refused
check 'and why' grep -q 'UNAUTHENTICATED: a token is needed' "$daemon_dir/out"
check 'cellbatch-load with an empty file' refused --token-file "$daemon_dir/empty"
check 'and why' grep -q 'empty: holds no token' "$daemon_dir/out"
kill -TERM "$daemon_pid"
daemon_wait
check 'exits cleanly' [ "$daemon_exit" -eq 0 ]

chmod a+r "$use"
check 'starts where others listen' daemon_start --model-repository models --load-model langid --http-address 0.0.0.0 \
    --auth-token-file "$use"
check 'warns of the network' daemon_says 'without TLS others on the network may read the tokens'
check 'warns of readers' daemon_says "everybody on this machine may read the tokens file=$use"
kill -TERM "$daemon_pid"
daemon_wait

check 'starts with operators alone' daemon_start --model-repository models --model-control-mode explicit \
    --load-model langid --control-token-file "$control"
check 'questions of everybody' is 200 /v2/models/langid ''
check 'loads of operators alone' is 401 /v2/repository/models/dates/load '' -d '{}'
kill -TERM "$daemon_pid"
daemon_wait
report
