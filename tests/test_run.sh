#!/bin/bash
# The runner counts what programs and scripts say, and lets no crash, hang or silence pass.
set -u

failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
run=$PWD/tests/run.sh
cd "$folder" || exit 1

# program NAME: an executable whose text comes from stdin.
program() {
    { echo '#!/bin/bash' && cat; } >"$1"
    chmod +x "$1"
}

program good <<<'echo "100%: Checks: 3, Failures: 0, Errors: 0"'
program skips <<<'echo "SKIP: no device"; echo "100%: Checks: 3, Failures: 0, Errors: 0"'
program skips_much <<<'echo "SKIP: a"; echo "SKIP: a"; echo "SKIP: a"; echo "50%: Checks: 2, Failures: 1, Errors: 0"; exit 1'
program bad <<<'echo why; echo "33%: Checks: 3, Failures: 1, Errors: 1"; exit 1'
program crash <<<'echo "last words"; kill -SEGV $$'
program leak <<<'echo "100%: Checks: 2, Failures: 0, Errors: 0"; exit 1'
program silent <<<'exit 0'
program hang <<<'sleep 30'
program script.sh <<<'exit 0'
program skip.sh <<<'echo "not here"; exit 77'
program fail.sh <<<'exit 3'
program sums.sh <<<'echo "5 passed, 0 failed, 2 skipped"'

# try EXIT-STATUS LAST-LINE TEST...
try() {
    local want_status=$1 want_line=$2
    shift 2
    rm -f ./*.here
    TEST_LIMIT_S=${TEST_LIMIT_S:-1} OUT=none bash "$run" "$@" >out 2>&1
    local status=$?
    if [ "$status" -ne "$want_status" ] || [ "$(tail -n 1 out)" != "$want_line" ]; then
        echo "$*: exit status $status, wanted $want_status and '$want_line':"
        cat out
        failed=1
    fi
}

# says TEXT: the last try printed it.
says() {
    grep -q "$1" out || { echo "nothing says '$1'"; failed=1; }
}

try 0 '3 passed, 0 failed' ./good
try 0 '2 passed, 0 failed, 1 skipped' ./skips
says '^SKIP: no device'
try 1 '0 passed, 1 failed, 1 skipped' ./skips_much
try 1 '1 passed, 2 failed' ./bad
says '^why'
try 1 '3 passed, 1 failed' ./good ./crash
says '^last words'
try 1 '2 passed, 1 failed' ./leak
try 1 '0 passed, 1 failed' ./silent
try 1 '0 passed, 1 failed' ./hang
try 1 '0 passed, 1 failed' ./missing
try 0 '1 passed, 0 failed' ./script.sh
try 0 '0 passed, 0 failed, 1 skipped' ./skip.sh
says '^SKIP: ./skip.sh: not here'
try 1 '0 passed, 1 failed' ./fail.sh
try 0 '9 passed, 0 failed, 2 skipped' ./good ./script.sh ./sums.sh
try 1 '0 passed, 0 failed'

# Those that may run beside others meet them, and each other; others never do.
# meet NAME OTHER: passes when OTHER runs at the same time, or soon.
meet() {
    program "$1" <<END
touch $1.here
for ((i = 0; i < \${PATIENCE:-500}; i++)); do
    [ ! -e $2.here ] || { sleep 0.5; rm $1.here; echo "100%: Checks: 1, Failures: 0, Errors: 0"; exit 0; }
    sleep 0.02
done
rm $1.here
echo "$1 is alone"
exit 1
END
}
meet first second
meet second first
export TEST_JOBS=2 TEST_LIMIT_S=30
TEST_BESIDE='./first ./second' try 0 '2 passed, 0 failed' ./first ./second
TEST_BESIDE='./first ./second' try 0 '8 passed, 0 failed' ./good ./first ./good ./second
TEST_BESIDE='./first ./second' try 1 '2 passed, 1 failed' ./first ./crash ./second
says '^last words'
TEST_BESIDE='./crash ./bad' try 1 '4 passed, 3 failed' ./good ./crash ./bad
says '^last words'
says '^why'
TEST_LIMIT_S=1 TEST_BESIDE='./hang ./good' try 1 '3 passed, 1 failed' ./hang ./good
TEST_BESIDE=./first try 0 '2 passed, 0 failed' ./first ./second
export PATIENCE=15
try 1 '0 passed, 2 failed' ./first ./second
says '^first is alone'
TEST_BESIDE='./first ./second' TEST_JOBS=1 try 1 '0 passed, 2 failed' ./first ./second
unset TEST_JOBS
try 1 '0 passed, 2 failed' ./first ./second
unset PATIENCE

# Who runs beside one that has its deadlines does it at the lowest priority, with five times the patience.
program tells <<'END'
nice >tells.said
echo "${CK_TIMEOUT_MULTIPLIER:-1}" >>tells.said
echo "100%: Checks: 1, Failures: 0, Errors: 0"
END
rm -f tells.said
program waits <<'END'
for ((i = 0; i < 1000; i++)); do
    [ ! -e tells.said ] || { echo "100%: Checks: 1, Failures: 0, Errors: 0"; exit 0; }
    sleep 0.02
done
exit 1
END
TEST_JOBS=2 TEST_BESIDE=./tells try 0 '2 passed, 0 failed' ./waits ./tells
[ "$(tr '\n' ' ' <tells.said)" = '19 5 ' ] || { echo "nobody stands back"; failed=1; }
TEST_JOBS=2 TEST_BESIDE=./tells try 0 '1 passed, 0 failed' ./tells
[ "$(tr '\n' ' ' <tells.said)" = "$(nice) 1 " ] || { echo "it stands back for nobody"; failed=1; }

# An interrupt ends what runs; and what runs may be interrupted itself.
program sleeps <<<'echo $$ >sleeps.id; exec sleep 20'
for signal in INT TERM; do
    rm -f sleeps.id
    set -m # which leaves SIGINT to the runner
    OUT=none bash "$run" ./sleeps >out 2>&1 &
    runner=$!
    set +m
    for ((i = 0; i < 500; i++)); do
        [ ! -s sleeps.id ] || break
        sleep 0.02
    done
    kill -s "$signal" "$runner"
    wait "$runner"
    [ $? -eq 1 ] || { echo "no failure on $signal"; failed=1; }
    for ((i = 0; i < 500; i++)); do
        kill -0 "$(cat sleeps.id)" 2>/dev/null || break
        sleep 0.02
    done
    [ "$i" -lt 500 ] || { echo "a test outlives $signal"; failed=1; }
done
program interrupted <<'END'
bash -c 'kill -s INT $$'
[ $? -eq 130 ] && echo "100%: Checks: 1, Failures: 0, Errors: 0"
END
try 0 '1 passed, 0 failed' ./interrupted

exit $failed
