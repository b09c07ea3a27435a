#!/bin/bash
# Proves what a production worker host promises, in an emulated Debian machine: hard
# limits, two users, units that come back. `make test-vm` runs it, after a setup.
#
#   e2e/vm/run.sh            build what is missing, boot, run guest/test.sh
#   ONLY="limits users" e2e/vm/run.sh     some of its parts
#
# Environment: VM, the directory with build-image.sh and run-vm.sh; WORK, where the
# disks are kept (default ~/.cache/glovebox-vm); SUITE, trixie or bookworm. Nothing of the
# machine is emulated but the machine itself: systemd, Podman, runsc, Redis, versitygw, the
# api and the worker are the real ones, installed by infra/worker-host.sh.
set -eu -o pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
VM=$(readlink -f "${VM:-../shared/vm}")
export SUITE=${SUITE:-trixie}
export WORK=${WORK:-$HOME/.cache/glovebox-vm}/$SUITE
export SMP=${SMP:-2} MEM=${MEM:-4096} TIMEOUT=${TIMEOUT:-3000}
# What a worker host needs, what the tests look with, and what a host is likely to have.
export EXTRA=conmon,fuse-overlayfs,slirp4netns,erofs-utils,jq,cron,at,systemd-coredump,polkitd,openssh-server,openssh-client

say() { printf '== %s\n' "$1"; }
[ -x "$VM/run-vm.sh" ] || { echo "no run-vm.sh in $VM: name its directory with VM=" >&2; exit 1; }

missing=()
for package in mmdebstrap e2fsprogs qemu-system-x86 qemu-utils; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    say "install ${missing[*]}"
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
fi

mkdir -p "$WORK"
if [ ! -e "$WORK/base.img" ] || [ "$(cat "$WORK/extra" 2>/dev/null)" != "$EXTRA" ]; then
    say "build the image of a Debian $SUITE machine"
    nice "$VM/build-image.sh"
    rm -f "$WORK"/provisioned-*
    echo "$EXTRA" >"$WORK/extra"
fi

say "pack what the machine installs"
payload=$WORK/payload
rm -rf "$payload/guest"
mkdir -p "$payload"
nice infra/worker-host.sh --pack "$payload/pack" bash
install -m 755 /usr/local/lib/glovebox/versitygw "$payload/versitygw"
tags=$(sed -n 's/^PODMAN_TAGS := //p' Makefile)
CGO_ENABLED=0 nice go test -c -trimpath -tags "$tags" -o "$payload/sandbox.test" ./worker/sandbox
cp -r e2e/vm/guest "$payload/guest"
printf 'exec bash guest/test.sh\n' >"$payload/test.sh"
echo "${ONLY:-}" >"$payload/only"

# Loading an image takes minutes in there: a disk that has it, and what install.sh did, is
# kept.
image=$(basename "$payload"/pack/images/bash-*.tar .tar)
install=$(sha256sum e2e/vm/guest/install.sh)
provisioned=$WORK/provisioned-${image:0:17}-${install:0:8}.qcow2
if [ ! -e "$provisioned" ]; then
    say "provision the machine"
    rm -f "$WORK"/provisioned-*
    echo install >"$payload/only"
    KEEP=$provisioned.new nice -n 5 "$VM/run-vm.sh" "$payload" "$WORK/provision" || {
        tail -n 40 "$WORK/provision/serial.log" >&2
        rm -f "$provisioned.new"
        exit 1
    }
    mv "$provisioned.new" "$provisioned"
    echo "${ONLY:-}" >"$payload/only"
fi

say "boot and test"
status=0
BASE=$provisioned nice -n 5 "$VM/run-vm.sh" "$payload" "$WORK/result" || status=$?
tr -d '\r' <"$WORK/result/serial.log"
say "exit $status; what the machine left is in $WORK/result/out"
exit $status
