#!/bin/bash
# The text checks of `make lint` find banned calls and machine paths, and let the rest pass.
set -u

failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
check=$PWD/scripts/check-text.sh
cd "$folder" || exit 1
mkdir -p base config tests

# try EXPECTED FILE TEXT: EXPECTED is 0 (clean) or 1 (refused).
try() {
    printf '%s\n' "$3" >"$2"
    bash "$check" "$2" >out 2>&1
    local status=$?
    if [ "$status" -ne "$1" ]; then
        echo "$2 with '$3': exit status $status, wanted $1: $(cat out)"
        failed=1
    fi
    rm -f "$2"
}

try 0 config/a.c 'base_free(x); set_time(y); ops->free(x); loop.time(z);'
try 0 config/a.c ' * strcpy() in a comment'
try 1 config/a.c 'strcpy(a, b);'
try 1 config/a.c 'x = malloc(3);'
try 1 config/a.c '    free (x);'
try 1 config/a.c '(void)time(NULL);'
try 1 config/a.c 'clock_gettime(CLOCK_MONOTONIC, &t);'
try 0 base/a.c 'free(x); clock_gettime(CLOCK_MONOTONIC, &t);'
try 1 base/a.c 'gettimeofday(&t, NULL);'
try 0 tests/a.c 'free(x);'
try 1 tests/a.c 'sprintf(x, "");'
slash=/
try 1 config/a.txt "see ${slash}home${slash}someone/notes"

exit $failed
