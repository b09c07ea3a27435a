#!/bin/bash
# Makes this EC2 instance all of Glovebox, out of the pack that the script lies in: Redis, the
# api behind Caddy, and a worker. For trying it out: the worker belongs on another host than
# what it has the secrets of. Secrets are made here and stay here. cloud-init runs it as root.
# Idempotent; run again with a newer pack it updates.
#
#   infra/aws/single-host.sh HOST BUCKET REGION
#
# HOST is the name under which clients reach this machine; Caddy gets a certificate for it.
set -eu -o pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
[ $# = 3 ] || {
    sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0" >&2
    exit 2
}
readonly host=$1 bucket=$2 region=$3 passwords=/etc/glovebox/redis-passwords

missing=()
for package in ca-certificates caddy openssl redis-server; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    # A new machine updates itself at first: wait for it.
    apt_get() { env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"; }
    apt_get update
    apt_get -y --no-install-recommends install "${missing[@]}"
fi
umask 022
install -d -m 755 /etc/glovebox

# A user for each role; what is accepted is on the disk before the answer.
install -m 640 /dev/null /etc/redis/users.acl.new
bin/glovebox redis-acl "$passwords" >/etc/redis/users.acl.new
chgrp redis /etc/redis/users.acl.new
mv -f /etc/redis/users.acl.new /etc/redis/users.acl
grep -qsx 'include /etc/redis/glovebox.conf' /etc/redis/redis.conf || echo 'include /etc/redis/glovebox.conf' >>/etc/redis/redis.conf
cat >/etc/redis/glovebox.conf <<'EOF'
bind 127.0.0.1
aclfile /etc/redis/users.acl
appendonly yes
appendfsync always
maxmemory-policy noeviction
EOF
systemctl --quiet enable redis-server.service
systemctl restart redis-server.service

# put_settings FILE makes it of standard input, unless it is there: its secrets are kept.
put_settings() {
    [ ! -e "$1" ] || { cat >/dev/null; return; }
    (umask 077 && cat >"$1.new")
    mv "$1.new" "$1"
}
secret() { openssl rand -base64 32; }
put_settings /etc/glovebox/worker.env <<EOF
GLOVEBOX_REDIS_URL='redis://glovebox-worker:$(cat $passwords/glovebox-worker)@127.0.0.1:6379/0'
GLOVEBOX_S3_REGION='$region'
GLOVEBOX_S3_BUCKET='$bucket'
GLOVEBOX_SIGNING_KEY='$(secret)'
GLOVEBOX_SECRETS_KEY='$(secret)'
EOF
put_settings /etc/glovebox/api.env <<EOF
GLOVEBOX_REDIS_URL='redis://glovebox-api:$(cat $passwords/glovebox-api)@127.0.0.1:6379/0'
GLOVEBOX_S3_REGION='$region'
GLOVEBOX_S3_BUCKET='$bucket'
GLOVEBOX_API_ADDR=127.0.0.1:8437
GLOVEBOX_PUBLIC_URL='https://$host'
GLOVEBOX_TRUSTED_PROXIES=127.0.0.1
GLOVEBOX_ADMIN_TOKEN='$(openssl rand -hex 32)'
GLOVEBOX_WEBHOOK_KEY='$(secret)'
GLOVEBOX_CAPABILITY_KEY='$(secret)'
EOF
infra/worker-host.sh --from "$(pwd)" --api

# Streams of events go through as they come.
cat >/etc/caddy/Caddyfile <<EOF
$host {
	reverse_proxy 127.0.0.1:8437 {
		flush_interval -1
	}
}
EOF
systemctl --quiet enable caddy.service
systemctl restart caddy.service
echo "single-host: https://$host; the admin token is in /etc/glovebox/api.env"
