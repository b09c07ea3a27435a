#!/bin/bash
# Unpacks Debian 13's valkey-server, and the libraries that it needs, into a directory: nothing is installed, so it
# works on other distributions, too. What is there already stays.
#
#   infra/valkey.sh DIR     makes DIR/valkey-server, which starts it
#
# As any user, with mmdebstrap and Debian's keys (infra/setup.sh). Packages come from the mirror that apt uses here.
set -eu -o pipefail
if [ $# != 1 ]; then
    sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0" >&2
    exit 2
fi
dir=$(readlink -m "$1")
program=$dir/valkey-server
[ ! -x "$program" ] || exit 0

# Without a mirror, as on Ubuntu, mmdebstrap has its own.
# shellcheck disable=SC2016 # $(SITE) is apt's
sites=$(apt-get indextargets --format '$(SITE) $(LABEL)' 'Created-By: Packages' 'Origin: Debian')
mirror=$(awk '/^http.* Debian$/ { print $1; exit }' <<<"$sites")
security=$(awk '/^http.* Debian-Security$/ { print $1; exit }' <<<"$sites")
sources=()
[ -z "$mirror" ] || sources+=("deb $mirror trixie main")
[ -z "$mirror" ] || [ -z "$security" ] || sources+=("deb $security trixie-security main")

root=$dir/root log=$(mktemp)
trap 'rm -f "$log"' EXIT
mkdir -p "$dir"
rm -rf --one-file-system "$root"
# Of what it depends on, only what Debian calls essential is left out: libc6 is not.
if ! mmdebstrap --variant=extract --include=valkey-server --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
    trixie "$root" "${sources[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
loader=$(find "$root/usr/lib" -name 'ld-linux-*.so.*' -print -quit)
libraries=$(dirname "$(find "$root/usr/lib" -name libc.so.6 -print -quit)")
cat >"$program.new" <<EOF
#!/bin/sh
exec $loader --argv0 valkey-server --library-path $libraries $root/usr/bin/valkey-server "\$@"
EOF
chmod 755 "$program.new"
"$program.new" --version
mv "$program.new" "$program"
