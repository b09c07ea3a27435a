# What an escape from gVisor finds: it is the user glovebox. Everything below is tried as
# that user twice: from outside of its unit, with no wall but the user, and as a process
# of the unit, in its cgroup and its namespaces.
# shellcheck shell=bash
# shellcheck disable=SC2154 # out, unit and leaves are those of lib.sh

worker=$(systemctl show -P MainPID glovebox-worker)
# shellcheck disable=SC2034 # a loop below has it, by its name
api=$(systemctl show -P MainPID glovebox-api)
podman_pid=$(systemctl show -P MainPID glovebox-podman)
redis_user=$(sed -n 's#^GLOVEBOX_REDIS_URL=redis://\([^:]*\):.*#\1#p' /etc/glovebox/worker.env)
redis_password=$(sed -n 's#^GLOVEBOX_REDIS_URL=redis://[^:]*:\([^@]*\)@.*#\1#p' /etc/glovebox/worker.env)
mapfile -t secrets < <(sed -nE 's/^GLOVEBOX_(S3_ACCESS_KEY|S3_SECRET_KEY|SIGNING_KEY|TOKEN|WEBHOOK_KEY|CAPABILITY_KEY)=(.+)/\2/p' /etc/glovebox/*.env)
equal "users" "$(ps -o user:20= -p "$worker"; ps -o user:20= -p "$podman_pid")" "glovebox-worker
glovebox"

# The one thing of the host that a sandbox has is a file.
echo 'awk "\$2 == \"/\" { print \$3 }" /proc/mounts' | run root
equal "the file system of a sandbox's root" "$(result root status) $(result root stdout)" "succeeded erofs"

# as_inside COMMAND… as a process of the unit: in its cgroup, then its network and view of files.
as_inside() {
    bash -c 'echo $$ >'"$unit"'/sup/cgroup.procs && exec nsenter -t '"$podman_pid"' --net --mount setpriv --reuid=glovebox --regid=glovebox --init-groups \
        env -i -C / HOME=/var/lib/glovebox PATH="$PATH" "$@"' - "$@"
}

# denied WHAT COMMAND… has to fail in both places, and say nothing secret.
denied() {
    local what=$1 where said status secret
    shift
    for where in as_escaped as_inside; do
        status=0
        said=$($where timeout 600 "$@" 2>&1) || status=$?
        if [ $status = 124 ]; then
            fail "$where: $what: no end in ten minutes"
            continue
        fi
        for secret in "$redis_password" "${secrets[@]}"; do
            if [[ $said == *"$secret"* ]]; then
                fail "$where: $what: says a secret"
                continue 2
            fi
        done
        if [ $status = 0 ]; then
            fail "$where: $what: works: ${said:0:200}"
        else
            said=${said##*$'\n'} # no forks: an emulated machine takes a tenth of a second for each
            pass "$where can't $what (${said:0:90})"
        fi
    done
}

cat >/tmp/ptrace.py <<'PYTHON'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, int(sys.argv[1]), 0, 0) != 0:  # PTRACE_ATTACH
    sys.exit(os.strerror(ctypes.get_errno()))
PYTHON
cat >/tmp/readv.py <<'PYTHON'
import ctypes, os, sys
class iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
libc = ctypes.CDLL(None, use_errno=True)
libc.process_vm_readv.restype = ctypes.c_ssize_t
buf = ctypes.create_string_buffer(8)
address = int(sys.argv[2], 16)
if libc.process_vm_readv(int(sys.argv[1]), ctypes.byref(iovec(ctypes.addressof(buf), 8)), 1, ctypes.byref(iovec(address, 8)), 1, 0) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
PYTHON
chmod 644 /tmp/ptrace.py /tmp/readv.py

# ---- secrets on disk -------------------------------------------------------------

for file in /etc/glovebox/worker.env /etc/glovebox/api.env /etc/glovebox/s3.env; do denied "read $file" cat $file; done
denied "write to /etc/glovebox" touch /etc/glovebox/x
denied "list the bucket's files" ls /var/lib/versitygw
denied "read Redis' files" ls /var/lib/redis
denied "read systemd's credentials" bash -c 'ls /run/credentials/* 2>&1 | grep .; cat /run/credentials/*/* /run/systemd/propagate/*/* /etc/credstore*/*'
denied "see the secrets in the units' properties" bash -c 'systemctl show glovebox-worker glovebox-api | grep -E "GLOVEBOX_(REDIS_URL|S3_SECRET_KEY|TOKEN)="'
denied "read the journal" bash -c 'journalctl -q -u glovebox-worker -n 1 | grep . || { echo nothing; exit 1; }'
denied "read core dumps" bash -c 'cat /var/lib/systemd/coredump/*'
denied "read the worker's spool and temporary files" bash -c 'ls /tmp/systemd-private-*-glovebox-worker*/ /proc/'"$worker"'/root/tmp'
denied "read the home of the worker" bash -c 'ls "$(getent passwd glovebox-worker | cut -d: -f6)"'

# ---- the processes that have them --------------------------------------------------

for process in worker api; do
    pid=${!process}
    start=$(awk 'NR == 1 { sub(/-.*/, "", $1); print $1 }' "/proc/$pid/maps")
    denied "read the $process's environment" cat "/proc/$pid/environ"
    denied "read the $process's memory" dd if="/proc/$pid/mem" bs=8 count=1 skip=$((0x$start / 8))
    denied "read the $process's memory by process_vm_readv" python3 /tmp/readv.py "$pid" "$start"
    denied "read the $process's memory map" cat "/proc/$pid/maps"
    denied "list the $process's descriptors" ls "/proc/$pid/fd/"
    denied "enter the $process's root" ls "/proc/$pid/root/"
    denied "trace the $process" python3 /tmp/ptrace.py "$pid"
    denied "signal the $process" kill -9 "$pid"
    denied "enter the $process's cgroup" bash -c "echo \$\$ >/sys/fs/cgroup/system.slice/glovebox-$process.service/cgroup.procs"
    equal "$process still the same process" "$(systemctl show -P MainPID "glovebox-$process")" "$pid"
done
denied "dump a worker's core" bash -c "grep -E '^Max core file size +[1-9u]' /proc/$worker/limits"

# ---- the servers -------------------------------------------------------------------

denied "use Redis without its password" bash -c 'redis-cli -h 127.0.0.1 ping | grep PONG'
denied "list the bucket without keys" curl -fsS http://127.0.0.1:7070/glovebox
denied "use the API without a token" curl -fsS http://127.0.0.1:8437/v1/jobs/x

# ---- ways out of the unit ------------------------------------------------------------

denied "start something with cron" bash -c 'echo "* * * * * true" | crontab -'
denied "start something with at" bash -c 'echo true | at now'
denied "have a systemd of its own" bash -c 'loginctl --no-ask-password enable-linger glovebox; sleep 5; systemctl is-active "user@$(id -u).service"'
loginctl disable-linger glovebox 2>/dev/null
denied "start a unit" systemd-run --no-ask-password true
denied "start a unit of a systemd of its own" systemd-run --user true
denied "stop the worker" systemctl --no-ask-password stop glovebox-worker
denied "become root by su" bash -c 'su -c id </dev/null'
denied "raise what all sandboxes together may have" bash -c "echo max >$unit/memory.max"
denied "leave the unit's cgroup" bash -c 'echo $$ >/sys/fs/cgroup/cgroup.procs'
denied "put another socket in the place of Podman's" bash -c 'rm /run/glovebox-podman.sock'
check "the worker's pipe socket is there (so the next can fail)" bash -c 'test -S /run/glovebox-worker/glovebox-worker-*/pipes.sock'
denied "put another socket in the place of the worker's" bash -c 'rm -r /run/glovebox-worker/glovebox-worker-*'
denied "change what is run" bash -c 'touch /usr/local/lib/glovebox/x /usr/local/bin/x'

# With the password and the keys it would still need a network, which the unit has not.
inside() { as_inside timeout 30 "$@"; }
reached=
inside bash -c "redis-cli -h 127.0.0.1 --user $redis_user -a $redis_password ping 2>&1 | grep -q PONG" && reached="$reached Redis"
inside curl -sS -o /dev/null http://127.0.0.1:7070/ && reached="$reached S3"
equal "what the unit reaches of Redis (with the password) and S3" "$reached" ""
equal "the unit's network devices" "$(inside bash -c 'tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " "' | sort | tr '\n' ' ')" "lo "
check "without the unit's wall the password would do (so the test above can fail)" as_escaped redis-cli -h 127.0.0.1 --user "$redis_user" -a "$redis_password" ping

# ---- ssh ---------------------------------------------------------------------------------

# A user who may log in may forward ports from outside of the unit, whatever their shell is. On
# this machine there is a way to sshd from within the unit, too: a socket of systemd's.
ssh-keygen -q -t ed25519 -N '' -f /tmp/key && chmod 644 /tmp/key # of root, so ssh takes it
systemctl start ssh
# forward USER@HOST reaches Redis, as someone who has been let in at HOST may.
cat >/tmp/forward <<'BASH'
printf 'PING\r\n' | ssh -i /tmp/key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -W 127.0.0.1:6379 "$1" | grep NOAUTH
BASH
let_in() { install -d -m 755 -o "$1" "$2/.ssh" && install -m 644 -o "$1" /tmp/key.pub "$2/.ssh/authorized_keys"; }
useradd --system --create-home --home-dir /var/lib/visitor --shell /usr/sbin/nologin visitor
let_in visitor /var/lib/visitor
check "sshd forwards for a user without a shell (so the next can fail)" await as_escaped bash /tmp/forward visitor@127.0.0.1
denied "let itself in by ssh" bash -c 'mkdir -p ~/.ssh && cat /tmp/key.pub >~/.ssh/authorized_keys'
denied "have another home" bash -c 'mv ~ /var/lib/g || mv ~/.ssh ~/.s'
let_in root /var/lib/glovebox # as if it had
denied "forward by ssh" bash /tmp/forward glovebox@127.0.0.1
if [ -S /run/ssh-unix-local/socket ]; then denied "forward by systemd's socket of ssh" bash /tmp/forward glovebox@unix/run/ssh-unix-local/socket; fi
rm -r /var/lib/glovebox/.ssh

# ---- what it asks of the kernel --------------------------------------------------------------

cat >/tmp/families.py <<'PYTHON'
import socket
def opens(family):
    for kind in socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW:
        try:
            socket.socket(family, kind)
            return True
        except OSError:
            pass
print(*sorted({f.name for f in socket.AddressFamily if opens(f)}))
PYTHON
families() { systemd-run --quiet --wait --pipe -p User=glovebox "$@" python3 /tmp/families.py; }
equal "address families of the unit" "$(families -p RestrictAddressFamilies="$(systemctl show -P RestrictAddressFamilies glovebox-podman)")" "AF_INET AF_INET6 AF_NETLINK AF_UNIX"
case "$(families)" in *AF_VSOCK*) pass "without the unit's wall AF_VSOCK is there (so the test above can fail)" ;; *) fail "there is no AF_VSOCK here" ;; esac

# ---- what it has ---------------------------------------------------------------------

echo "What does work as user glovebox:"
allowed() {
    local what=$1
    shift
    as_inside timeout 60 "$@" >/dev/null 2>&1 && echo "  has: $what" || echo "  has not: $what"
}
allowed "Podman's socket, so every sandbox" curl -fsS --unix-socket /run/glovebox-podman.sock http://d/v4.0.0/libpod/info
allowed "the worker's pipe socket, which gives a sandbox's pipes to the process that makes it" bash -c 'ls -d /run/glovebox-worker/glovebox-worker-* && test -w /run/glovebox-worker/glovebox-worker-*/pipes.sock'
allowed "its own images and containers" ls /var/lib/glovebox/.local/share/glovebox/storage
allowed "the limits of its sandboxes' cgroups" test -w "$leaves/cgroup.subtree_control"
allowed "the names and commands of all processes" ps -p "$worker" -o args
allowed "the names of the units" systemctl is-active glovebox-worker
allowed "/tmp, /var/tmp and /dev/shm of the host" bash -c 'touch /tmp/g /var/tmp/g /dev/shm/g && rm /tmp/g /var/tmp/g /dev/shm/g'
