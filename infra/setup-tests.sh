#!/bin/bash
# Installs what the tests and checks alone need: node and npm, so that the npm package
# standardwebhooks can judge our signatures, python3 for clients of façades, ip for networks of their
# own, and shellcheck. Does nothing where they are.
set -eu
# shellcheck source=infra/podman-user.sh
. "${0%/*}/podman-user.sh"
missing=()
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
command -v python3 >/dev/null || missing+=(python3)
PATH=$PATH:/usr/sbin:/sbin command -v ip >/dev/null || missing+=(iproute2)
command -v shellcheck >/dev/null || missing+=(shellcheck)
[ ${#missing[@]} -gt 0 ] || exit 0
echo "  packages  ${missing[*]}, for the tests"
sudo=()
[ "$(id -u)" = 0 ] || sudo=(sudo "--preserve-env=${proxy_variables// /,}")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${sudo[@]}" apt-get update && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "setup-tests: apt-get could not install ${missing[*]} (see above)" >&2
    exit 1
fi
