#!/bin/bash
# Text checks of `make lint`: calls that are banned, and words that do not belong in the tree.
# Usage: check-text.sh C-FILE... from the root of the tree.
set -u
failed=0

# banned WHY PATTERN FILE...: reports calls of a function whose name matches, outside comments.
# A name after `.` or `->` is a member, one after `_` or a letter is another function.
banned() {
    local why=$1 pattern=$2
    shift 2
    [ $# -gt 0 ] || return 0
    local hits
    hits=$(grep -nHE "(^|[^_[:alnum:].>])($pattern)[[:space:]]*\(" "$@" |
        grep -vE '^[^:]*:[0-9]+:[[:space:]]*(\*|/\*|//)')
    if [ -n "$hits" ]; then
        printf '%s\n%s\n' "banned call ($why):" "$hits"
        failed=1
    fi
}

product=()
outside_base=()
for file in "$@"; do
    case $file in
    tests/* | examples/*) ;;
    base/*) product+=("$file") ;;
    *) product+=("$file") outside_base+=("$file") ;;
    esac
done

banned 'no bound or no error' 'strcpy|strcat|stpcpy|sprintf|vsprintf|strtok|ato[ifl]|atoll|gets|alloca|rand|srand' "$@"
banned 'use base/mem.h' 'malloc|calloc|realloc|free|strdup|strndup|posix_memalign|aligned_alloc' "${outside_base[@]}"
banned 'use base/clock.h' 'time|gettimeofday|clock' "${product[@]}"
banned 'use base/clock.h' 'clock_gettime' "${outside_base[@]}"

# Paths of somebody's machine. The brackets keep this line from finding itself.
hits=$(grep -rnIE --exclude-dir=.git --exclude=.git --exclude-dir=build \
    '/wor[k]/|/roo[t]/|/hom[e]/[a-z]|/Use[r]s/|/tmp/bas[h]_jobs' .)
if [ -n "$hits" ]; then
    printf '%s\n%s\n' 'a path of one machine:' "$hits"
    failed=1
fi

exit $failed
