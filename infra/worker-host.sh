#!/bin/bash
# Makes this machine a worker host: sandboxes as the user glovebox, the worker as the
# user glovebox-worker, which alone has secrets, both as systemd units. Idempotent; run
# again it updates, and restarts what changed.
#
#   infra/worker-host.sh                         install, building what is needed
#   infra/worker-host.sh --from DIR              install what --pack put into DIR, or the archive of a
#                                                release, whose images are built on this machine
#   infra/worker-host.sh --pack DIR [RUNTIME…]   build it into DIR, with these images or all
#   infra/worker-host.sh … --api                 the api, too (it belongs on another host)
#
# For Debian 12 and 13 and Ubuntu 24.04, as root. Build once, install on many:
#
#   infra/worker-host.sh --pack pack && rsync -a pack/ host:glovebox/
#   ssh host glovebox/infra/worker-host.sh --from glovebox
#
# What to fill in afterwards is in /etc/glovebox/worker.env.
set -eu -o pipefail
readonly caller_dir=$PWD
cd "$(dirname "$(readlink -f "$0")")/.."
. infra/podman-user.sh
. infra/sandbox-owner.sh

say() { printf '  %-9s %s\n' "$1" "$2"; }
fail() {
    printf '  %-9s %s\n' problem "$1" >&2
    exit 1
}
usage() { sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0"; }

# ---- pack ---------------------------------------------------------------------

# pack DIR [RUNTIME…] collects from this machine, which setup.sh has prepared, what worker
# hosts need.
pack() {
    local dir=$1 list name runtime image id
    shift
    [ -x "$GLOVEBOX_LIB/runsc" ] || fail "runsc is missing: run infra/setup.sh first"
    make build
    list=$(bin/glovebox runtimes list --images | awk 'NR > 1 { print $1, $(NF - 1), $NF }')
    for name; do
        grep -q "^$name " <<<"$list" || fail "there is no runtime '$name', but $(cut -d' ' -f1 <<<"$list" | paste -sd' ')"
    done
    mkdir -p "$dir/bin" "$dir/lib" "$dir/images"
    install -m 755 bin/glovebox bin/glovebox-worker "$dir/bin/"
    install -m 755 "$GLOVEBOX_LIB/runsc" bin/glovebox-runtime bin/glovebox-agent "$dir/lib/"
    # For infra/install.sh, where a host has everything.
    [ ! -x "$GLOVEBOX_LIB/versitygw" ] || install -m 755 "$GLOVEBOX_LIB/versitygw" "$dir/lib/"
    rm -rf "$dir/infra"
    cp -r infra "$dir/infra"
    # The name of a file is the runtime's and its image's id, by which a host knows what it has.
    while read -r runtime built image; do
        if [ $# = 0 ]; then
            [ "$built" = yes ] || continue
        else
            [[ " $* " == *" $runtime "* ]] || continue
        fi
        id=$(infra/podman.sh image inspect --format '{{.Id}}' "$image") || fail "the image of $runtime is missing: glovebox runtimes build $runtime"
        [ ! -e "$dir/images/$runtime-$id.tar" ] || continue
        rm -f "$dir/images/$runtime"-*.tar
        infra/podman.sh save --quiet --format oci-archive "$image" >"$dir/images/new"
        mv "$dir/images/new" "$dir/images/$runtime-$id.tar"
        say packed "$image"
    done <<<"$list"
    say packed "$(du -sh "$dir" | cut -f1) in $dir"
}

# ---- install ------------------------------------------------------------------

# put FILE DESTINATION MODE installs a file, and says so where it changed.
put() {
    cmp -s "$1" "$2" && return
    install -m "$3" "$1" "$2.new"
    mv -f "$2.new" "$2"
    say installed "$2"
    changed=yes
}

# install_units NAME… puts the units in place and has them start with the machine.
install_units() {
    local unit
    for unit; do put "infra/systemd/$unit" "/etc/systemd/system/$unit" 644; done
    systemctl daemon-reload
    systemctl --quiet enable "$@"
}

# begin UNIT FILE [RESTART] starts the unit, or restarts it where RESTART isn't empty, once
# its settings are filled in.
begin() {
    if ! is_configured "$2"; then
        say "to do" "fill in $2, then: systemctl restart $1"
    elif [ -n "${3:-}" ]; then
        systemctl restart "$1"
        say restarted "$1"
    else
        systemctl start "$1"
        say running "$1"
    fi
}

# podman_parts stands for the files that a running Podman service has read or runs.
podman_parts() {
    find "$GLOVEBOX_LIB" -maxdepth 2 -type f \( -name '*.sh' -o -name '*.conf' -o -name runsc -o -name 'glovebox-*' \) |
        sort | xargs -r sha256sum
}

# drain_worker stops a worker before programs that it uses are replaced by others: all of them have to be of
# one version. What runs may end, the rest waits, until the new one is started. The images, which take minutes,
# come before. One that is still stopping, as a run was interrupted that waited for its end, or that is about to
# be restarted, isn't active, and is waited for, too.
drain_worker() {
    local program
    case $(systemctl is-active glovebox-worker.service) in inactive | failed) return 0 ;; esac
    for program in runsc glovebox-runtime glovebox-agent; do
        cmp -s "$from/lib/$program" "$GLOVEBOX_LIB/$program" || {
            infra/setup.sh --images-from "$from"
            trap say_stopped EXIT
            systemctl stop glovebox-worker.service
            say drained "glovebox-worker.service"
            return
        }
    done
}

# say_stopped is what happens when the run ends after the worker was told to stop and before it was started.
say_stopped() {
    say "to do" "glovebox-worker is $(systemctl is-active glovebox-worker.service), as this run did not come to its end: mend what is said above and run it again" >&2
}

# There from before the first change until all that runs is what is installed. With the
# machine's end it goes, and all is started anew.
readonly restart_pending=/run/glovebox-restart-pending

install_host() {
    local programs=bin before
    check_store # before minutes of building
    [ ! -e $restart_pending ] || changed=yes # a run that didn't come to its end
    touch $restart_pending
    install -d -m 755 "$GLOVEBOX_LIB"
    before=$(podman_parts)
    # First of all: it tells podman.sh, which setup.sh uses, where this Podman lives.
    put infra/systemd/glovebox-podman.service /etc/systemd/system/glovebox-podman.service 644
    if [ -n "$from" ]; then
        drain_worker
        infra/setup.sh --from "$from"
        programs=$from/bin
    else
        infra/setup.sh
        make build
    fi
    [ "$before" = "$(podman_parts)" ] || changed=yes
    find_podman_user
    check_store # again: setup.sh may have installed the Podman that can say it

    add_worker_user
    local file
    for file in glovebox glovebox-worker; do put "$programs/$file" "/usr/local/bin/$file" 755; done
    deny_helpers "$podman_user"
    install -d -m 755 /etc/ssh/sshd_config.d
    put infra/sshd.conf /etc/ssh/sshd_config.d/glovebox.conf 644
    if [ -n "$changed" ] && systemctl --quiet is-active ssh.service; then
        systemctl reload ssh.service || say "to do" "sshd doesn't take /etc/ssh/sshd_config.d/glovebox.conf: journalctl -u ssh says why"
    fi

    install -d -m 755 /etc/glovebox
    put_settings worker.env infra/settings/worker.env
    install_units glovebox-podman.socket glovebox-podman.service glovebox-worker.service
    # Nothing of its user runs outside of the unit: not even what podman.sh, used by
    # setup.sh, leaves behind to hold its namespace.
    systemctl --quiet is-active glovebox-podman.service || infra/podman.sh system migrate
    local restart_worker=$changed
    if [ -n "$changed" ] && systemctl --quiet is-active glovebox-podman.service; then
        systemctl restart glovebox-podman.service
        say restarted "glovebox-podman.service, and with it a worker that ran"
        restart_worker=
    fi
    systemctl start glovebox-podman.socket
    begin glovebox-worker.service /etc/glovebox/worker.env "$restart_worker"
    trap - EXIT
    if [ -n "$api" ]; then
        put_settings api.env infra/settings/api.env
        install_units glovebox-api.service
        begin glovebox-api.service /etc/glovebox/api.env "$changed"
    fi
    rm $restart_pending
    say ready "journalctl -u glovebox-worker says whether limits are hard; glovebox doctor looks at the rest"
}

# ---- main ---------------------------------------------------------------------

from='' api='' changed='' pack_dir='' runtimes=()
while [ $# -gt 0 ]; do
    case $1 in
    --from)
        [ $# -gt 1 ] || { usage >&2; exit 2; }
        from=$(cd "$caller_dir" && readlink -e -- "$2") || fail "--from: there is no directory '$2'"
        shift
        ;;
    --pack)
        [ $# -gt 1 ] || { usage >&2; exit 2; }
        pack_dir=$(cd "$caller_dir" && readlink -m -- "$2") || fail "--pack: '$2' is no name of a directory"
        shift
        ;;
    --api) api=yes ;;
    --help | -h) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) runtimes+=("$1") ;;
    esac
    shift
done
[ -n "$pack_dir" ] || [ ${#runtimes[@]} = 0 ] || { usage >&2; exit 2; }
[ -z "$pack_dir" ] || [ -z "$from" ] || fail "--pack and --from exclude each other"
[ "$(id -u)" = 0 ] || fail "run this as root"
umask 022
exec </dev/null # nothing here asks, so none of it needs root's terminal
if [ -n "$pack_dir" ]; then
    pack "$pack_dir" "${runtimes[@]}"
    exit
fi
[ -d /run/systemd/system ] || fail "this machine doesn't run systemd"
[ -z "$from" ] || [ -d "$from/lib" ] || fail "$from is neither the archive of a release nor made by infra/worker-host.sh --pack"
export GLOVEBOX_PODMAN_USER=glovebox # whom the units name
install_host
