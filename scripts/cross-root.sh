#!/bin/sh
# Unpacks the Debian packages of a foreign architecture (those of the use `cross` in packages.txt)
# into a folder, for cross-compiling. apt keeps its lists and archives for it in that folder too: the
# machine's own dpkg and apt learn of no other architecture, and no root is needed.
# Usage: cross-root.sh ARCHITECTURE FOLDER
set -eu

architecture=$1
mkdir -p "$2"
root=$(realpath "$2")
packages=$(awk '$1 == "cross" { print $2 }' "$(dirname "$0")/packages.txt")

rm -rf "$root"
mkdir -p "$root/apt/lists/partial" "$root/apt/archives/partial"
: >"$root/apt/status"

# Sources, keys and proxies stay those of this machine.
foreign_apt() {
    apt-get -qq -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" \
        -o Dir::State="$root/apt" -o Dir::State::status="$root/apt/status" \
        -o Dir::Cache="$root/apt" -o Acquire::Languages=none -o APT::Sandbox::User=root "$@"
}

echo "unpacking for $architecture: $(echo "$packages" | tr "\n" " ")"
foreign_apt update
# shellcheck disable=SC2086 # the names are meant to be split
(cd "$root/apt/archives" && foreign_apt download $packages)
for archive in "$root"/apt/archives/*.deb; do
    dpkg-deb -x "$archive" "$root"
done
rm -rf "$root/apt"
