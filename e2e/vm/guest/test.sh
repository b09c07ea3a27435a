# Runs in the machine as root, in the payload's directory: installs, then each part.
set -u
SECONDS=0
cd "$(dirname "$0")/.."
mkdir -p out
. guest/lib.sh
parts=$(cat only)
[ "$parts" = install ] || parts="install ${parts:-limits users restart selftest gotests}"
for name in $parts; do
    part "$name"
    . "guest/$name.sh"
done
journalctl -q -o short-iso --no-pager -u 'glovebox-*' >out/journal.log
printf '\n== %s failures (%ss)\n' "$failed" "$SECONDS"
[ "$failed" = 0 ]
