#!/bin/bash
# Proves that a fresh Debian 12 with nothing but `make` is enough: makes such a tree with
# debootstrap, puts a clone of this repository into it, and runs `make demo` and `make test` there.
#
#   scripts/fresh-check.sh [--tree] [--keep] [TARGET...]      as root; targets: demo test
#
#   --tree   copy the working tree without .git, instead of a clone of the last commit
#   --keep   leave the Debian tree behind and say where it is
#
# The mirror, its keys, proxies and certificates are those of this machine's own apt. All mounts and
# processes live in namespaces of their own and end with the script; the tree is removed. Time is
# bounded: DEMO_LIMIT_S (300) for `make demo`, STEP_LIMIT_S (1200) for each other step. With
# CELLBATCH_DATA set, that folder is there too, read-only.
set -euo pipefail

release=bookworm
demo_limit_s=${DEMO_LIMIT_S:-300}
step_limit_s=${STEP_LIMIT_S:-1200}
script=$(realpath "$0")
root=$(dirname "$(dirname "$script")")

die() {
    echo "fresh-check: $*" >&2
    exit 1
}

if [ "$(id -u)" -ne 0 ]; then
    die "needs root, for debootstrap and chroot"
fi

# Namespaces first: whatever happens later, the kernel takes mounts and processes back.
if [ -z "${FRESH_CHECK_INSIDE:-}" ]; then
    export FRESH_CHECK_INSIDE=1
    unshare --mount --pid --fork true || die "cannot make namespaces (unshare --mount --pid)"
    set -m # a process group of its own, so that a signal reaches the inner script too
    unshare --mount --pid --fork --kill-child "$script" "$@" </dev/null &
    inner=$!
    trap 'kill -TERM -- "-$inner" 2>/dev/null' INT TERM
    status=0
    wait "$inner" || status=$?
    while kill -0 "$inner" 2>/dev/null; do # a signal ended the first wait, not the script
        wait "$inner" || status=$?
    done
    exit "$status"
fi

copy_tree=0
keep=0
targets=()
for argument in "$@"; do
    case $argument in
    --tree) copy_tree=1 ;;
    --keep) keep=1 ;;
    -*) die "unknown option $argument" ;;
    *) targets+=("$argument") ;;
    esac
done
[ ${#targets[@]} -gt 0 ] || targets=(demo test)

sh "$root/scripts/deps.sh" long

fresh=$(mktemp -d "${TMPDIR:-/var/tmp}/cellbatch-fresh.XXXXXX")
chmod 755 "$fresh"

running=
finish() {
    local status=$?
    set +e
    if [ -n "$running" ]; then
        kill -TERM "$running" 2>/dev/null
        wait "$running"
    fi
    # Deepest first; nothing of the machine's own may be below when the tree is removed.
    mount | awk -v at="$fresh/" 'index($3, at) == 1 { print $3 }' | sort -r | xargs -r -n 1 umount
    if [ "$keep" -eq 1 ]; then
        echo "fresh-check: kept $fresh"
    else
        rm -rf --one-file-system "$fresh" "$fresh.log"
    fi
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

# step NAME LIMIT_S COMMAND...: says what it does and how long it took; the whole end of the output
# only when it fails, else its last SHOW_LINES lines. In the background, since a shell does not
# handle a signal before its command in the foreground has ended.
step() {
    local name=$1 limit=$2 start=$SECONDS status=0
    shift 2
    echo "fresh-check: $name"
    timeout --kill-after=10 "$limit" "$@" >"$fresh.log" 2>&1 </dev/null &
    running=$!
    wait "$running" || status=$?
    running=
    if [ "$status" -ne 0 ]; then
        tail -n 60 "$fresh.log" >&2
        rm -f "$fresh.log"
        [ "$status" -ne 124 ] || die "$name: not done after $limit s"
        die "$name: exit status $status"
    fi
    tail -n "${SHOW_LINES:-0}" "$fresh.log"
    rm -f "$fresh.log"
    echo "fresh-check: $name: $((SECONDS - start)) s"
}

# Lines `SITE RELEASE COMPONENT` that this machine's apt uses for the release.
host_sources() {
    # shellcheck disable=SC2016 # $(SITE) is for apt-get
    apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v release="$release" '$2 ~ "^" release && !seen[$0]++'
}

# What apt in the tree needs to reach the mirror as this machine does.
copy_apt_configuration() {
    local file
    host_sources | sed 's/^/deb /' >"$fresh/etc/apt/sources.list"
    apt-config dump | grep '^Acquire::' >"$fresh/etc/apt/apt.conf.d/90host" || true
    for file in /etc/apt/trusted.gpg.d/*.gpg /etc/apt/trusted.gpg.d/*.asc /etc/apt/keyrings/* \
        /usr/share/keyrings/*.gpg; do
        if [ -f "$file" ]; then
            cp -L "$file" "$fresh/etc/apt/trusted.gpg.d/"
        fi
    done
    mkdir -p "$fresh/etc/ssl/certs"
    cp -rL /etc/ssl/certs/. "$fresh/etc/ssl/certs/" 2>/dev/null || true
    cp -L /etc/resolv.conf /etc/hosts "$fresh/etc/"
}

copy_sources() {
    mkdir "$fresh/cellbatch"
    if [ "$copy_tree" -eq 0 ] && git -C "$root" rev-parse --git-dir >/dev/null 2>&1; then
        git -c safe.directory='*' clone --quiet --local --no-hardlinks "$root" "$fresh/cellbatch"
    else
        tar -C "$root" --exclude=./build --exclude=./.git -cf - . | tar -C "$fresh/cellbatch" -xf -
    fi
    chown -R root:root "$fresh/cellbatch"
}

mount_all() {
    mount -t proc proc "$fresh/proc"
    mkdir -p "$fresh/dev/shm"
    mount -t tmpfs -o nosuid,nodev tmpfs "$fresh/dev/shm"
    if [ -n "${CELLBATCH_DATA:-}" ]; then
        mkdir "$fresh/data"
        mount --bind "$CELLBATCH_DATA" "$fresh/data"
        mount -o remount,bind,ro "$fresh/data"
    fi
}

# In the tree, with nothing of this shell's environment but proxies.
inside() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        ${CELLBATCH_DATA:+CELLBATCH_DATA=/data} ${http_proxy:+http_proxy="$http_proxy"} \
        ${https_proxy:+https_proxy="$https_proxy"} ${no_proxy:+no_proxy="$no_proxy"} \
        chroot "$@"
}
export -f inside

# An ordinary user is told the command and nothing is installed.
ordinary_user_is_told() {
    local output
    if output=$(inside --userspec=65534:65534 "$fresh" /bin/sh -c 'cd /cellbatch && make test' 2>&1); then
        echo "make test went on without packages and without root"
        return 1
    fi
    grep -q 'apt-get install .*libuv1-dev' <<<"$output" || {
        echo "$output"
        return 1
    }
}
export -f ordinary_user_is_told
export fresh

mirror=$(host_sources | awk -v release="$release" '$2 == release { print $1; exit }')
[ -n "$mirror" ] || die "this machine's apt has no source for $release"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

step "debootstrap $release with make" "$step_limit_s" \
    debootstrap --variant=minbase --include=make --keyring="$keyring" "$release" "$fresh" "$mirror"
copy_apt_configuration
copy_sources
mount_all
step "without root: the command is printed" 60 bash -c ordinary_user_is_told
for target in "${targets[@]}"; do
    limit=$step_limit_s
    [ "$target" != demo ] || limit=$demo_limit_s
    SHOW_LINES=20 step "make $target" "$limit" \
        bash -c "inside '$fresh' /bin/sh -c 'cd /cellbatch && make $target'"
done
echo "fresh-check: passed (make ${targets[*]})"
