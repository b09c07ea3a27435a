#!/bin/bash
# Installs what the tests alone need: node and npm, so that the npm package
# standardwebhooks can judge our signatures. Does nothing where they are.
set -eu
if command -v node >/dev/null && command -v npm >/dev/null; then
    exit 0
fi
echo "  packages  nodejs and npm, for the tests"
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { $sudo apt-get update && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends nodejs npm; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "setup-tests: apt-get could not install nodejs and npm (see above)" >&2
    exit 1
fi
