#!/bin/bash
# Makes this machine all of Glovebox: Redis, an S3 server, the api and a worker, each with a user of
# its own, and TLS by Caddy where a domain is named. Idempotent; run again with a newer archive it
# upgrades: the worker drains, and jobs that are queued wait.
#
#   infra/install.sh                          on loopback: nothing is open to the network, or stays so
#   infra/install.sh --domain NAME            at https://NAME, with a certificate of Let's Encrypt
#   infra/install.sh --domain NAME --tls internal      with one of Caddy's own authority
#   infra/install.sh … --bucket NAME --region REGION   objects in AWS's S3, by the instance's role
#   infra/install.sh --uninstall [--purge]    take it away; --purge: settings, records, objects, images, too
#
# Run it in a release's archive, in what infra/worker-host.sh --pack made, or in the source tree, which
# is built first. For Debian 12 and 13 and Ubuntu 24.04 with systemd, as root. Secrets are made here,
# random, and stay in /etc/glovebox for root alone.
set -eu -o pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
readonly etc=/etc/glovebox lib=/usr/local/lib/glovebox data=/var/lib/glovebox-s3
readonly api=http://127.0.0.1:8437 s3=http://127.0.0.1:8440
readonly need_mb=1800 need_disk_mb=8000

say() { printf '  %-9s %s\n' "$1" "$2"; }
fail() {
    say problem "$1" >&2
    exit 1
}
usage() { sed -n '2,/^set/{/^set/d;s/^# \?//p}' infra/install.sh; }

# step WHAT COMMAND… runs the command, and says how long it took.
step() {
    local what=$1 start=$SECONDS
    shift
    "$@"
    say "done" "$what ($((SECONDS - start)) s)"
}

# ---- what can't be ------------------------------------------------------------

check_machine() {
    # shellcheck source=/dev/null
    case $(. /etc/os-release && echo "$ID $VERSION_ID") in
    'debian 12' | 'debian 13' | 'ubuntu 24.04') ;;
    *) fail "this is for Debian 12 and 13 and Ubuntu 24.04" ;;
    esac
    [ ! -e /usr/lib/systemd/system/glovebox-podman.service ] ||
        fail "the package glovebox-worker is installed: purge it first, or fill in its settings (docs/release.md)"
    [ "$(awk '$1 == "MemTotal:" { print int($2 / 1024) }' /proc/meminfo)" -ge $need_mb ] || fail "this machine has less than $need_mb MiB of memory"
    [ -e $etc/operator.env ] || [ "$(df --output=avail -m /var | tail -n 1)" -ge $need_disk_mb ] || fail "/var has less than $need_disk_mb MiB free"
    # Not where it runs already: then the ports are its own.
    [ -e $etc/operator.env ] || check_ports
}

check_ports() {
    local port ports=(8437 8440)
    [ -z "$domain" ] || ports+=(80 443)
    for port in "${ports[@]}"; do
        [ -z "$(ss -Hltn "sport = :$port")" ] || fail "something listens on port $port already: ss -ltnp 'sport = :$port' says what"
    done
}

# ---- install ------------------------------------------------------------------

# The random secret of NAME, made once.
secret() {
    local file=$etc/secrets/$1
    [ -s "$file" ] || (umask 077 && openssl rand "${2:--hex}" 32 >"$file.new" && mv "$file.new" "$file")
    cat "$file"
}

install_packages() {
    local missing=() package wanted=(ca-certificates openssl curl redis-server)
    [ -z "$domain" ] || wanted+=(caddy)
    for package in "${wanted[@]}"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    # A new machine updates itself at first: wait for it.
    apt_get() { env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >/dev/null; }
    apt_get update
    apt_get -y --no-install-recommends install "${missing[@]}"
}

# put FILE MODE makes the file of standard input, and sets changed where it is another: in a pipe,
# which is a shell of its own, nobody would see that.
put() {
    local new
    new=$(mktemp "$1.XXXXXX")
    cat >"$new"
    chmod "$2" "$new"
    if cmp -s "$new" "$1"; then rm "$new"; else
        mv -f "$new" "$1"
        changed=yes
    fi
}

# A user for each role; what is accepted is on the disk before the answer. It is Glovebox's own
# instance, on loopback: the distribution's is left as it is.
install_redis() {
    local users
    changed=
    id glovebox-redis >/dev/null 2>&1 || useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin glovebox-redis
    users=$("$programs/glovebox" redis-acl $etc/redis-passwords)
    put $etc/redis-users.acl 640 <<<"$users"
    chgrp glovebox-redis $etc/redis-users.acl
    put $etc/redis.conf 644 <<EOF
bind 127.0.0.1
port 6390
dir /var/lib/glovebox-redis
aclfile $etc/redis-users.acl
appendonly yes
appendfsync always
maxmemory-policy noeviction
save ""
EOF
    put /etc/systemd/system/glovebox-redis.service 644 <infra/systemd/glovebox-redis.service
    systemctl daemon-reload
    systemctl --quiet enable glovebox-redis.service
    if [ -n "$changed" ]; then systemctl restart glovebox-redis.service; else systemctl start glovebox-redis.service; fi
}

install_s3() {
    changed=
    id glovebox-s3 >/dev/null 2>&1 || useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin glovebox-s3
    install -d -m 755 $lib
    local from=$lib/versitygw
    [ ! -x lib/versitygw ] || from=lib/versitygw
    [ -x "$from" ] || fail "there is no lib/versitygw here: name a --bucket, or take a release or a pack that has it"
    [ "$from" = $lib/versitygw ] || cmp -s "$from" $lib/versitygw || { install -m 755 "$from" $lib/versitygw.new && mv -f $lib/versitygw.new $lib/versitygw && changed=yes; }
    install -d -m 700 -o glovebox-s3 -g glovebox-s3 $data $data/glovebox
    local keys
    keys=$(printf 'ROOT_ACCESS_KEY=%s\nROOT_SECRET_KEY=%s\n' "$(secret s3-access)" "$(secret s3-secret)")
    put $etc/s3.env 600 <<<"$keys"
    put /etc/systemd/system/glovebox-s3.service 644 <infra/systemd/glovebox-s3.service
    systemctl daemon-reload
    systemctl --quiet enable glovebox-s3.service
    if [ -n "$changed" ]; then systemctl restart glovebox-s3.service; else systemctl start glovebox-s3.service; fi
}

redis_url() { echo "GLOVEBOX_REDIS_URL=redis://$1:$(cat "$etc/redis-passwords/$1")@127.0.0.1:6390/0"; }

bucket_settings() {
    if [ -n "$bucket" ]; then
        printf 'GLOVEBOX_S3_REGION=%s\nGLOVEBOX_S3_BUCKET=%s\n' "$region" "$bucket"
    else
        printf 'GLOVEBOX_S3_ENDPOINT=%s\nGLOVEBOX_S3_REGION=us-east-1\nGLOVEBOX_S3_BUCKET=glovebox\n' $s3
        printf 'GLOVEBOX_S3_ACCESS_KEY=%s\nGLOVEBOX_S3_SECRET_KEY=%s\n' "$(secret s3-access)" "$(secret s3-secret)"
    fi
}

# keep FILE makes the settings of standard input, unless they are there: they are the operator's then.
keep() { if [ -e "$1" ]; then cat >/dev/null; else put "$1" 600; fi; }

# Where clients find the api, and a bucket that is on this machine: these settings follow --domain.
reached_at() {
    echo "GLOVEBOX_PUBLIC_URL=$url"
    [ -z "$domain" ] || echo GLOVEBOX_TRUSTED_PROXIES=127.0.0.1
    [ -z "$domain" ] || [ -n "$bucket" ] || echo "GLOVEBOX_S3_PUBLIC_ENDPOINT=$url"
}

# follow_domain gives an api that is there the settings of this run's --domain. What an operator
# wrote is left where no run has named a domain.
follow_domain() {
    changed=
    [ -n "$domain" ] || [ -e $etc/Caddyfile ] || return 0
    local settings
    settings=$(sed -E '/^GLOVEBOX_(PUBLIC_URL|TRUSTED_PROXIES|S3_PUBLIC_ENDPOINT)=/d' $etc/api.env && reached_at)
    put $etc/api.env 600 <<<"$settings"
    [ -z "$changed" ] || systemctl try-restart glovebox-api.service
}

write_settings() {
    { redis_url glovebox-worker && bucket_settings && echo "GLOVEBOX_SIGNING_KEY=$(secret signing -base64)" && echo "GLOVEBOX_SECRETS_KEY=$(secret secrets -base64)"; } | keep $etc/worker.env
    {
        redis_url glovebox-api
        bucket_settings
        echo GLOVEBOX_API_ADDR=127.0.0.1:8437
        printf 'GLOVEBOX_TOKEN=%s\nGLOVEBOX_ADMIN_TOKEN=%s\n' "$(secret token)" "$(secret admin-token)"
        printf 'GLOVEBOX_WEBHOOK_KEY=%s\nGLOVEBOX_CAPABILITY_KEY=%s\n' "$(secret webhook -base64)" "$(secret capability -base64)"
        reached_at
    } | keep $etc/api.env
    { redis_url default && bucket_settings; } | keep $etc/operator.env
}

# What the api signed goes to the S3 server, to tenants' objects alone; no browser runs what it gets there.
signed_objects() {
    cat <<EOF
	@signed {
		path /glovebox/tenants/*
		query X-Amz-Signature=*
	}
	header @signed {
		Content-Security-Policy sandbox
		X-Content-Type-Options nosniff
	}
	reverse_proxy @signed ${s3#http://}
EOF
}

# Streams of events go through as they come. Settings that Caddy can't read replace none.
install_caddy() {
    changed=
    { [ ! -e $etc/Caddyfile ] && [ -s /etc/caddy/Caddyfile ] && cp /etc/caddy/Caddyfile $etc/Caddyfile.before; } || true
    put $etc/Caddyfile 644 <<EOF
$domain {
	$([ "$tls" = acme ] || echo "tls internal")
$([ -n "$bucket" ] || signed_objects)
	reverse_proxy 127.0.0.1:8437 {
		flush_interval -1
	}
}
EOF
    caddy validate --adapter caddyfile --config $etc/Caddyfile >/dev/null 2>&1 || fail "caddy validate --adapter caddyfile --config $etc/Caddyfile says what is wrong"
    cmp -s $etc/Caddyfile /etc/caddy/Caddyfile || install -m 644 $etc/Caddyfile /etc/caddy/Caddyfile
    systemctl --quiet enable caddy.service
    if [ -n "$changed" ]; then systemctl reload-or-restart caddy.service; else systemctl start caddy.service; fi
}

# remove_caddy gives Caddy the settings back that it had before, unless it has other ones now.
remove_caddy() {
    [ -e $etc/Caddyfile ] || return 0
    if ! cmp -s $etc/Caddyfile /etc/caddy/Caddyfile; then
        say "to do" "/etc/caddy/Caddyfile isn't what install.sh wrote: take out of it what is Glovebox's"
    elif [ -e $etc/Caddyfile.before ]; then
        cp $etc/Caddyfile.before /etc/caddy/Caddyfile
        systemctl reload-or-restart caddy.service || say "to do" "caddy doesn't take its old settings: journalctl -u caddy says why"
    else
        rm /etc/caddy/Caddyfile
        systemctl --quiet --now disable caddy.service
    fi
    rm -f $etc/Caddyfile $etc/Caddyfile.before
}

await_ready() {
    local end=$((SECONDS + 300))
    until curl -fsS -o /dev/null $api/readyz 2>/dev/null && [ -n "$(GLOVEBOX_URL=$api GLOVEBOX_TOKEN_FILE=$etc/secrets/token glovebox runtimes list 2>/dev/null | tail -n +2)" ]; do
        [ $SECONDS -lt $end ] || fail "not ready after 300 s: journalctl -u 'glovebox-*' says why"
        sleep 1
    done
}

install_all() {
    check_machine
    programs=bin
    install -d -m 755 $etc
    install -d -m 700 $etc/secrets
    local from=()
    if [ -d lib ]; then from=(--from "$PWD"); else
        step "build" infra/setup.sh
        step "build the commands" make build
    fi
    step "packages" install_packages
    step "Redis" install_redis
    [ -n "$bucket" ] || step "S3 server" install_s3
    step "settings" write_settings
    step "api and worker" infra/worker-host.sh "${from[@]}" --api
    follow_domain
    if [ -n "$domain" ]; then step "TLS for $domain" install_caddy; else remove_caddy; fi
    step "ready" await_ready
    cat <<EOF

  Glovebox is at $url. The tenant "default" has the token in $etc/secrets/token. Try, as root:

    (set -a; . $etc/worker.env; GLOVEBOX_URL=$api GLOVEBOX_TOKEN_FILE=$etc/secrets/token glovebox doctor)
    curl -s $api/v1/code-sandbox/execute -H "Authorization: Bearer \$(cat $etc/secrets/token)" -H 'Content-Type: application/json' -d '{"language": "bash", "code": "echo hello"}'
    glovebox backup /var/backups/glovebox-\$(date +%F).tar      # keep a copy of $etc elsewhere, too
EOF
    [ -n "$domain$bucket" ] || echo "
  Files are sent to and fetched from $s3, which clients elsewhere don't reach: --domain NAME opens both."
}

# ---- uninstall ----------------------------------------------------------------

uninstall() {
    local user said units=(glovebox-api.service glovebox-worker.service glovebox-podman.socket glovebox-podman.service glovebox-s3.service glovebox-redis.service)
    for unit in "${units[@]}"; do
        [ ! -e "/etc/systemd/system/$unit" ] || systemctl --quiet --now disable "$unit"
    done
    remove_caddy
    if id glovebox >/dev/null 2>&1; then
        # The units, which are there still, say where this Podman lives.
        [ ! -x $lib/podman.sh ] || said=$(GLOVEBOX_PODMAN_USER=glovebox $lib/podman.sh system migrate 2>&1) || say "to do" "processes of the user glovebox may be left: podman system migrate: $said"
        # shellcheck source=infra/sandbox-owner.sh
        . infra/sandbox-owner.sh
        allow_helpers glovebox
    fi
    for unit in "${units[@]}"; do rm -f "/etc/systemd/system/$unit"; done
    systemctl daemon-reload
    rm -rf $lib /usr/local/bin/glovebox /usr/local/bin/glovebox-worker /etc/ssh/sshd_config.d/glovebox.conf /run/glovebox-podman /run/glovebox-restart-pending
    if [ -z "$purge" ]; then
        say "kept" "$etc, /var/lib/glovebox, /var/lib/glovebox-redis, $data and the users; --purge deletes them"
        return
    fi
    rm -rf --one-file-system $etc /var/lib/glovebox /var/lib/glovebox-redis $data /var/cache/glovebox-worker
    for user in glovebox glovebox-worker glovebox-redis glovebox-s3; do
        ! id "$user" >/dev/null 2>&1 || userdel "$user" || say "to do" "the user $user is left: end its processes, then: userdel $user"
    done
    say "gone" "all of Glovebox; packages of the distribution stay"
}

# ---- main ---------------------------------------------------------------------

domain='' tls=acme bucket='' region='' uninstall='' purge='' changed=''
while [ $# -gt 0 ]; do
    case $1 in
    --domain | --tls | --bucket | --region)
        [ $# -gt 1 ] || { usage >&2; exit 2; }
        declare "${1#--}=$2"
        shift
        ;;
    --uninstall) uninstall=yes ;;
    --purge) purge=yes ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift
done
[[ $domain =~ ^([a-zA-Z0-9][a-zA-Z0-9.-]*)?$ ]] || fail "--domain is '$domain': want a host's name such as boxes.example.org"
[ "$tls" = acme ] || [ "$tls" = internal ] || fail "--tls is '$tls': want acme or internal"
[[ $bucket,$region =~ ^([a-z0-9.-]+,[a-z0-9-]+|,)$ ]] || fail "--bucket and --region go together: want names such as jobs and eu-central-1"
[ -z "$purge" ] || [ -n "$uninstall" ] || fail "--purge is for --uninstall"
[ "$(id -u)" = 0 ] || fail "run this as root"
[ -d /run/systemd/system ] || fail "this machine doesn't run systemd"
url=$api
[ -z "$domain" ] || url=https://$domain
umask 022
exec </dev/null # nothing here asks
if [ -n "$uninstall" ]; then uninstall; else install_all; fi
