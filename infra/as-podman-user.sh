#!/bin/bash
# Runs a test binary as the Podman user, for: go test -exec infra/as-podman-user.sh
#
# Its environment is that of the Podman service plus every GLOVEBOX_* variable. go
# test builds as the caller, below directories that the Podman user may not enter:
# the binary, and where needed the source tree with its testdata, are copied to a
# directory that it may.
set -eu
root=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$root/infra/podman-user.sh"

binary=$(readlink -f "$1")
shift
find_podman_user

pass=()
while IFS= read -r name; do
    pass+=("$name=${!name}")
done < <(compgen -e | grep '^GLOVEBOX_' || true)

if [ "$(id -u)" != 0 ]; then
    as_podman_user "${pass[@]}" "$binary" "$@"
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/glovebox-test.XXXXXX")
chmod 755 "$dir"
trap 'rm -rf "$dir"' EXIT
install -m 755 "$binary" "$dir/$(basename "$binary")"

cwd=$PWD
if ! podman_user_may -r "$cwd/."; then
    mkdir "$dir/src"
    tar -C "$root" --exclude=./.git --exclude=./bin --no-same-owner -cf - . | tar -C "$dir/src" --no-same-owner -xf -
    chmod -R a+rX "$dir/src"
    cd "$dir/src${cwd#"$root"}"
fi

# go test ends an overdue test with a signal to this process alone: hand it on.
(as_podman_user "${pass[@]}" "$dir/$(basename "$binary")" "$@") &
child=$!
for signal in INT TERM QUIT; do
    # shellcheck disable=SC2064 # the names are known now
    trap "kill -$signal $child 2>/dev/null || true" "$signal"
done
status=0
while wait "$child" || status=$?; kill -0 "$child" 2>/dev/null; do status=0; done
exit "$status"
