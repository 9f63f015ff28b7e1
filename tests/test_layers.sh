#!/bin/bash
# The layer check accepts what layers.txt allows and finds each kind of seeded violation.
set -u

failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
layers=$PWD/tests/layers.txt
check=$PWD/tests/layers.awk
cd "$folder" || exit 1
mkdir -p base cells/cpu cells/cuda scheduler worker server/http

# try EXPECTED FILE INCLUDE: EXPECTED is 0 (allowed) or 1 (refused).
try() {
    printf '#include %s\n' "$3" >"$2"
    awk -f "$check" "$layers" "$2" >out
    local status=$?
    if [ "$status" -ne "$1" ]; then
        echo "$2 including $3: exit status $status, wanted $1"
        failed=1
    elif [ "$1" -eq 1 ] && ! grep -q "^$2:1: may not include" out; then
        echo "$2 including $3: wrong text: $(cat out)"
        failed=1
    fi
}

try 0 base/a.c '<stdint.h>'
try 0 base/a.c '"base/log.h"'
try 0 cells/cpu/a.c '"base/log.h"'
try 0 cells/cpu/a.c '<hwloc.h>'
try 0 server/http/a.c '<microhttpd.h>'
try 0 server/a.c '<grpc/support/log.h>'
try 0 server/a.c '"proto/health.pb-c.h"'
try 1 base/a.c '"cells/batch.h"'
try 1 cells/a.c '<hwloc.h>'
try 1 cells/cuda/a.c '<hwloc.h>'
try 1 scheduler/a.c '"worker/team.h"'
try 1 scheduler/a.c '<stdio.h>'
try 1 scheduler/a.c '<time.h>'
try 1 worker/a.c '"scheduler/graph.h"'
try 1 worker/a.c '<uv.h>'
try 1 server/a.c '<cblas.h>'
try 1 server/a.c '  "loadgen/schedule.h"'

exit $failed
