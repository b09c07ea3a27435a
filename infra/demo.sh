#!/bin/bash
# Shows the main path on this machine: a job that draws a chart runs in a gVisor
# sandbox, its PNG goes to S3 and from there to disk, and its signed result reaches a
# webhook. `make demo` runs it, after infra/setup.sh and a build.
#
#   infra/demo.sh [DIRECTORY FOR THE CHART, default glovebox-out]
set -eu -o pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

out=${1:-glovebox-out}
glovebox=$PWD/bin/glovebox
work=$(mktemp -d)
dev='' receive=''

# Settings of the caller's own Glovebox must not lead the demo there.
while IFS= read -r name; do unset "$name"; done < <(compgen -e | grep '^GLOVEBOX_' | grep -v '^GLOVEBOX_PODMAN_USER$' || true)
export GLOVEBOX_DATA=$work/data

now() { date +%s%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f s", (b - a) / 1e9 }'; }
step() { printf '\n== %s\n' "$1"; began=$(now); }
took() { printf '   %s\n' "$(since "$began")"; }
fail() {
    printf 'demo: %s\n' "$1" >&2
    for log in "$work"/dev.log "$work"/receive.log; do
        [ ! -s "$log" ] || { printf -- '--- %s\n' "$log" && tail -n 30 "$log"; } >&2
    done
    exit 1
}

# stop ends a program that this script started, and waits until it is gone.
stop() {
    [ -n "$1" ] || return 0
    kill -INT "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}
finish() {
    status=$?
    stop "$receive"
    stop "$dev"
    rm -rf "$work"
    exit $status
}
trap finish EXIT

# until_printed TEXT FILE PID waits until the program has printed a line with the text.
until_printed() {
    for _ in $(seq 600); do
        ! grep -q "$1" "$2" 2>/dev/null || return 0
        kill -0 "$3" 2>/dev/null || fail "a program ended before it printed \"$1\""
        sleep 0.1
    done
    fail "nothing printed \"$1\" for a minute"
}

[ -x "$glovebox" ] || fail "bin/glovebox is missing: make demo builds it"
start=$(now)

step "glovebox dev"
"$glovebox" dev --api 127.0.0.1:0 >"$work/dev.log" 2>&1 &
dev=$!
until_printed 'Glovebox is ready' "$work/dev.log" "$dev"
sed -n '/^  /p; /^Glovebox is ready/q' "$work/dev.log"
took

step "glovebox receive"
"$glovebox" receive --count 1 >"$work/receive.log" 2>"$work/receive.err" &
receive=$!
until_printed '^receiving at ' "$work/receive.err" "$receive"
callback=$(awk '/^receiving at / { print $3 }' "$work/receive.err")
echo "   $callback"
took

cat >"$work/chart.py" <<'PYTHON'
import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(-8, 8, 400)
for k in range(1, 6):
    plt.plot(x, np.sinc(x / k), label=f"sinc(x/{k})")
plt.title("drawn in a gVisor sandbox")
plt.legend()
plt.show()  # nobody looks: Glovebox keeps the chart
print("drawn on Linux", open("/proc/version").read().split()[2])
PYTHON
step "glovebox submit --wait --out $out --callback $callback chart.py"
"$glovebox" submit --wait --out "$out" --callback "$callback" "$work/chart.py" 2>&1 | sed 's/^/   /'
took

step "the chart"
chart=$out/chart-1.png
[ "$(head -c 8 "$chart" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ] || fail "$chart is no PNG"
echo "   $(readlink -f "$chart"): $(wc -c <"$chart") bytes"
object=$(find "$GLOVEBOX_DATA/s3/glovebox" -name chart-1.png -printf '%P' -quit)
[ -n "$object" ] || fail "the chart is not in the bucket"
echo "   s3://glovebox/$object"

step "the webhook"
for _ in $(seq 300); do
    kill -0 "$receive" 2>/dev/null || break # it ends with the first verified message
    sleep 0.1
done
grep -q '^verified ' "$work/receive.log" || fail "no verified webhook arrived"
sed 's/^/   /' "$work/receive.log"
took

step "stop"
stop "$receive"
receive=
stop "$dev"
dev=
took
printf '\nDone in %s. Yours is one command away: bin/glovebox dev\n' "$(since "$start")"
