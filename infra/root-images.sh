#!/bin/bash
# Makes root images: infra/root-images.sh IMAGE…
#
# A root image is the file system of an image in Podman's store as one EROFS file. A sandbox
# whose image has one starts with a fifth less CPU time, and sees nothing of the host's
# directories; without one it works all the same. What is there already is left alone, and
# root images of images that Podman has no more are removed.
#
# They lie beside Podman's store, and belong to who runs Podman.
set -eu
. "$(dirname "$(readlink -f "$0")")/podman-user.sh"

find_podman_user
cd /
# In Podman's namespaces, where the owners of files are those that the image knows.
as_podman_user podman unshare bash -eu -s -- "$@" <<'INSIDE'
dir=$(dirname "$(podman info --format '{{.Store.GraphRoot}}')")/roots
mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
mounted= work=
# leave undoes what was begun, also where a step failed.
leave() {
    [ -z "$work" ] || ! mountpoint -q "$work/root" || umount "$work/root"
    [ -z "$mounted" ] || podman image unmount "$mounted" >/dev/null
    [ -z "$work" ] || rm -rf "$work"
    mounted= work=
}
trap leave EXIT
rm -rf "$dir"/making-* # of one that was killed: we have the lock

for image in "$@"; do
    read -r id name < <(podman image inspect --format '{{.Id}} {{if .RepoTags}}{{index .RepoTags 0}}{{else}}{{.Id}}{{end}}' "$image")
    [ -n "$id" ] || exit 1 # and podman has said why
    if [ -e "$dir/$id.erofs" ]; then
        printf '  %-9s %s\n' root "there: $name"
        continue
    fi
    start=$(date +%s)
    work=$(mktemp -d "$dir/making-XXXXXX")
    # The root is read-only: what sandboxes mount has to find its place. Whatever
    # else an image has there, a link above all, is hidden by ours, not followed.
    mkdir -m 755 "$work/places" "$work/root"
    for place in dev glovebox-agent proc sys tmp work; do mkdir -m 755 "$work/places/$place"; done
    below=$(podman image mount "$image")
    mounted=$image
    mount -t overlay overlay -o "ro,lowerdir=$work/places:$below" "$work/root"
    # gVisor reads plain files only, and Python compares files' times with those that it noted.
    if ! mkfs.erofs -Enoinline_data,force-inode-extended -x-1 "$work/image" "$work/root" >"$work/log" 2>&1; then
        cat "$work/log" >&2
        exit 1
    fi
    mv "$work/image" "$dir/$id.erofs"
    leave
    printf '  %-9s %s\n' root "made of $name, $(du -h --apparent-size "$dir/$id.erofs" | cut -f1) ($(($(date +%s) - start)) s)"
done

for file in "$dir"/*.erofs; do
    id=$(basename "$file" .erofs)
    case $id in
    agent-* | '*') ;;
    *) podman image exists "$id" || rm -f "$file" ;;
    esac
done
INSIDE
