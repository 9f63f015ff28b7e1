# shellcheck shell=bash disable=SC2034 # the variables are for the scripts that source this
# Starting and stopping the built daemon in shell tests: `. tests/daemon/daemon.sh`, from the root
# of the tree. OUT is the build folder. What is started is stopped when the script ends.

: "${OUT:=build/release}"
if [ "${BUILD:-}" = tsan ]; then
    echo "gRPC's libraries are not instrumented: ThreadSanitizer sees races in them"
    exit 77
fi
daemon_dir=$(mktemp -d)
daemon_pid=
checks_passed=0
checks_failed=0

daemon_cleanup() {
    [ -n "$daemon_pid" ] && kill -KILL "$daemon_pid" 2>/dev/null
    rm -rf "$daemon_dir"
}
trap daemon_cleanup EXIT

# check NAME COMMAND...: counts the command's success.
check() {
    local name=$1
    shift
    if "$@"; then
        checks_passed=$((checks_passed + 1))
    else
        checks_failed=$((checks_failed + 1))
        printf 'FAILED: %s\n' "$name"
        sed 's/^/  daemon: /' "$daemon_dir/log" 2>/dev/null | tail -n 20
    fi
}

# The closing line that tests/run.sh reads; the script's last command.
report() {
    printf '%d passed, %d failed\n' "$checks_passed" "$checks_failed"
    [ "$checks_failed" -eq 0 ]
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
    local tries=$(($1 * 20))
    shift
    while ! "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.05
    done
}

daemon_says() { grep -q "$1" "$daemon_dir/log"; }

# daemon_start OPTION...: on free ports; sets grpc, http, metrics to host:port.
daemon_start() {
    : >"$daemon_dir/log" # the last one's "ready" must not be taken for this one's
    "$OUT/cellbatchd" --grpc-port 0 --http-port 0 --metrics-port 0 "$@" \
        >"$daemon_dir/out" 2>"$daemon_dir/log" &
    daemon_pid=$!
    wait_for 30 daemon_says 'daemon: \(ready\|serving\)' || return 1
    grpc=$(sed -n 's/^  grpc  *//p' "$daemon_dir/log")
    http=$(sed -n 's|^  http  *https\{0,1\}://||p' "$daemon_dir/log")
    metrics=$(sed -n 's|^  metrics  *https\{0,1\}://\(.*\)/metrics|\1|p' "$daemon_dir/log")
}

# daemon_certificates: keys and certificates (tests/certificates.sh) in the folder $pem; where there is no openssl
# the script is skipped.
daemon_certificates() {
    pem=$daemon_dir/pem
    mkdir "$pem"
    bash tests/certificates.sh "$pem"
    case $? in
    0) ;;
    77) exit 77 ;; # its line says why
    *) exit 1 ;;
    esac
}

daemon_has_left() { ! kill -0 "$daemon_pid" 2>/dev/null; }

# daemon_wait: the daemon's exit status in $daemon_exit. One that has not left after a minute is shown, and
# killed: a script that hangs says nothing.
daemon_wait() {
    if ! wait_for 60 daemon_has_left; then
        echo 'the daemon does not leave:'
        sed 's/^/  daemon: /' "$daemon_dir/log" | tail -n 20
        kill -KILL "$daemon_pid"
    fi
    wait "$daemon_pid"
    daemon_exit=$?
    daemon_pid=
}

# metric NAME: the sum of its samples.
metric() {
    curl -s "http://$metrics/metrics" |
        awk -v name="$1" 'index($1, name "{") == 1 || $1 == name { sum += $2 } END { print sum + 0 }'
}

metric_is() { [ "$(metric "$1")" = "$2" ]; }
