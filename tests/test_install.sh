#!/bin/bash
# `make install` below a DESTDIR: what is there, the unit, a configuration that is kept, uninstall.
set -u
: "${OUT:=build/release}"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

fail() {
    echo "$*"
    exit 1
}

run_make() {
    make --no-print-directory "BUILD=${BUILD:-release}" PREFIX=/usr DESTDIR="$tree" "$@" \
        >"$tree.log" 2>&1 || fail "make $* failed: $(cat "$tree.log")"
    rm -f "$tree.log"
}

[ -x "$OUT/cellbatchd" ] || fail "no $OUT/cellbatchd; run make first"
run_make install
for program in "$OUT"/cellbatchd "$OUT"/cellbatch-load "$OUT"/cellbatch-bench; do
    [ ! -x "$program" ] || cmp -s "$program" "$tree/usr/bin/$(basename "$program")" ||
        fail "$program was not installed"
done
unit=$tree/usr/lib/systemd/system/cellbatch.service
grep -q '^ExecStart=/usr/bin/cellbatchd --config /etc/cellbatch/cellbatch.yaml$' "$unit" ||
    fail "the unit starts something else"
! grep -q '@PREFIX@' "$unit" || fail "the unit has a placeholder left"
echo '#include <cellbatch/unfold.h>' | cc -std=c11 -Wall -Wextra -Werror -I"$tree/usr/include" -fsyntax-only -x c - ||
    fail "the header of plug-ins does not compile where it is installed"
[ -s "$tree/usr/share/doc/cellbatch/README.md" ] || fail "no documents"

"$tree/usr/bin/cellbatchd" --config "$tree/etc/cellbatch/cellbatch.yaml" --check-config >/dev/null ||
    fail "the installed configuration is refused"

echo "rows: 12" >>"$tree/etc/cellbatch/cellbatch.yaml"
run_make install install-models
grep -q '^rows: 12$' "$tree/etc/cellbatch/cellbatch.yaml" || fail "the configuration was overwritten"
[ -s "$tree/var/lib/cellbatch/models/langid/1/model.onnx" ] || fail "no models"

run_make uninstall
left=$(cd "$tree" && find . -type f ! -path './var/*' | sort)
[ "$left" = ./etc/cellbatch/cellbatch.yaml ] || fail "uninstall left: $left"
