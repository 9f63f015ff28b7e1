#!/bin/bash
# Runs libFuzzer programs one after the other: run.sh SECONDS PROGRAM... from the root of the tree.
# New inputs and crashers go under $OUT/found/NAME, so the corpora in the tree stay small. Exits 1
# when a program found something; its crasher and output are named then.
set -u

: "${OUT:?}"
seconds=$1
shift
failed=0
for program in "$@"; do
    name=${program##*/fuzz_}
    found=$OUT/found/$name
    mkdir -p "$found/corpus"
    printf 'fuzzing %s for %s s\n' "$name" "$seconds"
    if ! "$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=65536 \
        -artifact_prefix="$found/" -print_final_stats=1 \
        "$found/corpus" "tests/fuzz/corpus/$name" >"$found/log" 2>&1; then
        failed=1
        tail -n 40 "$found/log"
        printf 'FOUND by %s: see %s\n' "$name" "$found"
    else
        grep -E 'stat::number_of_executed_units|stat::new_units_added' "$found/log"
    fi
done
exit "$failed"
