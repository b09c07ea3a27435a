# Sourced by the parts of the test. Each line that proves something begins with PASS or
# FAIL; out/ comes back to the host.
# shellcheck shell=bash

readonly out=/mnt/out
export GLOVEBOX_READY_SECONDS=3600 # of install.sh
readonly unit=/sys/fs/cgroup/system.slice/glovebox-podman.service
readonly leaves=$unit/glovebox-sandboxes

failed=0
pass() { echo "PASS $1"; }
fail() {
    echo "FAIL $1"
    failed=$((failed + 1))
}
part() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

# check WHAT COMMAND… passes when the command succeeds.
check() {
    local what=$1
    shift
    if "$@" >/dev/null 2>&1; then pass "$what"; else fail "$what"; fi
}

# equal WHAT GOT WANT
equal() {
    if [ "$2" = "$3" ]; then pass "$1: $2"; else fail "$1: got '$2', want '$3'"; fi
}

# await COMMAND… waits until the command succeeds. The bound only ends a test that has failed: it says
# nothing of how fast a machine is, which may be emulated on a host that has other work.
await() {
    local end=$((SECONDS + 1200))
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.5
    done
}

# add PACKAGE… installs packages of the distribution, whose files are in apt's cache.
add() { DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >"$out/apt-install.txt" 2>&1 || fail "apt-get install $*: exit $?"; }
# without_packages takes away what Glovebox's own scripts install: a new machine has none of it.
without_packages() {
    local command
    DEBIAN_FRONTEND=noninteractive apt-get purge -q -y --auto-remove \
        podman uidmap crun conmon fuse-overlayfs slirp4netns erofs-utils redis-server redis-tools >"$out/apt-purge.txt" 2>&1 || fail "apt-get purge: exit $?"
    for command in podman newuidmap mkfs.erofs redis-server; do check "there is no $command" bash -c "! command -v $command"; done
}

# run NAME [FLAG…] runs the bash program on stdin as a job, to its end: out/NAME.json. An
# emulated machine is so slow at times that the api's answer comes too late: get asks again.
run() {
    local name=$1 id
    shift
    id=$(submit "$@" 2>"$out/$name.err") || return
    await ended "$name" "$id"
}
ended() {
    glovebox get --wait=60s --json "$2" >"$out/$1.json" 2>>"$out/$1.err"
    [ -s "$out/$1.json" ] && [ "$(result "$1" status)" != queued ] && [ "$(result "$1" status)" != running ]
}

# submit [FLAG…] submits the program on stdin, of bash unless a flag says otherwise, and prints the job's
# id. A job has the longest time that one may have, as its own end is what is looked for. Where the answer comes
# too late, it is asked for again under the same key, so there is one job.
submit() {
    local program key tries=0
    program=$(mktemp) key=$(od -An -N9 -tx1 /dev/urandom | tr -d ' \n')
    cat >"$program"
    [[ " $* " == *" wall_ms="* ]] || set -- --limit wall_ms=300000 "$@"
    [[ " $* " == *" --runtime "* ]] || set -- --runtime bash "$@"
    until glovebox submit --key "$key" "$@" - <"$program"; do [ $((tries += 1)) -lt 5 ] || return; done
    rm "$program"
}

# result NAME FIELD
result() { jq -r ".$2" "$out/$1.json" 2>/dev/null || echo "no result: $(head -c 300 "$out/$1.err")"; }

# logged UNIT TEXT: has the unit said it since it was started last?
logged() { this_run "$1" | grep -q -- "$2"; }
this_run() { journalctl -q -o cat -u "$1" _SYSTEMD_INVOCATION_ID="$(systemctl show -P InvocationID "$1")"; }

leaf_count() { find "$leaves" -mindepth 1 -maxdepth 1 -type d 2>/dev/null | wc -l; }
# sandbox_processes are all of the sandbox user but what makes up the service.
sandbox_processes() { pgrep -u glovebox -a 'runsc|conmon|exe' | grep -E 'runsc|conmon' || true; }
a_leaf() { [ "$(leaf_count)" -gt 0 ]; }
no_sandbox() { [ "$(leaf_count)" = 0 ] && [ -z "$(sandbox_processes)" ] && [ "$(containers)" = "[]" ]; }
containers() { as_worker curl -fsS --unix-socket /run/glovebox-podman.sock 'http://d/v4.0.0/libpod/containers/json?all=true' | jq -c '[.[].Names[0]]'; }

# takes WHAT LEAF LEAST MOST: so many percent of a CPU, for ten seconds. It never may take more. Less may be what its
# start still takes, or what others have left: then it is asked again, for a minute.
takes() {
    local before start percent
    sleep 2 # the share counts from here
    for _ in 1 2 3 4 5 6; do
        before=$(cpu_us "$2") start=$(now_us)
        sleep 10
        percent=$((($(cpu_us "$2") - before) * 100 / ($(now_us) - start)))
        [ $percent -lt "$3" ] || break
    done
    if [ $percent -ge "$3" ] && [ $percent -le "$4" ]; then pass "$1 takes $percent % of a CPU"; else fail "$1 takes $percent % of a CPU"; fi
}
cpu_us() { sed -n 's/^usage_usec //p' "$1/cpu.stat"; }
now_us() { echo $(($(date +%s%N) / 1000)); }

# api_is_ready: it answers, and a worker offers each of the runtimes.
api_is_ready() {
    local list name
    curl -fsS "$GLOVEBOX_URL/readyz" && list=$(glovebox runtimes list) || return
    for name in "${@:-bash}"; do grep -q "^$name" <<<"$list" || return; done
}

# is_bounded WHAT: a job that takes more memory than it may is ended by hard limits.
is_bounded() {
    run bounded --limit memory_mb=96 <<<'dd if=/dev/zero of=/dev/null bs=1G count=1; echo survived'
    equal "$1: 1 GiB with memory_mb=96" "$(result bounded status) $(result bounded limits_enforced)" "out_of_memory hard"
}

# doctor_is_content WHAT: as infra/install.sh says to call it.
doctor_is_content() {
    # shellcheck source=/dev/null
    (set -a && . /etc/glovebox/worker.env && glovebox doctor) >"$out/doctor.txt" 2>&1
    equal "$1: doctor" "exit $? $(grep ^problem "$out/doctor.txt")" "exit 0 "
    cat "$out/doctor.txt"
}

# nothing_of_glovebox: a machine from which all of it was taken away.
nothing_of_glovebox() {
    equal "users that are left" "$(getent passwd | cut -d: -f1 | grep glovebox | xargs)" ""
    equal "groups that are left" "$(getent group | cut -d: -f1 | grep glovebox | xargs)" ""
    equal "units that are left" "$(systemctl list-units --all --no-legend 'glovebox*' | xargs)$(systemctl list-unit-files --no-legend 'glovebox*' | xargs)" ""
    equal "files that are left" "$(find / -xdev \( -path /proc -o -path /mnt -o -path /sys \) -prune -o -iname '*glovebox*' -print)" ""
    equal "files of no user" "$(find / -xdev -path /mnt -prune -o \( -nouser -o -nogroup \) -print | head -n 5 | xargs)" ""
    equal "processes that are left" "$(pgrep -a 'glovebox|runsc|versitygw|conmon' | xargs)" ""
    equal "what listens still" "$(ss -Hltn | grep -E ':(8437|8440|6390)\b')" ""
}

# nothing_left WHAT
nothing_left() {
    if await no_sandbox; then
        pass "$1: no leaf, no process, no container is left"
    else
        fail "$1: left are $(leaf_count) leaves, containers '$(containers)', processes '$(sandbox_processes)'"
        systemd-cgls --no-pager -u glovebox-podman.service
    fi
}

# as_worker COMMAND… with the worker's rights.
as_worker() { setpriv --reuid=glovebox-worker --regid=glovebox-worker --groups="$(id -g glovebox)" env -C / HOME=/tmp/worker "$@"; }
# as_escaped COMMAND… with the rights of the user of the sandboxes, from outside its unit.
as_escaped() { setpriv --reuid=glovebox --regid=glovebox --init-groups env -i -C / HOME=/var/lib/glovebox PATH="$PATH" "$@"; }
