#!/bin/bash
# Makes this machine all of Glovebox: Redis, an S3 server, the api and a worker, each with a user of
# its own, and TLS by Caddy where a domain is named. Idempotent; run again with a newer archive it
# upgrades: the worker drains, and jobs that are queued wait. From the source tree, stop the worker first.
#
#   infra/install.sh                          on loopback: nothing is open to the network, or stays so
#   infra/install.sh --domain NAME            at https://NAME, with a certificate of Let's Encrypt
#   infra/install.sh --domain NAME --tls internal      with one of Caddy's own authority
#   infra/install.sh … --bucket NAME --region REGION   objects in AWS's S3, by the instance's role
#   infra/install.sh --uninstall [--purge]    take it away; --purge: settings, records, objects, images, too
#
# Run it in a release's archive, in what infra/worker-host.sh --pack made, or in the source tree, which
# is built first. For Debian 12 and 13 and Ubuntu 24.04 with systemd, as root. Secrets are made here,
# random, and stay in /etc/glovebox for root alone. At the end it waits until all is ready, for
# GLOVEBOX_READY_SECONDS (300) at most.
set -eu -o pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
. infra/podman-user.sh
. infra/sandbox-owner.sh
readonly etc=/etc/glovebox lib=/usr/local/lib/glovebox data=/var/lib/glovebox-s3
readonly units=/etc/systemd/system caddyfile=/etc/caddy/Caddyfile
readonly marks=/run/glovebox-restart # of units that are to start anew
readonly api=http://127.0.0.1:8437 s3=http://127.0.0.1:8440
readonly need_mb=1800 need_disk_mb=8000 ready_seconds=${GLOVEBOX_READY_SECONDS:-300}

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
    local file
    for file in worker.env api.env; do
        [ -e $etc/operator.env ] || ! grep -qsE '^GLOVEBOX_REDIS_URL(_FILE)?=.' $etc/$file ||
            fail "$etc/$file has a Redis already, and install.sh didn't write it: this host is one of several. Move the file away to make it all of Glovebox"
    done
    [ "$(awk '$1 == "MemTotal:" { print int($2 / 1024) }' /proc/meminfo)" -ge $need_mb ] || fail "this machine has less than $need_mb MiB of memory"
    [ -e $etc/operator.env ] || [ "$(df --output=avail -m /var | tail -n 1)" -ge $need_disk_mb ] || fail "/var has less than $need_disk_mb MiB free"
    check_ports
    [ -z "$domain" ] || [ ! -e $etc/Caddyfile ] || [ ! -e $caddyfile ] || cmp -s $etc/Caddyfile $caddyfile ||
        fail "$caddyfile isn't what install.sh wrote: put what you added into files below /etc/caddy/sites, which it imports, then: cp $etc/Caddyfile $caddyfile"
    check_store
}

# Where a part of Glovebox is installed, its port is its own.
check_ports() {
    local port listens ports=()
    [ -e $units/glovebox-api.service ] || ports+=(8437)
    [ -n "$bucket" ] || [ -e $units/glovebox-s3.service ] || ports+=(8440)
    [ -e $units/glovebox-redis.service ] || ports+=(6390)
    [ -z "$domain" ] || [ -e $etc/Caddyfile ] || ports+=(80 443)
    for port in "${ports[@]}"; do
        listens=$(ss -Hltnp "sport = :$port")
        [ -z "$listens" ] || { [ "$port" = 80 ] && welcome_page; } || fail "something listens on port $port already: ss -ltnp 'sport = :$port' says what"
    done
}

# welcome_page reports whether all that listens is Caddy with the settings that came with its package.
welcome_page() {
    local sum
    ! grep -qv '(("caddy",' <<<"$listens" || return 1
    sum=$(md5sum <$caddyfile) && dpkg-query -W -f '${Conffiles}\n' caddy 2>/dev/null | grep "^ $caddyfile ${sum%% *}" >/dev/null
}

# settle_bucket takes from an earlier run which bucket objects are in: records name what is there, so
# it stays.
settle_bucket() {
    [ -e $etc/operator.env ] || return 0
    local was='' was_region=''
    if ! grep -qxF "GLOVEBOX_S3_ENDPOINT=$s3" $etc/operator.env; then
        was=$(sed -n 's/^GLOVEBOX_S3_BUCKET=//p' $etc/operator.env)
        was_region=$(sed -n 's/^GLOVEBOX_S3_REGION=//p' $etc/operator.env)
    fi
    [ -z "$bucket" ] || [ "$bucket,$region" = "$was,$was_region" ] ||
        fail "--bucket $bucket --region $region: objects are in ${was:-the S3 server of this machine}${was:+, $was_region} already, where records name them (docs/operations.md)"
    bucket=$was region=$was_region
}

# ---- install ------------------------------------------------------------------

# secret NAME prints the random secret of that name, made once. Like all that can fail, it is called in
# a statement of its own: in the argument of another command a failure ends nothing.
secret() {
    local file=$etc/secrets/$1
    [ -s "$file" ] || (umask 077 && openssl rand "${2:--hex}" 32 >"$file.new" && mv "$file.new" "$file")
    [ -s "$file" ] && cat "$file"
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
    # The package starts a Redis of its own: where it is new, nobody wants that one.
    [[ " ${missing[*]} " != *' redis-server '* ]] || systemctl --quiet --now disable redis-server.service
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

service_user() {
    id "$1" >/dev/null 2>&1 || useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$1"
}

# change UNIT comes before the files of a unit. Its mark is there until the unit runs with them, and tells the
# next run of one that ended before that. With the machine's end it goes, and all is started anew.
change() {
    changed=
    [ ! -e "$marks-$1" ] || changed=yes
    touch "$marks-$1"
}

# run_service starts a unit of ours, now and at each boot, and starts it anew where anything of it has changed.
run_service() {
    systemctl daemon-reload
    systemctl --quiet enable "$1"
    if [ -n "$changed" ]; then systemctl restart "$1"; else systemctl start "$1"; fi
    rm "$marks-$1"
}

# A user for each role; what is accepted is on the disk before the answer. It is Glovebox's own
# instance, on loopback: a distribution's that was there is left as it is.
install_redis() {
    local users
    change glovebox-redis.service
    service_user glovebox-redis
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
    put $units/glovebox-redis.service 644 <infra/systemd/glovebox-redis.service
    run_service glovebox-redis.service
}

install_s3() {
    change glovebox-s3.service
    service_user glovebox-s3
    install -d -m 755 $lib
    local from=$lib/versitygw
    [ ! -x lib/versitygw ] || from=lib/versitygw
    [ -x "$from" ] || fail "there is no lib/versitygw here: name a --bucket, or take a release or a pack that has it"
    if [ "$from" != $lib/versitygw ] && ! cmp -s "$from" $lib/versitygw; then
        install -m 755 "$from" $lib/versitygw.new # no && here: a failure would end nothing
        mv -f $lib/versitygw.new $lib/versitygw
        changed=yes
    fi
    install -d -m 700 -o glovebox-s3 -g glovebox-s3 $data $data/glovebox
    local access secret
    access=$(secret s3-access)
    secret=$(secret s3-secret)
    put $etc/s3.env 600 <<<"ROOT_ACCESS_KEY=$access
ROOT_SECRET_KEY=$secret"
    put $units/glovebox-s3.service 644 <infra/systemd/glovebox-s3.service
    run_service glovebox-s3.service
}

redis_url() {
    local password
    password=$(cat "$etc/redis-passwords/$1") && [ -n "$password" ] && echo "GLOVEBOX_REDIS_URL=redis://$1:$password@127.0.0.1:6390/0"
}

bucket_settings() {
    if [ -n "$bucket" ]; then
        printf 'GLOVEBOX_S3_REGION=%s\nGLOVEBOX_S3_BUCKET=%s\n' "$region" "$bucket"
    else
        printf 'GLOVEBOX_S3_ENDPOINT=%s\nGLOVEBOX_S3_REGION=us-east-1\nGLOVEBOX_S3_BUCKET=glovebox\n' $s3
        local access secret
        access=$(secret s3-access) && secret=$(secret s3-secret) && printf 'GLOVEBOX_S3_ACCESS_KEY=%s\nGLOVEBOX_S3_SECRET_KEY=%s\n' "$access" "$secret"
    fi
}

# keep FILE makes the settings of standard input, unless they are there: they are the operator's then.
keep() { [ -e "$1" ] || put "$1" 600; }

# Where clients find the api, and a bucket that is on this machine: these settings follow --domain.
reached_at() {
    echo "GLOVEBOX_PUBLIC_URL=$url"
    [ -z "$domain" ] || echo GLOVEBOX_TRUSTED_PROXIES=127.0.0.1
    [ -z "$domain" ] || [ -n "$bucket" ] || echo "GLOVEBOX_S3_PUBLIC_ENDPOINT=$url"
}

# follow_domain gives an api that is there the settings of this run's --domain. What an operator
# wrote is left where no run has named a domain.
follow_domain() {
    [ -n "$domain" ] || [ -e $etc/Caddyfile ] || [ -e $marks-glovebox-api.service ] || return 0
    local settings
    change glovebox-api.service
    settings=$(sed -E '/^GLOVEBOX_(PUBLIC_URL|TRUSTED_PROXIES|S3_PUBLIC_ENDPOINT)=/d' $etc/api.env && reached_at)
    put $etc/api.env 600 <<<"$settings"
    [ -z "$changed" ] || systemctl try-restart glovebox-api.service
    rm $marks-glovebox-api.service
}

# Nothing is written until all of it is known: what is there is kept for good. operator.env comes first:
# it says that the other two are install.sh's.
write_settings() {
    local objects operator worker api_url token admin signing secrets webhook capability
    objects=$(bucket_settings)
    operator=$(redis_url default)
    worker=$(redis_url glovebox-worker)
    api_url=$(redis_url glovebox-api)
    token=$(secret token)
    admin=$(secret admin-token)
    signing=$(secret signing -base64)
    secrets=$(secret secrets -base64)
    webhook=$(secret webhook -base64)
    capability=$(secret capability -base64)
    keep $etc/operator.env <<<"$operator
$objects"
    keep $etc/worker.env <<<"$worker
$objects
GLOVEBOX_SIGNING_KEY=$signing
GLOVEBOX_SECRETS_KEY=$secrets"
    keep $etc/api.env <<<"$api_url
$objects
GLOVEBOX_API_ADDR=127.0.0.1:8437
GLOVEBOX_TOKEN=$token
GLOVEBOX_ADMIN_TOKEN=$admin
GLOVEBOX_WEBHOOK_KEY=$webhook
GLOVEBOX_CAPABILITY_KEY=$capability
$(reached_at)"
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

# Streams of events go through as they come. Settings that Caddy can't read replace none. It is told
# each time: a run that ended before that left it with the old ones.
install_caddy() {
    local new=$etc/Caddyfile.new
    cat >$new <<EOF
$domain {
	$([ "$tls" = acme ] || echo "tls internal")
$([ -n "$bucket" ] || signed_objects)
	reverse_proxy 127.0.0.1:8437 {
		flush_interval -1
	}
}
# For sites of your own: what is in this file is install.sh's.
import /etc/caddy/sites/*
EOF
    caddy validate --adapter caddyfile --config $new >/dev/null 2>&1 || fail "caddy validate --adapter caddyfile --config $new says what is wrong"
    [ -e $etc/Caddyfile ] || [ ! -s $caddyfile ] || cmp -s $new $caddyfile || cp $caddyfile $etc/Caddyfile.before
    put $caddyfile 644 <$new
    put $etc/Caddyfile 644 <$new
    rm $new
    systemctl --quiet enable caddy.service
    systemctl reload-or-restart caddy.service
}

# remove_caddy gives Caddy the settings back that it had before, unless it has other ones now.
remove_caddy() {
    [ -e $etc/Caddyfile ] || return 0
    if ! cmp -s $etc/Caddyfile $caddyfile; then
        say "to do" "$caddyfile isn't what install.sh wrote: take out of it what is Glovebox's"
    elif [ -e $etc/Caddyfile.before ]; then
        cp $etc/Caddyfile.before $caddyfile
        systemctl reload-or-restart caddy.service || say "to do" "caddy doesn't take its old settings: journalctl -u caddy says why"
    else
        rm -f $caddyfile
        systemctl --quiet --now disable caddy.service
    fi
    rm -f $etc/Caddyfile $etc/Caddyfile.before $etc/Caddyfile.new
}

# default_token is that of the tenant "default" as the api's settings have it, in which an operator may have changed it since, or taken it out.
default_token() {
    sed -n "s/^GLOVEBOX_TOKEN='\\{0,1\\}\\([^']*\\)'\\{0,1\\}$/\\1/p" $etc/api.env
}

# offered says whether a worker offers a runtime. Without a token that is not to be seen: the api's word does.
offered() {
    [ -z "$1" ] || [ -n "$(GLOVEBOX_URL=$api GLOVEBOX_TOKEN=$1 GLOVEBOX_TOKEN_FILE='' glovebox runtimes list 2>/dev/null | tail -n +2)" ]
}

await_ready() {
    local end=$((SECONDS + ready_seconds)) token
    token=$(default_token)
    until curl -fsS -o /dev/null $api/readyz 2>/dev/null && offered "$token"; do
        [ $SECONDS -lt $end ] || fail "not ready after $ready_seconds s (GLOVEBOX_READY_SECONDS): journalctl -u 'glovebox-*' says why"
        sleep 1
    done
}

install_all() {
    settle_bucket
    check_machine
    programs=bin
    install -d -m 755 $etc
    install -d -m 700 $etc/secrets
    local from=()
    if [ -d lib ]; then from=(--from "$PWD"); else
        # As worker-host.sh has it, first of all: it tells podman.sh, which setup.sh uses, where this Podman lives.
        [ -e $units/glovebox-podman.service ] || install -m 644 infra/systemd/glovebox-podman.service $units/
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
    if [ "$(default_token)" != "$(cat $etc/secrets/token)" ]; then
        echo "
  Glovebox is at $url. Its settings have another token than $etc/secrets/token."
        return
    fi
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

# check_installed keeps a purge from what packages or worker-host.sh alone installed.
check_installed() {
    [ ! -e /usr/lib/systemd/system/glovebox-podman.service ] || fail "the package glovebox-worker is installed: apt-get purge takes it away"
    [ -e $etc/redis.conf ] || [ -e $etc/operator.env ] || fail "install.sh didn't install this machine: infra/README.md says how to take away what worker-host.sh did"
}

uninstall() {
    check_installed
    local unit user said names=(glovebox-api.service glovebox-worker.service glovebox-podman.socket glovebox-podman.service glovebox-s3.service glovebox-redis.service)
    for unit in "${names[@]}"; do
        [ ! -e "$units/$unit" ] || systemctl --quiet --now disable "$unit"
    done
    remove_caddy
    if id glovebox >/dev/null 2>&1; then
        # The units, which are there still, say where this Podman lives.
        [ ! -x $lib/podman.sh ] || said=$($lib/podman.sh system migrate 2>&1) || say "to do" "processes of the user glovebox may be left: podman system migrate: $said"
        allow_helpers glovebox
    fi
    for unit in "${names[@]}"; do rm -f "$units/$unit"; done
    systemctl daemon-reload
    rm -rf $lib /usr/local/bin/glovebox /usr/local/bin/glovebox-worker /etc/ssh/sshd_config.d/glovebox.conf /run/glovebox-podman $marks-*
    if [ -z "$purge" ]; then
        say "kept" "$etc, /var/lib/glovebox, /var/lib/glovebox-redis, $data and the users; --purge deletes them"
        return
    fi
    # shellcheck source=infra/remove.sh
    . infra/remove.sh
    remove /var/lib/glovebox /var/lib/glovebox-redis $data /var/cache/glovebox-worker
    for user in glovebox glovebox-worker glovebox-redis glovebox-s3; do
        ! id "$user" >/dev/null 2>&1 || userdel "$user" || say "to do" "the user $user is left: end its processes, then: userdel $user"
    done
    remove $etc # last, as it says that install.sh was here: until then a purge can be run again
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
[[ $ready_seconds =~ ^[1-9][0-9]{0,5}$ ]] || fail "GLOVEBOX_READY_SECONDS is '$ready_seconds': want whole seconds, 1 to 999999"
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
export GLOVEBOX_PODMAN_USER=glovebox # whom the units name
if [ -n "$uninstall" ]; then uninstall; else install_all; fi
