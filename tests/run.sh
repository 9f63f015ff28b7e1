#!/bin/bash
# Runs test programs and scripts one after the other, a quiet line each, the whole output of those
# that fail, and ends with `N passed, N failed[, N skipped]`. Exits 1 when anything failed or
# nothing ran. Usage: run.sh PATH... from the root of the tree; BUILD and OUT come from make.
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
output=$(mktemp)
trap 'rm -f "$output"' EXIT

run_one() {
    case $1 in
    *.sh) timeout "$limit_s" bash "$1" ;;
    *.py) timeout "$limit_s" build/venv/bin/python "$1" ;;
    *) timeout "$limit_s" "${emulator[@]}" "$1" ;;
    esac >"$output" 2>&1 </dev/null
}

# Sets p, f and s from the exit status $1 and the output file.
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

for test in "$@"; do
    name=${test#"$OUT"/}
    start=$(date +%s%N)
    run_one "$test"
    status=$?
    ms=$((($(date +%s%N) - start) / 1000000))
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
done

line="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
