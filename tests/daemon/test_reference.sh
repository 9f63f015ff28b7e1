#!/usr/bin/env bash
# The daemon on the tests' device (cellbatchd-test --device reference:N), whose lanes hang: what they
# held fails with UNAVAILABLE within the watchdog's limit, the rest is answered, and the daemon goes
# on; unless a lane cannot be stopped, when it is not ready any more, fails what it holds and leaves. So
# it does where a card of the CUDA device stands still, since a stream cannot be stopped.
set -u
. tests/daemon/daemon.sh
load=$OUT/cellbatch-load
OUT=$OUT/reference
# As people start it: OpenBLAS then has threads before main(), and the signal may come to one of them.
unset OPENBLAS_NUM_THREADS

asks() { "$load" --target "$grpc" --ask "$1" | grep -q "^$2 "; }
ready_is() { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://$http/v2/health/ready")" = "$1" ]; }

fails_with() {
    local text=$1
    shift
    "$OUT/cellbatchd" --model-repository models --grpc-port 0 "$@" >"$daemon_dir/out" \
        2>"$daemon_dir/log"
    [ $? -eq 1 ] && grep -q -- "$text" "$daemon_dir/log"
}
check 'no devices' fails_with 'number of 1 to 16' --device reference:0
check 'too many devices' fails_with 'number of 1 to 16' --device reference:17
check 'not a number of devices' fails_with 'number of 1 to 16' --device reference:2x
check 'no such device' fails_with "no backend 'tpu'" --device tpu:1
check 'one CPU' fails_with "there is one device 'cpu', not 2" --device cpu:2

# hang KIND DEVICE REQUESTS: a load of 8 clients on two devices, and in the middle a lane hangs; the load's
# numbers in $daemon_dir/load.json, the seconds that it took in $took. The load has to last for longer
# than a machine may forget this script.
hang() {
    local from client
    # shellcheck disable=SC2030,SC2031
    REFERENCE_DEVICE=$1 daemon_start --model-repository models --device "$2" \
        --watchdog 500ms --load-model langid || return 1
    timeout 120 "$load" --target "$grpc" --concurrency 8 --requests "$3" --lengths fixed:3000 \
        --warmup 0 --cooldown 0 --json >"$daemon_dir/load.json" 2>&1 &
    client=$!
    wait_for 10 metric_is cellbatch_requests_running 8 || return 1
    from=$SECONDS
    kill -USR1 "$daemon_pid"
    wait "$client"
    took=$((SECONDS - from))
}
number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$daemon_dir/load.json"; }
failed_some() {
    [ "$(number failed)" -ge 1 ] && [ "$(number failed)" -le "$1" ] &&
        [ "$(number failed)" -eq "$(number UNAVAILABLE)" ]
}
answered_others() { [ $(($(number ok) + $(number failed))) -eq "$1" ]; }

for kind in still fault; do
    check "$kind: serves" hang "$kind" reference:2 300
    check "$kind: what the lane held failed with UNAVAILABLE, no more" failed_some 8
    check "$kind: the others were answered" answered_others 300
    case $kind in
    still) check 'still: the log says so' daemon_says 'lane 0 showed no progress and was aborted' ;;
    fault) check 'fault: the log says where' daemon_says 'lane 0 waited too long: site=exchange' ;;
    esac
    check "$kind: still ready" ready_is 200
    check "$kind: no request is left" wait_for 10 metric_is cellbatch_requests_running 0
    check "$kind: no row is left" wait_for 10 metric_is cellbatch_rows_in_use 0
    for _ in 1 2 3 4; do
        check "$kind: both devices answer" asks 'Where is the station?' English
    done
    kill -TERM "$daemon_pid"
    daemon_wait
    check "$kind: a clean exit" [ "$daemon_exit" -eq 0 ]
done

# lost KIND DEVICE: nobody can stop it. Most of the requests find nobody who answers, and fail at once.
lost() {
    check "$1: serves" hang "$1" "$2" 3000
    daemon_wait
    check "$1: leaves with an error" [ "$daemon_exit" -eq 1 ]
    check "$1: says why" daemon_says 'a device was lost'
    check "$1: what was inside failed with UNAVAILABLE" [ "$(number UNAVAILABLE)" -ge 1 ]
    check "$1: soon" [ "$took" -le 5 ]
}
lost deaf reference:2
lost card cuda-host:0,1
check 'card: and what it was' daemon_says 'why=no progress for 500 ms'

report
