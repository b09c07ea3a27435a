# Units die and are restarted while jobs run: every job comes back, and nothing is left.
# shellcheck shell=bash
# shellcheck disable=SC2154 # out, unit and leaves are those of lib.sh

# under_load WHAT COMMAND… starts jobs, runs the command while they run, and waits for them.
under_load() {
    local what=$1 ids=() id good=0 attempts
    shift
    for _ in 1 2 3; do ids+=("$(submit --limit memory_mb=64 <<<'sleep 12; echo done')"); done
    two_run() { [ "$(leaf_count)" -ge 2 ]; }
    await two_run || fail "$what: no two jobs run"
    "$@"
    for id in "${ids[@]}"; do
        await ended under-load "$id"
        [ "$(result under-load status) $(result under-load stdout) $(result under-load limits_enforced)" = "succeeded done hard" ] && good=$((good + 1))
        attempts="${attempts:-}$(result under-load attempt) "
    done
    equal "$what: jobs that came back, of 3 (attempts ${attempts})" "$good" 3
    nothing_left "$what"
}

kill_main() { kill "-${2:-9}" "$(systemctl show -P MainPID "$1")"; }
# The server itself is a child in a user namespace, of the process that systemd knows.
kill_server() { pkill -9 -P "$(systemctl show -P MainPID glovebox-podman)" podman; }

under_load "kill -9 of the Podman service" kill_main glovebox-podman
under_load "kill -9 of Podman in its namespace" kill_server
under_load "restart of the Podman service" systemctl restart glovebox-podman
under_load "kill -9 of the worker" kill_main glovebox-worker
# It ends a Go program as a panic does. Status 2, as a wrong configuration, would be its last.
under_load "SIGQUIT of the worker" kill_main glovebox-worker QUIT
under_load "restart of the worker" systemctl restart glovebox-worker
under_load "kill -9 of the api" kill_main glovebox-api
check "the worker says again that limits are hard" await logged glovebox-worker 'limits are hard'
systemd-cgls --no-pager -u glovebox-podman.service | cut -c1-160
systemctl stop glovebox-worker glovebox-podman.service glovebox-podman.socket
check "stopped units leave no process of glovebox" bash -c '! pgrep -u glovebox'
check "stopped units leave no cgroup" test ! -e "$unit"
systemctl start glovebox-podman.socket glovebox-worker
check "started again, the worker runs jobs" await logged glovebox-worker 'limits are hard'
