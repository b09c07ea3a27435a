# Sourced by the scripts beside it: who runs Podman, and with which environment.
#
# Root runs it as a user of its own (GLOVEBOX_PODMAN_USER, default glovebox), anybody
# else as themselves. The environment is made from nothing, as a service's is, so
# that what works here works there.

readonly GLOVEBOX_LIB=/usr/local/lib/glovebox

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
        [ ! -e /etc/systemd/system/glovebox-podman.service ] || podman_runtime_dir=/run/glovebox-podman
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

# as_podman_user [NAME=VALUE…] COMMAND [ARG…] replaces this shell with the command.
as_podman_user() {
    local become=()
    if [ "$(id -u)" = 0 ]; then
        become=(setpriv "--reuid=$podman_user" "--regid=$(id -g "$podman_user")" --init-groups)
    fi
    exec "${become[@]}" env -i \
        HOME="$podman_home" USER="$podman_user" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 \
        XDG_RUNTIME_DIR="$podman_runtime_dir" \
        CONTAINERS_CONF="$GLOVEBOX_LIB/podman/containers.conf" \
        CONTAINERS_STORAGE_CONF="$GLOVEBOX_LIB/podman/storage.conf" \
        "$@"
}
