#!/bin/bash
# Becomes Glovebox's Podman service, on the socket that systemd hands it, after making
# room for a cgroup per sandbox: glovebox-podman.service runs it.
#
#   podman-service.sh             the service
#   podman-service.sh COMMAND…    anything else of the Podman user, with that room: tests
#
# In the cgroup that systemd delegated to the unit it leaves
#
#   <unit>/sup                 this process and all that Podman starts
#   <unit>/glovebox-sandboxes  where glovebox-runtime makes a cgroup for each sandbox
#
# Where that can't be, it says why and goes on: sandboxes then have no hard limits, and
# a worker with GLOVEBOX_REQUIRE_CGROUPS refuses to start.
set -eu
. "$(dirname "$(readlink -f "$0")")/podman-user.sh"

readonly cgroups=/sys/fs/cgroup

# delegate makes the directory; what it prints is why it couldn't.
delegate() {
    local path unit controller process
    if [ ! -e $cgroups/cgroup.controllers ]; then
        echo "this machine has no unified cgroup v2: boot it with systemd.unified_cgroup_hierarchy=1"
        return 1
    fi
    path=$(sed -n 's/^0:://p' /proc/self/cgroup)
    unit=$cgroups${path%/sup}
    if [ ! -w "$unit/cgroup.subtree_control" ]; then
        echo "the cgroup $unit is not delegated to $(id -un): the unit needs Delegate=cpu memory pids"
        return 1
    fi
    for controller in cpu memory pids; do
        if ! grep -qw $controller "$unit/cgroup.controllers"; then
            echo "the cgroup $unit lacks the controller $controller: the unit needs Delegate=cpu memory pids"
            return 1
        fi
    done
    # A cgroup that hands controllers down has no processes of its own. systemd moves
    # them from 254 on (DelegateSubgroup=sup). BASHPID is the subshell that runs this.
    if [ "$path" = "${path%/sup}" ]; then
        mkdir -p "$unit/sup" || return 1
        for process in $$ $BASHPID; do
            echo "$process" >"$unit/sup/cgroup.procs" || return 1
        done
    fi
    echo "+cpu +memory +pids" >"$unit/cgroup.subtree_control" || return 1
    # Last: where it is, no sandbox is made without a cgroup in it.
    mkdir -p "$unit/glovebox-sandboxes" || return 1
    echo "+cpu +memory +pids" >"$unit/glovebox-sandboxes/cgroup.subtree_control" || { rmdir "$unit/glovebox-sandboxes"; return 1; }
    # The worker, in this group, removes the cgroup of a sandbox that Podman has forgotten.
    chmod g+w "$unit/glovebox-sandboxes" || return 1
}

find_podman_user
if ! why=$(delegate 2>&1); then
    echo "podman-service: limits of sandboxes will be soft: $why" >&2
fi
[ $# -gt 0 ] || set -- podman system service --time 0
cd "$podman_home"
pass=()
for name in LISTEN_PID LISTEN_FDS; do
    [ -z "${!name:-}" ] || pass+=("$name=${!name}")
done
as_podman_user "${pass[@]}" "$@"
