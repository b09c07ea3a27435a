#!/bin/sh
# Finishes the base's root file system, $1: mmdebstrap runs this on the build machine.
set -eu
root=$1

# The user that jobs run as, and the directory that they run in.
echo 'job:x:1000:1000:job:/tmp:/bin/sh' >>"$root/etc/passwd"
echo 'job:x:1000:' >>"$root/etc/group"
echo 'job:!:::::::' >>"$root/etc/shadow"
mkdir "$root/work"
chown 1000:1000 "$root/work"

# Every start of bash, Perl and most tools reads the locale: one file of an archive, where it would be thirteen.
chroot "$root" localedef --add-to-archive /usr/lib/locale/C.utf8

# What Containerfiles call to add packages: no recommendations, nothing left over.
# /run/build is there while an image is built, and never in one.
cat >"$root/usr/local/sbin/install-packages" <<'SCRIPT'
#!/bin/sh
set -eu
export DEBIAN_FRONTEND=noninteractive APT_CONFIG=/run/build/apt.conf
apt-get -q update
apt-get -q -y --no-install-recommends install "$@"
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/log/*.log /var/log/apt /var/cache/ldconfig/aux-cache
SCRIPT
chmod 755 "$root/usr/local/sbin/install-packages"

echo sandbox >"$root/etc/hostname"
rm -f "$root/etc/resolv.conf"
: >"$root/etc/machine-id"
