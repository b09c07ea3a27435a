#!/bin/bash
# Makes root images: infra/root-images.sh IMAGE…
#
# A root image is the file system of an image in Podman's store as one EROFS file. A sandbox
# whose image has one starts with a seventh less CPU time, and sees nothing of the host's
# directories; without one it works all the same. What is there already is left alone, and
# root images of images that Podman has no more are removed.
#
# They lie beside Podman's store, and belong to the user who runs Podman.
set -eu
. "$(dirname "$(readlink -f "$0")")/podman-user.sh"

find_podman_user
cd /
# In Podman's namespaces, where the owners of files are those that the image knows.
as_podman_user podman unshare bash -eu -s -- "$@" <<'INSIDE'
# The number is that of what a root image has beside its image's files: erofs.go of
# glovebox-runtime knows both, and a test compares them.
layout=1
places="dev glovebox-agent proc sys tmp work"

say() { printf '  %-9s %s\n' "$1" "$2"; }
fail() {
    say problem "$1" >&2
    exit 1
}

# leave undoes what was begun, whatever fails.
leave() {
    set +e
    [ -z "$work" ] || ! mountpoint -q "$work/root" || umount "$work/root"
    [ -z "$mounted" ] || podman image unmount "$mounted" >/dev/null
    [ -z "$work" ] || rm -rf "$work"
    set -e
    mounted= work=
}

# make_root ID NAME makes the root image of an image.
make_root() {
    local id=$1 name=$2 start below size free
    start=$(date +%s)
    work=$(mktemp -d "$dir/making-XXXXXX")
    # The root is read-only: what sandboxes mount has to find its place. Whatever
    # else an image has there, a link above all, is hidden by ours, not followed.
    mkdir -m 755 "$work/places" "$work/root"
    local place
    for place in $places; do mkdir -m 755 "$work/places/$place"; done
    below=$(podman image mount "$id")
    mounted=$id
    mount -t overlay overlay -o "ro,lowerdir=$work/places:$below" "$work/root"
    # Holes of files become bytes of it.
    size=$(du -sk --apparent-size "$work/root" | cut -f1)
    free=$(df -k --output=avail "$dir" | tail -n 1)
    [ "$size" -lt $((free / 2)) ] || fail "$name has $((size >> 10)) MiB of files, more than half of the $((free >> 10)) MiB that are free in $dir"
    # gVisor reads plain files only, and Python compares files' times with those that it noted.
    if ! mkfs.erofs -Enoinline_data,force-inode-extended -x-1 "$work/image" "$work/root" >/dev/null 2>"$work/log"; then
        tail -n 5 "$work/log" | tr -d '\000-\010\013-\037' >&2 # names of the image's files may be in there
        fail "mkfs.erofs failed for $name (its words are above)"
    fi
    sync "$work/image" # before it has its name: whoever finds that trusts what is in it
    mv "$work/image" "$dir/$id.$layout.erofs"
    leave
    say root "made of $name, $((size >> 10)) MiB ($(($(date +%s) - start)) s)"
}

# drop removes the root images of images that are gone, and those of another layout.
drop() {
    local file id status
    for file in "$dir"/*.erofs; do
        id=$(basename "$file" ".$layout.erofs")
        case $id in
        agent-* | '*.erofs') continue ;;
        *.erofs) rm -f "$file" && continue ;;
        esac
        status=0
        podman image exists "$id" || status=$?
        case $status in
        0) ;;
        1) rm -f "$file" ;;
        *) fail "podman can't say whether image $id is there" ;;
        esac
    done
}

main() {
    local image id name mount
    dir=$(dirname "$(podman info --format '{{.Store.GraphRoot}}')")/roots
    mkdir -p "$dir"
    case ,$(findmnt -n -o OPTIONS -T "$dir"), in
    *,noexec,*)
        say root "none made: $dir is mounted noexec, and gVisor has to map programs from there; sandboxes work without"
        return
        ;;
    esac
    exec 9>"$dir/lock"
    flock -w 600 9 || fail "another root-images.sh has been at work for ten minutes ($dir/lock)"
    mounted= work=
    trap leave EXIT
    # Of one that was killed, as we have the lock: its mounts outlived it.
    for mount in "$dir"/making-*/root; do
        ! mountpoint -q "$mount" || umount "$mount"
    done
    rm -rf "$dir"/making-*
    for image in "$@"; do
        read -r id name < <(podman image inspect --format '{{.Id}} {{if .RepoTags}}{{index .RepoTags 0}}{{else}}{{.Id}}{{end}}' "$image")
        if [ -e "$dir/$id.$layout.erofs" ]; then
            say root "there: $name"
        else
            make_root "$id" "$name"
        fi
    done
    drop
}

main "$@" </dev/null # the rest of stdin is this script
INSIDE
