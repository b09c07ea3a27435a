#!/bin/bash
# Builds the machine that boot.sh boots: a Debian with packages.txt, the files of root/,
# and nothing of Glovebox. The packages' files stay in apt's cache, so that a test can install
# them without a network.
#
#   e2e/vm/image.sh SUITE DIR     DIR gets disk.img, kernel and initrd
#
# As root. The file system is written into the disk's image by mke2fs, so neither a loop
# device nor a partition table is needed.
set -eu -o pipefail
suite=$1 dir=$(readlink -f "$2")
cd "$(dirname "$(readlink -f "$0")")"

root=$dir/root
rm -rf --one-file-system "$root"
trap 'rm -rf --one-file-system "$root"' EXIT

# The mirror that this machine's apt uses. Without one, as on Ubuntu, mmdebstrap has its own.
# shellcheck disable=SC2016 # $(SITE) is apt's
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | grep -m 1 '^http' || true)
packages=$(grep -v '^#' packages.txt | xargs | tr ' ' ,)

# Timers would take CPU from a test that has little of it. redis-server is started by the
# test, with its settings. The console belongs to the test.
# shellcheck disable=SC2016 # $1 is the hook's
mmdebstrap --mode=root --variant=minbase --include="$packages" --skip=cleanup/apt \
    --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
    --customize-hook='cp -r root/. "$1"' \
    --customize-hook='systemctl --root="$1" --quiet enable guest-test.service' \
    --customize-hook='systemctl --root="$1" --quiet disable redis-server.service' \
    --customize-hook='systemctl --root="$1" --quiet mask serial-getty@ttyS0.service getty@tty1.service \
        apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer man-db.timer' \
    --customize-hook='passwd --root "$1" --quiet --delete root' \
    --customize-hook=': >"$1/etc/machine-id"' \
    "$suite" "$root" ${mirror:+"deb $mirror $suite main"}

cp -L "$root"/boot/vmlinuz-* "$dir/kernel"
cp -L "$root"/boot/initrd.img-* "$dir/initrd"
rm -f "$dir/disk.img"
truncate -s 16G "$dir/disk.img" # as infra/install.sh wants it; what is empty takes no room
mke2fs -q -F -t ext4 -d "$root" "$dir/disk.img"
