#!/bin/bash
# Prepares a machine for Glovebox: packages, Go, runsc, the user that runs Podman, its
# configuration, the runtime images. Idempotent; a second run takes a second or two.
#
#   infra/setup.sh                   everything
#   infra/setup.sh --runtimes NAMES  of the runtime images only these, such as "python bash"
#   infra/setup.sh --no-images       everything but the runtime images
#   infra/setup.sh --from DIR        what sandboxes need, from a release's archive or a directory that
#                                    worker-host.sh --pack filled: of these nothing is built; images
#                                    are only where DIR has none, as a release's archive
#   infra/setup.sh --images-from DIR of that only the packages and images, beside a worker that runs
#
# For Debian 12 and 13 and Ubuntu 24.04, as root, or as a user with sudo. What it
# installs outside the distribution's packages lies in /usr/local/lib/glovebox; when
# run as root it also adds the user glovebox (GLOVEBOX_PODMAN_USER).
set -eu -o pipefail
readonly caller_dir=$PWD
cd "$(dirname "$(readlink -f "$0")")/.."
. infra/podman-user.sh
. infra/sandbox-owner.sh

runsc_version=$(cat infra/runsc/version)
readonly runsc_version
versitygw_version=$(cat infra/versitygw/version)
readonly versitygw_version
readonly go_version=1.26.8 # for machines whose own go is older than go.mod asks for
# The flags of the Makefile's commands, so that the two share Go's build cache.
export GOFLAGS='-trimpath -gcflags=all=-dwarf=false -ldflags=-w'
# What sandboxes need (the package glovebox-worker depends on the same: a test compares them), what
# making images needs, and what building and trying Glovebox needs beside it.
packages="podman uidmap crun conmon fuse-overlayfs slirp4netns erofs-utils ca-certificates"
readonly image_packages="mmdebstrap debian-archive-keyring"
readonly build_packages="$image_packages redis-server git make gcc libc6-dev"

images=yes
runtimes=() # the core
from=
only_images=
case ${1:-}:$# in
:0) ;;
--no-images:1) images= ;;
--runtimes:2) read -ra runtimes <<<"$2" ;;
--from:2) from=$(cd "$caller_dir" && readlink -f "$2") ;;
--images-from:2)
    from=$(cd "$caller_dir" && readlink -f "$2")
    only_images=yes
    ;;
*)
    sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0" >&2
    exit 2
    ;;
esac
if [ -z "$from" ]; then
    packages="$packages $build_packages"
elif [ ! -d "$from/images" ]; then
    packages="$packages $image_packages"
fi

# ---- saying what happens ------------------------------------------------------

say() { printf '  %-9s %s\n' "$1" "$2"; }
now() { date +%s%N; }
seconds_since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f s", (b - a) / 1e9 }'; }

fail() {
    printf '  %-9s %s\n' problem "$1" >&2
    exit 1
}

# quietly NAME WHAT COMMAND… runs the command in a shell of its own, shows how long it took,
# and its output only when it fails.
quietly() {
    local name=$1 what=$2 start status log
    start=$(now)
    log=$(mktemp "$work/log.XXXXXX")
    shift 2
    # Not within an if: there a function of ours would go on after a command that failed.
    set +e
    (set -e && "$@") >"$log" 2>&1
    status=$?
    set -e
    if [ $status != 0 ]; then
        cat "$log" >&2
        fail "$name: $what: failed (the output is above)"
    fi
    say "$name" "$what ($(seconds_since "$start"))"
}

# as_root hands on the caller's proxy, which apt needs and sudo drops.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else
        sudo "--preserve-env=${proxy_variables// /,}" -- "$@"
    fi
}

# ---- steps --------------------------------------------------------------------

# apt_get waits for another apt at work: a new machine updates itself at first.
apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}

# refresh_lists: an update, unlike an installation, doesn't wait for its lock by itself.
refresh_lists() {
    local tries=60
    until apt_get update >"$work/update" 2>&1; do
        if ! grep -q 'lists/lock' "$work/update" || [ $((tries -= 1)) = 0 ]; then
            cat "$work/update"
            return 1
        fi
        sleep 5
    done
}

setup_packages() {
    local missing=() package
    for package in $packages; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    # Any go will do, to fetch the right one with.
    [ -n "$from" ] || command -v go >/dev/null || missing+=(golang-go)
    if [ ${#missing[@]} = 0 ]; then
        say packages "all installed"
        return
    fi
    quietly packages "refreshed the package lists" refresh_lists
    # A policy of our own for the time of the installation: what is installed here is
    # started by Glovebox when it needs it, not by the package. An existing one wins.
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        policy=/usr/sbin/policy-rc.d
        printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
        as_root chmod 755 $policy
    fi
    quietly packages "installed ${missing[*]}" apt_get -y --no-install-recommends install "${missing[@]}"
    remove_policy
    # Where this run has installed none, as on a worker's host, there may be no such unit.
    if [[ " ${missing[*]} " == *' redis-server '* ]] && [ -d /run/systemd/system ]; then
        as_root systemctl --quiet disable redis-server
    fi
}

# remove_policy is also what happens when setup.sh fails half-way: left behind, the
# policy would keep every later package from starting its service.
remove_policy() {
    [ -z "$policy" ] || as_root rm -f "$policy"
    policy=
}

# stop_beside ends what works beside this script when the script fails.
stop_beside() {
    [ -n "$beside" ] || return 0
    kill "$beside" 2>/dev/null || true
    wait "$beside" 2>/dev/null || true
}

# go_is_new_enough: does the go on the PATH fulfil go.mod by itself?
go_is_new_enough() {
    local want have
    want=$(awk '$1 == "go" { print $2 }' go.mod)
    have=$(cd / && GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || return 1
    have=${have#go}
    [ "$(printf '%s\n%s\n' "$want" "${have%% *}" | sort -V | head -n 1)" = "$want" ]
}

# setup_go leaves a go on the PATH that can build this tree. Makefile looks in the
# same place.
setup_go() {
    if go_is_new_enough; then
        say go "$(cd / && GOTOOLCHAIN=local go env GOVERSION)"
        return
    fi
    # Toolchains are modules, checked against Go's checksum database like every other.
    quietly go "fetched go$go_version" fetch_go
}

fetch_go() {
    local module arch dir
    arch=$(dpkg --print-architecture)
    module=golang.org/toolchain@v0.0.1-go$go_version.linux-$arch
    mkdir "$work/toolchain"
    printf 'module toolchain\n' >"$work/toolchain/go.mod"
    (cd "$work/toolchain" && GOFLAGS=-mod=mod GOTOOLCHAIN=local go mod download "$module")
    dir=$(go env GOMODCACHE)/$module
    as_root rm -rf "$GLOVEBOX_LIB/go.new"
    as_root cp -r "$dir" "$GLOVEBOX_LIB/go.new"
    # A module's files come without the permission to execute.
    as_root chmod -R u=rwX,go=rX "$GLOVEBOX_LIB/go.new"
    as_root chmod -R +x "$GLOVEBOX_LIB/go.new/bin" "$GLOVEBOX_LIB/go.new/pkg/tool"
    as_root chown -R root:root "$GLOVEBOX_LIB/go.new"
    as_root rm -rf "$GLOVEBOX_LIB/go"
    as_root mv "$GLOVEBOX_LIB/go.new" "$GLOVEBOX_LIB/go"
}

# install_root FILE DESTINATION puts a file in place in one step, owned by root, so
# that what is running keeps the old one. What was noted of the old one doesn't hold.
install_root() {
    as_root rm -f "$2.version" "$2.build"
    as_root install -m 755 "$1" "$2.new"
    as_root mv -f "$2.new" "$2"
}

# setup_module NAME VERSION PACKAGE installs a command of another module. All that is built here
# is built with the same flags, so that the standard library is compiled once.
setup_module() {
    local name=$1 version=$2 package=$3 marker=$GLOVEBOX_LIB/$1.version
    if [ -x "$GLOVEBOX_LIB/$name" ] && [ "$(cat "$marker" 2>/dev/null)" = "$version" ]; then
        say "$name" "$version"
        return
    fi
    quietly "$name" "built $version" env CGO_ENABLED=0 GOBIN="$work" go install "$package@$version"
    install_root "$work/$name" "$GLOVEBOX_LIB/$name"
    echo "$version" | as_root tee "$marker" >/dev/null
}

# setup_runsc builds runsc, unless the one that is wanted is there.
setup_runsc() {
    local build
    # The build, too: a runsc of this version may be there that was built otherwise.
    build="$runsc_version, built by $(cat infra/runsc/precompile.go infra/runsc/build.sh | sha256sum | head -c 16)"
    if [ -x "$GLOVEBOX_LIB/runsc" ] && [ "$(cat "$GLOVEBOX_LIB/runsc.build" 2>/dev/null)" = "$build" ]; then
        say runsc "$runsc_version"
        return
    fi
    quietly runsc "built $runsc_version" infra/runsc/build.sh "$work/runsc"
    install_root "$work/runsc" "$GLOVEBOX_LIB/runsc"
    echo "$runsc_version" | as_root tee "$GLOVEBOX_LIB/runsc.version" >/dev/null
    echo "$build" | as_root tee "$GLOVEBOX_LIB/runsc.build" >/dev/null
}

# install_packed NAME installs a program that was built elsewhere.
install_packed() {
    [ -x "$from/lib/$1" ] || fail "$1 is not in $from/lib: make the directory with infra/worker-host.sh --pack"
    if cmp -s "$from/lib/$1" "$GLOVEBOX_LIB/$1"; then
        say "$1" "as in $from"
        return
    fi
    install_root "$from/lib/$1" "$GLOVEBOX_LIB/$1"
    say "$1" "installed from $from"
}

# setup_command NAME installs a command of this tree that sandboxes need. Go's build
# cache knows best whether it changed.
setup_command() {
    [ -d "cmd/$1" ] || return 0
    CGO_ENABLED=0 go build -ldflags '-s -w' -o "$work/$1" "./cmd/$1"
    if cmp -s "$work/$1" "$GLOVEBOX_LIB/$1"; then
        say "$1" "as in this tree"
        return
    fi
    install_root "$work/$1" "$GLOVEBOX_LIB/$1"
    say "$1" "installed from this tree"
}

setup_user() {
    local user=${GLOVEBOX_PODMAN_USER:-glovebox}
    [ "$(id -u)" = 0 ] || user=$(id -un)
    [ "$(id -u)" != 0 ] || add_sandbox_owner "$user"
    give_subordinate_ids "$user"
    [ "$(id -u)" != 0 ] || close_home "$user"
    setup_runtime_dir
    find_podman_user || exit 1
    say user "$podman_user runs Podman"
}

# setup_runtime_dir makes the directory that a login makes, for a user who came by su or
# runs where there are no logins. Root's is find_podman_user's business.
setup_runtime_dir() {
    local dir
    dir=/run/user/$(id -u)
    if [ "$(id -u)" = 0 ] || [ -w "${XDG_RUNTIME_DIR:-}" ] || [ -w "$dir" ]; then
        return 0
    fi
    if [ -d /run/systemd/system ]; then
        as_root loginctl enable-linger "$(id -un)"
        local tries=100
        while [ ! -w "$dir" ] && [ $((tries -= 1)) -gt 0 ]; do sleep 0.1; done
    else
        as_root install -d -m 755 /run/user
        as_root install -d -m 700 -o "$(id -u)" -g "$(id -g)" "$dir"
    fi
    say user "made $dir"
}

setup_podman() {
    local file
    as_root install -d -m 755 "$GLOVEBOX_LIB/podman"
    for file in infra/podman/*.conf; do
        cmp -s "$file" "$GLOVEBOX_LIB/podman/$(basename "$file")" ||
            as_root install -m 644 "$file" "$GLOVEBOX_LIB/podman/"
    done
    # containers.conf names it; it is glovebox-runtime, which knows by the name what it is.
    [ "$(readlink "$GLOVEBOX_LIB/conmon")" = glovebox-runtime ] || as_root ln -sfn glovebox-runtime "$GLOVEBOX_LIB/conmon"
    # With them a Glovebox without its source tree can still run Podman as it should.
    for file in podman.sh podman-user.sh podman-service.sh root-images.sh; do
        cmp -s "infra/$file" "$GLOVEBOX_LIB/$file" || install_root "infra/$file" "$GLOVEBOX_LIB/$file"
    done
}

# podman_info prints what check_podman compares; what Podman says besides goes to the log.
podman_info() {
    infra/podman.sh info --format '{{.Host.OCIRuntime.Name}} {{.Store.GraphDriverName}} {{.Host.Security.Rootless}}' 2>"$work/log"
}

# check_podman needs runsc, whose version Podman asks for.
check_podman() {
    local got want="glovebox-runtime overlay true"
    # Where every process of Podman's user was killed at once, as when a machine without systemd
    # starts again, Podman takes its dead containers for running ones, and enters none of them.
    if ! podman_info >/dev/null && grep -q 'system migrate' "$work/log"; then
        say podman "of a run that was cut off: its containers are marked as stopped"
        infra/podman.sh system migrate >/dev/null 2>&1 || true # podman info says what is wrong still
    fi
    got=$(podman_info) || {
        cat "$work/log" >&2
        fail "podman info failed as $podman_user (the output is above)"
    }
    [ "$got" = "$want" ] || fail "Podman uses '$got' (OCI runtime, storage driver, rootless) instead of '$want'"
    say podman "$(infra/podman.sh --version | awk '{ print $3 }'), rootless, native overlay, $GLOVEBOX_LIB/glovebox-runtime"
}

# build_all builds what isn't in packages. The images, which mostly wait for the network and the
# disk, are made beside the compilers, which need the processors.
build_all() {
    if [ -n "$images" ]; then
        # Before the compilers take the processors: the images wait for it.
        quietly glovebox "built, to make the images with" env CGO_ENABLED=0 go build -o bin/glovebox ./cmd/glovebox
        [ -x "$GLOVEBOX_LIB/runsc" ] || say building "runsc, versitygw and the images, side by side: minutes on a new machine"
        bin/glovebox runtimes build "${runtimes[@]}" &
        beside=$!
    fi
    setup_runsc
    setup_module versitygw "$versitygw_version" github.com/versity/versitygw/cmd/versitygw
    [ -z "$beside" ] || wait "$beside" || { beside= && exit 1; } # it said why
    beside=
}

# load_images loads what is not there yet: the files are named by the images' ids. Where there
# are none, it builds them.
load_images() {
    if [ ! -d "$from/images" ]; then
        "$from/bin/glovebox" runtimes build
        return
    fi
    local archive id ids=()
    for archive in "$from"/images/*.tar; do
        [ -e "$archive" ] || fail "no image is in $from/images: make the directory with infra/worker-host.sh --pack"
        id=$(basename "$archive" .tar)
        ids+=("${id##*-}")
        if infra/podman.sh image exists "${id##*-}"; then
            say image "${id%-*}"
        else
            quietly image "loaded ${id%-*}" infra/podman.sh load <"$archive"
        fi
    done
    infra/root-images.sh "${ids[@]}"
}

# ---- main ---------------------------------------------------------------------

[ "$(id -u)" = 0 ] || command -v sudo >/dev/null || fail "run this as root, or install sudo"
command -v apt-get >/dev/null || fail "this is for Debian and Ubuntu; elsewhere install by hand what infra/README.md lists"
work=$(mktemp -d)
policy= # the file that keeps new services from starting, while it is there
beside= # the process that works beside this one, while there is one
trap 'remove_policy; stop_beside; rm -rf "$work"' EXIT
umask 022
exec </dev/null # nothing here asks but sudo, which has its own ways
PATH=$GLOVEBOX_LIB/go/bin:$PATH

start=$(now)
setup_packages
if [ -n "$only_images" ]; then
    find_podman_user || exit 1
    load_images
    exit
fi
as_root install -d -m 755 $GLOVEBOX_LIB
if [ -n "$from" ]; then
    for command in runsc glovebox-runtime glovebox-agent; do install_packed $command; done
else
    setup_go
    setup_command glovebox-runtime
    setup_command glovebox-agent
fi
setup_user
setup_podman
if [ -n "$from" ]; then load_images; else build_all; fi
check_podman
say ready "$(seconds_since "$start")"
