#!/bin/bash
# Proves what a production worker host promises, in a virtual Debian machine: hard
# limits, two users, units that come back; and what infra/install.sh does on a machine with nothing
# of Glovebox. `make test-vm` runs it, after a setup.
#
#   e2e/vm/run.sh                         build what is missing, boot, run guest/test.sh
#   ONLY="limits users" e2e/vm/run.sh     some of its parts; ONLY=install: none but the first
#   ONLY=onehost e2e/vm/run.sh            infra/install.sh alone; without ONLY it comes last
#
# As root. Environment: WORK, where the disks are kept (default ~/.cache/glovebox-vm); SUITE, trixie or
# bookworm; what boot.sh takes. Only the machine is virtual: systemd, Podman, runsc, Redis,
# versitygw, the api and the worker are the real ones, installed by infra/worker-host.sh.
set -eu -o pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
suite=${SUITE:-trixie}
work=${WORK:-$HOME/.cache/glovebox-vm}/$suite

say() { printf '== %s\n' "$1"; }
fail() {
    echo "test-vm: $1" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || fail "needs root, to make the disk of a Debian machine"
[ "$(uname -m)" = x86_64 ] || fail "needs an x86_64 host: the machine is one"

missing=()
for package in mmdebstrap debian-archive-keyring e2fsprogs qemu-system-x86 qemu-utils; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    say "install ${missing[*]}"
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
fi

mkdir -p "$work"
exec {lock}>"$work/lock"
flock -n "$lock" || fail "another run uses $work: wait for it, or name another directory with WORK="

# sum PATH… is a name for what the files hold.
sum() { find "$@" -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-12; }

# overlay DISK BASE makes a disk that starts as BASE, which stays as it is.
overlay() {
    rm -f "$1"
    qemu-img create -q -f qcow2 -b "$2" -F "${3:-qcow2}" "$1"
}

image=$work/image
made=$(sum e2e/vm/image.sh e2e/vm/packages.txt e2e/vm/root)
if [ "$(cat "$image/made" 2>/dev/null)" != "$made" ]; then
    say "build a Debian $suite machine"
    rm -rf --one-file-system "$image"
    rm -f "$work"/installed-*
    mkdir "$image"
    nice e2e/vm/image.sh "$suite" "$image"
    echo "$made" >"$image/made"
fi

say "pack what the machine installs"
payload=$work/payload
rm -rf "$payload/guest"
mkdir -p "$payload"
nice infra/worker-host.sh --pack "$payload/pack" bash
install -m 755 /usr/local/lib/glovebox/versitygw "$payload/versitygw"
tags=$(sed -n 's/^PODMAN_TAGS := //p' Makefile)
CGO_ENABLED=0 nice go test -c -trimpath -tags "$tags" -o "$payload/sandbox.test" ./worker/sandbox/podman
cp -r e2e/vm/guest "$payload/guest"

# one_host boots a machine twice: it is switched off while a job is queued. Its disk is larger than the
# image, as infra/install.sh wants it.
one_host() {
    local part status=0
    rm -f "$work/large.img"
    cp --sparse=always "$image/disk.img" "$work/large.img"
    truncate -s 16G "$work/large.img"
    e2fsck -fy "$work/large.img" >/dev/null 2>&1 || [ $? = 1 ] || fail "the image's file system is damaged"
    resize2fs "$work/large.img" >/dev/null 2>&1
    overlay "$work/onehost.qcow2" "$work/large.img" raw
    for part in onehost onehostboot; do
        say "boot: $part"
        echo $part >"$payload/only"
        nice -n 5 e2e/vm/boot.sh "$image" "$work/onehost.qcow2" "$payload" "$work/$part" || status=$?
        say "exit $status; what the machine left is in $work/$part"
        [ $status = 0 ] || break
    done
    rm -f "$work/onehost.qcow2" "$work/large.img"
    return $status
}
if [ "${ONLY:-}" = onehost ]; then
    one_host
    exit
fi

# Loading a runtime's image takes an emulated machine minutes: a disk on which install.sh has
# been is kept.
runtime=$(basename "$payload"/pack/images/bash-*.tar .tar)
installed=$work/installed-${runtime:0:17}-$(sum e2e/vm/guest/install.sh).qcow2
if [ ! -e "$installed" ]; then
    say "install a worker host"
    rm -f "$work"/installed-*
    overlay "$work/installing.qcow2" "$image/disk.img" raw
    echo install >"$payload/only"
    nice -n 5 e2e/vm/boot.sh "$image" "$work/installing.qcow2" "$payload" "$work/install"
    mv "$work/installing.qcow2" "$installed"
fi

say "boot and test"
echo "${ONLY:-}" >"$payload/only"
overlay "$work/test.qcow2" "$installed"
status=0
nice -n 5 e2e/vm/boot.sh "$image" "$work/test.qcow2" "$payload" "$work/result" || status=$?
rm -f "$work/test.qcow2"
say "exit $status; what the machine left is in $work/result"
[ $status = 0 ] && [ -z "${ONLY:-}" ] || exit $status
one_host
