# Where limits aren't hard, the worker finds out, says so, and refuses where it was told to.
# shellcheck shell=bash
# shellcheck disable=SC2154 # out, unit and leaves are those of lib.sh

dropin=/run/systemd/system/glovebox-podman.service.d
demand() { # demand true|false
    sed -i "s/^GLOVEBOX_REQUIRE_CGROUPS=.*/GLOVEBOX_REQUIRE_CGROUPS=$1/" /etc/glovebox/worker.env
}
# restart_units: the worker goes and comes with Podman.
restart_units() {
    systemctl stop glovebox-worker
    systemctl daemon-reload
    systemctl restart glovebox-podman.service
    systemctl start glovebox-worker
}
says_limits() { this_run glovebox-worker | grep -E 'limits are' | tail -n 1; }
exited() { [ "$(systemctl show -P NRestarts glovebox-worker)" -gt 0 ]; }
# refused WHAT REASON…: the worker ended by itself, not with 0, and gave the reasons.
refused() {
    # Its own restarts would make it a new run, so the log is looked at from here on.
    local what=$1 since status reason said=yes
    shift
    since=$(date '+%F %T')
    sleep 1
    restart_units
    await exited || fail "$what: the worker did not end"
    systemctl stop glovebox-worker
    journalctl -q -o cat -u glovebox-worker --since "$since" >"$out/refused.txt"
    grep -E 'limits|level":"ERROR' "$out/refused.txt" | head -n 2
    status=$(sed -n 's/.*Main process exited.* status=\([0-9]*\).*/\1/p' "$out/refused.txt" | head -n 1)
    for reason in "$@"; do
        grep -qi "$reason" "$out/refused.txt" || said=no
    done
    if [ $said = yes ] && [ "${status:-0}" != 0 ]; then
        pass "$what: the worker refuses to start (status $status)"
    else
        fail "$what: the worker doesn't refuse"
        tail -n 5 "$out/refused.txt"
    fi
}
# soft WHAT: the worker runs jobs and says that limits are soft.
soft() {
    demand false
    restart_units
    check "$1: the worker says soft" await logged glovebox-worker 'limits are soft'
    says_limits
    echo 'echo $((6 * 7))' | run soft
    equal "$1: a job" "$(result soft status) $(result soft stdout) $(result soft limits_enforced)" "succeeded 42 soft"
    demand true
}

# ---- the unit has no delegated cgroup ------------------------------------------------

mkdir -p $dropin
printf '[Service]\nDelegate=no\n' >$dropin/soft.conf
refused "without Delegate" 'limits are soft' 'GLOVEBOX_REQUIRE_CGROUPS\|require-cgroups'
soft "without Delegate"
check "podman-service.sh says why" logged glovebox-podman 'podman-service: limits of sandboxes will be soft: .*not delegated'
this_run glovebox-podman | grep podman-service:
# shellcheck source=/dev/null
(set -a && . /etc/glovebox/worker.env && glovebox doctor) >"$out/doctor-soft.txt" 2>&1
grep cgroups "$out/doctor-soft.txt"
check "doctor says soft" grep -qE '^warning +cgroups .*soft' "$out/doctor-soft.txt"
rm -r $dropin

# ---- plain runsc, which ignores limits without a word, and the worker's pipes ------------

cp /usr/local/lib/glovebox/glovebox-runtime /root/glovebox-runtime
cat >/usr/local/lib/glovebox/glovebox-runtime <<'SH'
#!/bin/sh
case $0 in */conmon) exec /usr/bin/conmon "$@" ;; esac # the same file by another name
exec /usr/local/lib/glovebox/runsc --ignore-cgroups --network=none --platform=systrap "$@"
SH
demand false
restart_units
check "with plain runsc, whatever limits may be: the worker waits, and says why" await logged glovebox-worker 'waiting for a sandbox.*podman made no sandbox'
demand true
install -m 755 /root/glovebox-runtime /usr/local/lib/glovebox/glovebox-runtime

# ---- as it was -------------------------------------------------------------------------

restart_units
check "restored: the worker says hard" await logged glovebox-worker 'limits are hard'
says_limits
echo 'echo $((6 * 7))' | run restored
equal "restored: a job" "$(result restored status) $(result restored stdout) $(result restored limits_enforced)" "succeeded 42 hard"
