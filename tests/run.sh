#!/bin/bash
# Runs test programs and scripts, a quiet line each, the whole output of those that fail, and ends with
# `N passed, N failed[, N skipped]`. Exits 1 when anything failed or nothing ran. Usage: run.sh PATH...
# from the root of the tree; BUILD and OUT come from make, and so do TEST_BESIDE, those of the paths that
# may run beside others, and TEST_JOBS, how many at once. The rest run one after the other, and wait and
# sleep for half of their time: those of TEST_BESIDE take what they leave of the cores, at the lowest
# priority, so that nobody's deadline is missed for them.
#
# A `check` program is counted by its summary; a case that calls util_skip() is counted as skipped.
# A script (.sh, .py) counts as one, or by its own last line `N passed, N failed[, N skipped]`.
# Exit status 77 skips the whole; its last line is the reason.
set -u

: "${BUILD:=release}" "${OUT:=build/release}"
read -ra emulator <<<"${TEST_EMULATOR:-}" # of another architecture's programs

export OPENBLAS_NUM_THREADS=1
export CK_DEFAULT_TIMEOUT=${CK_DEFAULT_TIMEOUT:-60}
case $BUILD in
asan | ubsan | tsan)
    export CK_FORK=no # reports come from the process itself
    limit_s=${TEST_LIMIT_S:-1800}
    ;;
*) limit_s=${TEST_LIMIT_S:-600} ;;
esac
# Cases that are alike in all but their sizes race alike, and take twenty times as long.
[ "$BUILD" != tsan ] || export CELLBATCH_QUICK=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export LSAN_OPTIONS=${LSAN_OPTIONS:-print_suppressions=0:suppressions=tests/lsan.supp}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:allocator_may_return_null=1:suppressions=tests/tsan.supp}

passed=0
failed=0
skipped=0
folder=$(mktemp -d)
declare -A running=() # number of a path by process
begin_us=()           # by number of a path
# Each test in a process group of its own: without, what runs in the background ignores SIGINT. So an
# interrupt does not reach them, and is passed on.
set -m
# Of a test that has just begun the shell knows before `running` does.
trap 'jobs -p | xargs -r kill; rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM HUP

# run_one PATH BEFORE...: BEFORE is a command that runs another. Does not come back.
run_one() {
    local path=$1
    shift
    case $path in
    *.sh) exec "$@" timeout "$limit_s" bash "$path" ;;
    *.py) exec "$@" timeout "$limit_s" build/venv/bin/python "$path" ;;
    *) exec "$@" timeout "$limit_s" "${emulator[@]}" "$path" ;;
    esac
}

now_us() { echo "${EPOCHREALTIME/[^0-9]/}"; }

# Sets p, f and s from the exit status $1 and the output of $test.
count() {
    local summary last
    p=0 f=0 s=0
    last=$(tail -n 1 "$output")
    summary=$(sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 \2 \3/p' "$output" | tail -n 1)
    if [ "$1" -eq 77 ]; then
        s=1
    elif [ -n "$summary" ]; then
        local checks failures errors
        read -r checks failures errors <<<"$summary"
        s=$(grep -c '^SKIP: ' "$output")
        f=$((failures + errors))
        s=$((s > checks - f ? checks - f : s)) # one case may say it several times
        p=$((checks - f - s))
    elif [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
        p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[4]:-0}
    elif [ "$1" -eq 0 ] && [[ $test == *.sh || $test == *.py ]]; then
        p=1
    fi
    # A crash, a time-out, or a run without one check is a failure too.
    if [ "$1" -ne 0 ] && [ "$1" -ne 77 ] && [ "$f" -eq 0 ]; then
        f=1
    elif [ $((p + f + s)) -eq 0 ]; then
        f=1
    fi
}

# Waits for one of those that run, and counts and shows it.
finish_one() {
    local process status number ms test name output
    wait -n -p process
    status=$?
    if [ -z "${process:-}" ]; then # bash has told of a crash by itself: the first of them has ended
        process=${!running[*]}
        process=${process%% *}
        wait "$process"
        status=$?
    fi
    number=${running[$process]}
    unset "running[$process]"
    ms=$((($(now_us) - begin_us[number]) / 1000))
    test=${paths[number]}
    output=$folder/$number
    name=${test#"$OUT"/}
    count "$status"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if [ "$f" -ne 0 ]; then
        printf 'FAIL %-44s exit status %d\n' "$name" "$status"
        cat "$output"
    else
        printf 'ok   %-44s %4d %6d ms\n' "$name" "$p" "$ms"
        if [ "$status" -eq 77 ]; then
            printf 'SKIP: %s: %s\n' "$name" "$(tail -n 1 "$output")"
        else
            grep '^SKIP: ' "$output"
        fi
    fi
    rm "$output"
}

# start NUMBER BEFORE...: of the paths.
start() {
    local number=$1
    shift
    begin_us[number]=$(now_us)
    run_one "${paths[number]}" "$@" >"$folder/$number" 2>&1 </dev/null &
    running[$!]=$number
}

# Whether the path of that number has not finished.
runs_on() { [[ " ${running[*]} " == *" $1 "* ]]; }

paths=("$@")
jobs=${TEST_JOBS:-1}
# A case that waits for its turn may take longer than by itself.
patient=(nice -n 19 env CK_TIMEOUT_MULTIPLIER="${CK_TIMEOUT_MULTIPLIER:-5}")
beside=()
alone=()
for number in "${!paths[@]}"; do
    case " ${TEST_BESIDE:-} " in
    *" ${paths[number]} "*) beside+=("$number") ;;
    *) alone+=("$number") ;;
    esac
done
for number in "${alone[@]}"; do
    start "$number"
    while runs_on "$number"; do
        while [ "${#running[@]}" -lt "$jobs" ] && [ "${#beside[@]}" -gt 0 ]; do
            start "${beside[0]}" "${patient[@]}"
            beside=("${beside[@]:1}")
        done
        finish_one
    done
done
for number in "${beside[@]}"; do
    [ "${#running[@]}" -lt "$jobs" ] || finish_one
    start "$number"
done
while [ "${#running[@]}" -gt 0 ]; do
    finish_one
done

line="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
