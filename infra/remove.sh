# remove DIR… removes directories with all that is in them. What is below a mount point stays, and is a failure. One
# that is itself a mount point is emptied, and said: there is nothing more to do here. install.sh sources this, and
# glovebox-worker.postrm includes it; both have say().
# shellcheck shell=bash
remove() {
    local dir said
    for dir; do
        said=$(rm -rf --one-file-system "$dir" 2>&1) && continue
        if ! mountpoint -q "$dir" || [ -z "$(find "$dir" -maxdepth 0 -empty)" ]; then
            say problem "$said" >&2
            return 1
        fi
        say "to do" "$dir is a mount point: it is empty now, unmount it"
    done
}
