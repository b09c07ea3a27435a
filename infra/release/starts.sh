#!/bin/bash
# Starts the programs of a release, of both kinds of machines: those for another than this one in qemu-user-static.
# It tells which were not started because that is missing, and fails where one that was started says something wrong.
#
#   infra/release/starts.sh DIR     DIR as make release makes it
set -eu -o pipefail
[ $# = 1 ] || { sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0" >&2 && exit 2; }
release=$(readlink -e "$1")
host=$(go env GOHOSTARCH)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wrong() {
    printf 'starts.sh: %s: exit code %s; want "%s" in:\n%s\n' "$@" >&2
    exit 1
}

# says WORD COMMAND… fails unless the command prints the word.
says() {
    local word=$1 out status=0
    shift
    out=$("${run[@]}" "$@" </dev/null 2>&1) || status=$?
    if [ "$status" != 0 ] || [[ "$out" != *"$word"* ]]; then wrong "$*" "$status" "$word" "$out"; fi
}

# Outside of a sandbox the agent runs nothing: it says so in its own protocol, and ends with its worker.
agent_refuses() {
    local said="" status=0
    coproc AGENT { exec "${run[@]}" lib/glovebox-agent 2>&1; }
    local pid=$AGENT_PID to=${AGENT[1]}
    IFS= read -r -d '}' said <&"${AGENT[0]}" || true
    exec {to}>&-
    wait "$pid" || status=$?
    [[ "$status" == 7[01] && "$said" == *"refuse to run"* ]] || wrong lib/glovebox-agent "$status" "refuse to run" "$said"
}

found=
for archive in "$release"/glovebox_*_linux_*.tar.gz; do
    [ -e "$archive" ] || break
    found=yes arch=${archive##*_} arch=${arch%.tar.gz}
    run=()
    if [ "$arch" != "$host" ]; then
        case $arch in
        amd64) emulator=qemu-x86_64-static ;;
        arm64) emulator=qemu-aarch64-static ;;
        *) echo "starts.sh: $archive: a machine of which kind?" >&2 && exit 1 ;;
        esac
        if ! command -v "$emulator" >/dev/null; then
            echo "  NOT STARTED, NOT PROVEN: programs for $arch: there is no $emulator (apt-get install qemu-user-static)"
            continue
        fi
        run=("$emulator")
    fi
    rm -rf "${work:?}"/*
    tar -C "$work" -xf "$archive"
    cd "$work"/glovebox-*
    says "linux/$arch" bin/glovebox version
    says "glovebox submit" bin/glovebox --help
    says "linux/$arch" bin/glovebox-worker --version
    says GLOVEBOX_REDIS_URL bin/glovebox-worker --help
    says "linux/$arch" lib/glovebox-agent --version
    says "linux/$arch" lib/glovebox-runtime version
    says "version" lib/runsc --version
    says "ersion" lib/versitygw --version
    agent_refuses
    echo "  started   bin/glovebox, bin/glovebox-worker, lib/glovebox-agent, glovebox-runtime, runsc and versitygw for $arch${run[0]:+ in ${run[0]}}"
    cd "$release"
done
[ -n "$found" ] || { echo "starts.sh: there is no archive in $release" >&2 && exit 1; }
