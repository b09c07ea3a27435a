#!/bin/bash
# Boots a machine that image.sh built, has it run a test, and brings back what that left.
#
#   e2e/vm/boot.sh IMAGE DISK PAYLOAD RESULT
#
#   IMAGE     image.sh's directory: its kernel and initrd are booted
#   DISK      the root disk, which the machine writes to
#   PAYLOAD   a directory that becomes the machine's second disk; guest/test.sh in it is run
#   RESULT    gets the console's output as console.log, and the payload's out/
#
# Environment: ACCEL, kvm or tcg (default: kvm where this machine has it, else tcg, which
# emulates every instruction); SMP (2); MEM in MiB (4096); TIMEOUT in seconds (10800), which only
# ends a machine that hangs.
#
# The machine has no network. The exit status is that of guest/test.sh; 124 after TIMEOUT;
# 125 if the test came to no end.
set -eu -o pipefail
image=$1 disk=$2 payload=$3 result=$4

if [ -z "${ACCEL:-}" ]; then
    ACCEL=tcg
    # Some virtual machines have /dev/kvm without the CPU for it: there KVM stops at its first kernel.
    if grep -qwE 'vmx|svm' /proc/cpuinfo && (: <>/dev/kvm) 2>/dev/null; then ACCEL=kvm; fi
fi
case $ACCEL in
kvm) machine=(-accel kvm -cpu host) ;;
# QEMU 7.2 emulates cmpxchg16b in a way that Linux 6.12 crashes on; page tables of five
# levels only cost time.
tcg) machine=(-accel "tcg,thread=multi" -cpu "max,la57=off,-cx16") ;;
*)
    echo "boot.sh: ACCEL is $ACCEL, not kvm or tcg" >&2
    exit 2
    ;;
esac

rm -rf "$result"
mkdir -p "$result"
second=$result/payload.img
trap 'rm -f "$second"' EXIT
size=$(du -skL "$payload" | cut -f1)
truncate -s $((size + size / 4 + 512 * 1024))K "$second" # room for the file system, and for out/
mke2fs -q -F -t ext4 -d "$payload" "$second"

echo "boot.sh: $ACCEL, $(basename "$disk")"
start=$SECONDS status=0
# -no-reboot with panic=-1: a kernel that panics ends QEMU.
timeout --foreground --kill-after=10 "${TIMEOUT:-10800}" \
    qemu-system-x86_64 "${machine[@]}" -smp "${SMP:-2}" -m "${MEM:-4096}" \
    -nodefaults -no-user-config -no-reboot -display none -serial stdio \
    -kernel "$image/kernel" -initrd "$image/initrd" \
    -append 'root=/dev/vda rw console=ttyS0 quiet systemd.show_status=no panic=-1 mitigations=off' \
    -drive "file=$disk,if=virtio,format=qcow2,cache=unsafe" \
    -drive "file=$second,if=virtio,format=raw,cache=unsafe" \
    -object rng-random,id=random,filename=/dev/urandom -device virtio-rng-pci,rng=random \
    </dev/null | sed -u 's/\r$//' | tee "$result/console.log" || status=$?
echo "boot.sh: off after $((SECONDS - start)) s"
# QEMU 7.2 runs a breakpoint now and then that Linux puts in place of an instruction while it changes it.
! grep -q 'Kernel panic' "$result/console.log" || echo "boot.sh: the machine's kernel panicked: where it is emulated, run it again"

# A machine that was killed has not unmounted its disks.
e2fsck -fy "$second" >/dev/null 2>&1 || true
debugfs -R "rdump /out $result" "$second" >/dev/null 2>&1 || true
[ "$status" != 124 ] || exit 124
exit "$(cat "$result/out/status" 2>/dev/null || echo 125)"
