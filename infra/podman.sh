#!/bin/bash
# Runs podman exactly as Glovebox's Podman service does: infra/podman.sh ps -a
set -eu
. "$(dirname "$(readlink -f "$0")")/podman-user.sh"

find_podman_user
# Podman 5 fails in a directory that its user may not enter. Anywhere else, a relative
# path among the arguments keeps its meaning.
if [ "$(id -u)" = 0 ] && ! podman_user_may -x "$PWD"; then
    cd /
fi
# Image builds need the proxy of the host, where there is one; sandboxes never see
# it (http_proxy in containers.conf).
proxies=()
for name in $proxy_variables; do
    [ -z "${!name:-}" ] || proxies+=("$name=${!name}")
done
as_podman_user "${proxies[@]}" podman "$@"
