# Sourced by the scripts beside it: who runs Podman, and with which environment.
#
# Root runs it as a user of its own (GLOVEBOX_PODMAN_USER, default glovebox), anybody
# else as themselves. The environment is made from nothing, as a service's is, so
# that what works here works there.
# shellcheck shell=bash

readonly GLOVEBOX_LIB=/usr/local/lib/glovebox

# The variables that name a proxy. sudo and as_podman_user drop them unless told to keep them.
# shellcheck disable=SC2034 # for the scripts that source this
readonly proxy_variables='http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY'

# find_podman_user sets podman_user, podman_uid, podman_home and podman_runtime_dir.
find_podman_user() {
    if [ "$(id -u)" = 0 ]; then
        podman_user=${GLOVEBOX_PODMAN_USER:-glovebox}
    else
        podman_user=$(id -un)
    fi
    if ! podman_uid=$(id -u "$podman_user" 2>/dev/null); then
        echo "user $podman_user does not exist: run infra/setup.sh" >&2
        return 1
    fi
    podman_home=$(getent passwd "$podman_user" | cut -d: -f6)
    podman_runtime_dir=/run/user/$podman_uid
    if [ "$(id -u)" = 0 ]; then
        # On a worker host it is the unit's: a store can't be used with two.
        if [ -e /etc/systemd/system/glovebox-podman.service ] || [ -e /usr/lib/systemd/system/glovebox-podman.service ]; then
            podman_runtime_dir=/run/glovebox-podman
        fi
        # It lives in memory: nobody but us makes it for a user who never logs in.
        [ -d "$podman_runtime_dir" ] || install -d -m 700 -o "$podman_user" -g "$(id -g "$podman_user")" "$podman_runtime_dir"
    else
        # su leaves the variable of whoever called it.
        [ ! -w "${XDG_RUNTIME_DIR:-}" ] || podman_runtime_dir=$XDG_RUNTIME_DIR
        if [ ! -w "$podman_runtime_dir" ]; then
            echo "no runtime directory $podman_runtime_dir: infra/setup.sh makes it" >&2
            return 1
        fi
    fi
}

# check_store refuses images that were stored on a machine for development: Podman's store remembers the runtime
# directory that it was made with. It is for worker-host.sh and install.sh, which have fail. Where nothing is stored,
# or Podman can't say yet, it refuses nothing.
check_store() {
    local run_root
    [ -e "$GLOVEBOX_LIB/podman/storage.conf" ] || return 0
    find_podman_user 2>/dev/null || return 0
    [ -d "$podman_home/.local/share/glovebox" ] || return 0
    run_root=$(infra/podman.sh info --format '{{.Store.RunRoot}}' 2>/dev/null) || return 0
    case $run_root in
    /run/glovebox-podman/*) ;;
    *) fail "the images of user $podman_user were stored for $run_root, which only exists on machines for development:
            remove them (rm -rf $podman_home/.local/share/glovebox) and run this again" ;;
    esac
}

# as_podman_user [NAME=VALUE…] COMMAND [ARG…] becomes the command, or ends as it does. Tests have a
# Podman configuration of their own (GLOVEBOX_PODMAN_CONF, a directory).
as_podman_user() {
    local become=()
    [ "$(id -u)" != 0 ] || become=(setpriv "--reuid=$podman_user" "--regid=$(id -g "$podman_user")" --init-groups)
    set -- "${become[@]}" env -i \
        HOME="$podman_home" USER="$podman_user" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 \
        XDG_RUNTIME_DIR="$podman_runtime_dir" \
        CONTAINERS_CONF="${GLOVEBOX_PODMAN_CONF:-$GLOVEBOX_LIB/podman}/containers.conf" \
        CONTAINERS_STORAGE_CONF="${GLOVEBOX_PODMAN_CONF:-$GLOVEBOX_LIB/podman}/storage.conf" \
        "$@"
    if [ "$(id -u)" != 0 ] || ! at_a_terminal; then
        exec "$@"
    elif [ -t 0 ]; then
        with_own_terminal "$@"
    fi
    without_terminal "$@"
}

# podman_user_may FLAG PATH is test FLAG PATH, for the user who runs Podman.
podman_user_may() {
    setsid --wait setpriv "--reuid=$podman_user" "--regid=$(id -g "$podman_user")" --init-groups \
        test "$1" "$2" </dev/null >/dev/null 2>&1
}

# ---- root's terminal ------------------------------------------------------------
#
# What breaks out of a sandbox is the user who runs Podman, and can trace every process of
# that user: one that has root's terminal would let it read what root types, and type for
# root. So no process of that user has it, neither as a descriptor nor as its session's.

at_a_terminal() {
    [ -t 0 ] || [ -t 1 ] || [ -t 2 ] || { : </dev/tty; } 2>/dev/null
}

# with_own_terminal COMMAND… becomes script, which shows a terminal of the command's own in
# ours. Output that goes elsewhere still goes there, byte by byte.
with_own_terminal() {
    local line output=
    printf -v line '%q ' "$@"
    exec 3>&1 4>&2
    [ -t 1 ] || output+=" >&3"
    [ -t 2 ] || output+=" 2>&4"
    SHELL=/bin/bash exec script --quiet --return --command "exec $line$output 3>&- 4>&-" /dev/null >/dev/tty 2>&1
}

# without_terminal COMMAND… runs the command in a session that has no terminal, hands on
# the signals that ours gets, and ends as the command does.
without_terminal() {
    local child signal told status copies=()
    if [ -t 1 ]; then
        exec > >(exec cat)
        copies+=($!)
    fi
    if [ -t 2 ]; then
        exec 2> >(exec cat >&2)
        copies+=($!)
    fi
    # In the background bash ignores these signals, and so would the command.
    setsid env --default-signal=INT,QUIT "$@" <&0 &
    child=$!
    for signal in HUP INT TERM QUIT; do
        # shellcheck disable=SC2064 # the names are known now
        trap "told=yes; kill -$signal -- -$child 2>/dev/null || true" $signal
    done
    # A signal ends a wait, and says nothing of how the command ended.
    while told='' status=0; wait "$child" || status=$?; [ -n "$told" ]; do :; done
    # What the command left running may hold its output open for ever.
    exec >&- 2>&-
    for _ in {1..20}; do
        kill -0 "${copies[@]}" || break
        sleep 0.05
    done
    exit "$status"
}
