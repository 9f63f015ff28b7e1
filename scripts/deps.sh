#!/bin/sh
# Installs the Debian packages of the given uses (see packages.txt) that are missing. Silent, and
# needs no root, when nothing is missing. Usage: deps.sh USE...
set -eu

list=$(dirname "$0")/packages.txt
missing=
for use in "$@"; do
    packages=$(awk -v use="$use" '$1 == use { print $2 }' "$list")
    for package in $packages; do
        # Nothing is printed for a package that dpkg does not know.
        if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
            missing="$missing $package"
        fi
    done
done

[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" -ne 0 ]; then
    echo "Packages are missing. Install them and run make again:" >&2
    echo "  sudo apt-get update && sudo $install" >&2
    exit 1
fi

echo "installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # the words of the command are meant to be split
if ! { apt-get update && $install; } >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
