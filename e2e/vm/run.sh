#!/bin/bash
# Proves what a production worker host promises, in a virtual Debian machine, and what an installation
# does on machines with nothing of Glovebox. `make test-vm` runs it, after a setup.
#
#   e2e/vm/run.sh                              build what is missing, boot, run all parts
#   ONLY="limits users" e2e/vm/run.sh          some of them
#
#   limits users restart selftest gotests snapshots
#              on one worker host: hard limits, two users, units that come back
#   install    that host, and a first job
#   onehost    infra/install.sh, a switch-off, a backup; then its restore on a second machine
#   archive    a release's archive: infra/install.sh, a chart and its webhook, an upgrade in a batch
#   packages   a release's Debian packages, and an upgrade while jobs run
#
# As root. Environment: WORK, where the disks are kept (default ~/.cache/glovebox-vm); SUITE, trixie or
# bookworm; what boot.sh takes. Only the machine is virtual: systemd, Podman, runsc, Redis,
# versitygw, the api and the worker are the real ones. The release is made of the last commit, unless
# RELEASE names a directory that has one for amd64. CHART is the runtime that draws a chart: python, or r,
# whose image is a third of that.
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

parts=${ONLY:-limits users restart selftest gotests snapshots onehost archive packages}
host_parts='' # those on one worker host
for part in $parts; do
    case $part in
    install | onehost | archive | packages) ;;
    limits | users | restart | selftest | gotests | snapshots) host_parts+=" $part" ;;
    *) fail "there is no part '$part': e2e/vm/run.sh lists them" ;;
    esac
done
wanted() { [[ " $parts " == *" $1 "* ]]; }

kit=$work/kit # all that machines get; one of them gets a part
# release_is_due: has a release to be made, as there is none of the last commit?
release_is_due() {
    { wanted archive || wanted packages; } && [ -z "${RELEASE:-}" ] &&
        [ "$(cat "$kit/release/commit" 2>/dev/null)" != "$(git rev-parse HEAD)" ]
}
if release_is_due && [ -n "$(git status --porcelain)" ]; then
    fail "archive and packages install a release of the last commit, and the tree has changes: commit, or name other parts with ONLY="
fi

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

# ---- what machines get ------------------------------------------------------------

runtimes=(bash)
chart=${CHART:-python}
! wanted archive || runtimes+=("$chart")
say "pack what machines install"
mkdir -p "$kit"
infra/worker-host.sh --pack "$kit/pack" "${runtimes[@]}"
tags=$(sed -n 's/^PODMAN_TAGS := //p' Makefile)
if [[ $host_parts == *gotests* ]]; then
    CGO_ENABLED=0 go test -c -trimpath -tags "$tags" -o "$kit/sandbox.test" ./worker/sandbox/podman
fi
# commit_of DIR prints what a release was made of.
commit_of() {
    local program=$kit/glovebox-of-release
    rm -f "$program"
    tar -xzOf "$1"/glovebox_*_linux_amd64.tar.gz --wildcards '*/bin/glovebox' >"$program"
    chmod 755 "$program"
    "$program" version --json | sed -n 's/.*"commit": *"\([0-9a-f]*\)".*/\1/p'
    rm -f "$program"
}
if wanted archive || wanted packages; then
    if [ -n "${RELEASE:-}" ]; then
        rm -rf "$kit/release"
        cp -r "$RELEASE" "$kit/release"
    elif release_is_due; then
        say "make a release of $(git rev-parse HEAD)"
        rm -rf "$kit/release"
        make --no-print-directory release RELEASE_ARCHS=amd64 RELEASE_OUT="$kit/release"
    fi
    made=$(commit_of "$kit/release")
    echo "$made" >"$kit/release/commit"
    say "the release is of $made"
fi
if wanted packages || [[ $host_parts == *snapshots* ]]; then
    say "put images into a bucket"
    e2e/vm/bucket.sh "$kit/s3" bash typescript
fi

# payload NAME PART… begins what a machine gets: its parts. The functions below add to it.
payload() {
    payload=$work/payload-$1
    rm -rf "$payload"
    mkdir -p "$payload"
    cp -r e2e/vm/guest "$payload/guest"
    echo "${*:2}" >"$payload/parts"
}
# take TO FILE… links files of the kit into the payload's directory TO.
take() {
    mkdir -p "$payload/$1"
    (cd "$kit" && cp -al "${@:2}" "$payload/$1/")
}
take_pack() { # RUNTIME…, whose images it has, and no others
    local runtime
    take pack pack/bin pack/lib pack/infra
    for runtime; do take pack/images "$(image_of "$runtime")"; done
}
image_of() { (cd "$kit" && echo pack/images/"$1"-*.tar); }
take_versitygw() { install -m 755 /usr/local/lib/glovebox/versitygw "$payload/versitygw"; }
take_release() { # PATTERN of its files
    local files
    mapfile -t files < <(cd "$kit" && compgen -G "release/$1")
    take release release/commit "${files[@]}"
}
take_bucket() { take . s3; }

failed=() # machines
# boot NAME DISK runs the payload on the disk. It leaves the exit status in booted.
boot() {
    booted=0
    say "boot: $1: $(cat "$payload/parts")"
    e2e/vm/boot.sh "$image" "$2" "$payload" "$work/$1" || booted=$?
    say "$1: exit $booted; what the machine left is in $work/$1"
    rm -rf "$payload"
    [ $booted = 0 ] || failed+=("$1")
}
# fresh NAME makes the disk of a machine with nothing of Glovebox.
fresh() {
    disk=$work/$1.qcow2
    overlay "$disk" "$image/disk.img" raw
}

# ---- machines ---------------------------------------------------------------------

# worker_host is one that guest/install.sh makes. Loading a runtime's image takes an emulated machine
# minutes: a disk on which that was done is kept.
worker_host() {
    local runtime installed
    runtime=$(basename "$(image_of bash)" .tar)
    installed=$work/installed-${runtime:0:17}-$(sum e2e/vm/guest/install.sh e2e/vm/guest/servers.sh).qcow2
    if [ ! -e "$installed" ]; then
        rm -f "$work"/installed-*
        overlay "$work/installing.qcow2" "$image/disk.img" raw
        payload install install
        take_pack bash
        take_versitygw
        boot install "$work/installing.qcow2"
        [ $booted = 0 ] || return 0
        mv "$work/installing.qcow2" "$installed"
    fi
    [ -n "$host_parts" ] || return 0
    payload host "install$host_parts"
    take_pack bash
    take_versitygw
    [[ $host_parts != *gotests* ]] || take . sandbox.test
    [[ $host_parts != *snapshots* ]] || take_bucket
    overlay "$work/host.qcow2" "$installed"
    boot host "$work/host.qcow2"
    rm -f "$work/host.qcow2"
}

# one_host boots a machine twice: it is switched off while a job is queued. Another one gets the backup.
one_host() {
    fresh onehost
    payload onehost onehost
    take_pack bash
    boot onehost "$disk"
    if [ $booted = 0 ]; then
        payload onehostboot onehostboot
        take_pack bash
        boot onehostboot "$disk"
        rm -f "$disk"
        fresh restored
        payload restored restored
        take_pack bash
        mv "$work/onehost/out/elsewhere" "$payload/elsewhere"
        boot restored "$disk"
    fi
    rm -f "$disk"
}

of_archive() {
    fresh archive
    payload archive archive chart upgrade
    take_pack
    take images "$(image_of bash)" "$(image_of "$chart")"
    echo "$chart" >"$payload/draws"
    take_release '*_linux_amd64.tar.gz'
    boot archive "$disk"
    rm -f "$disk"
}

of_packages() {
    fresh packages
    payload packages packages
    take_release '*_amd64.deb'
    take_versitygw
    take_bucket
    boot packages "$disk"
    rm -f "$disk"
}

if [ -n "$host_parts" ] || wanted install; then worker_host; fi
! wanted onehost || one_host
! wanted archive || of_archive
! wanted packages || of_packages
if [ ${#failed[@]} -gt 0 ]; then fail "failed: ${failed[*]}"; fi
