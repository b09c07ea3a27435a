# Runs in the machine as root, in the payload's directory: each of its parts.
# shellcheck shell=bash
set -u
SECONDS=0
cd "$(dirname "$0")/.." || exit
mkdir -p out
# shellcheck source=e2e/vm/guest/lib.sh
. guest/lib.sh
read -ra names <parts
for name in "${names[@]}"; do
    part "$name"
    # shellcheck source=/dev/null # each is checked by itself
    . "guest/$name.sh"
done
journalctl -q -o short-iso --no-pager -u 'glovebox-*' >out/journal.log
printf '\n== %s failures (%ss)\n' "$failed" "$SECONDS"
[ "$failed" = 0 ]
