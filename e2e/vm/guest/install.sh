# The host as production has it: worker-host.sh, Redis with users, S3 with keys.
# shellcheck shell=bash

secret() { od -An -N18 -tx1 /dev/urandom | tr -d ' \n'; }

pack/infra/worker-host.sh --from pack --api 2>&1 || fail "worker-host.sh: exit $?"
equal "settings" "$(stat -c '%a %U' /etc/glovebox/worker.env) $(stat -c '%a %U' /etc/glovebox/api.env)" "600 root 600 root"

if ! grep -q '^GLOVEBOX_REDIS_URL=.' /etc/glovebox/worker.env; then
    s3_access=$(secret) s3_secret=$(secret)
    (umask 077 && printf 'ROOT_ACCESS_KEY=%s\nROOT_SECRET_KEY=%s\n' "$s3_access" "$s3_secret" >/etc/glovebox/s3.env)
    install -m 640 -g redis /dev/null /etc/redis/users.acl
    glovebox redis-acl --worker "$(hostname)" /root/redis-passwords >/etc/redis/users.acl || fail "glovebox redis-acl: exit $?"
    printf 'aclfile /etc/redis/users.acl\nappendonly yes\nappendfsync always\nmaxmemory-policy noeviction\n' >>/etc/redis/redis.conf
    redis_url() { echo "s#^GLOVEBOX_REDIS_URL=.*#GLOVEBOX_REDIS_URL=redis://$1:$(cat "/root/redis-passwords/$1")@127.0.0.1:6379/0#"; }
    shared="s#^GLOVEBOX_S3_ENDPOINT=.*#GLOVEBOX_S3_ENDPOINT=http://127.0.0.1:7070#
        s#^GLOVEBOX_S3_REGION=.*#GLOVEBOX_S3_REGION=us-east-1#
        s#^GLOVEBOX_S3_BUCKET=.*#GLOVEBOX_S3_BUCKET=glovebox#
        s#^GLOVEBOX_S3_ACCESS_KEY=.*#GLOVEBOX_S3_ACCESS_KEY=$s3_access#
        s#^GLOVEBOX_S3_SECRET_KEY=.*#GLOVEBOX_S3_SECRET_KEY=$s3_secret#"
    sed -i "$shared
        $(redis_url "glovebox-worker-$(hostname)")
        s#^GLOVEBOX_SIGNING_KEY=.*#GLOVEBOX_SIGNING_KEY=$(head -c 32 /dev/urandom | base64)#" /etc/glovebox/worker.env
    # No warm sandboxes: what the tests count and look into is to be the jobs' own. gotests.sh has those.
    printf 'GLOVEBOX_CONCURRENCY=4\nGLOVEBOX_MEMORY_MB=2500\nGLOVEBOX_WARM=0\n' >>/etc/glovebox/worker.env
    sed -i "$shared
        $(redis_url glovebox-api)
        s#^GLOVEBOX_PUBLIC_URL=.*#GLOVEBOX_PUBLIC_URL=http://127.0.0.1:8437#
        s#^GLOVEBOX_TOKEN=.*#GLOVEBOX_TOKEN=$(secret)#
        s#^GLOVEBOX_WEBHOOK_KEY=.*#GLOVEBOX_WEBHOOK_KEY=$(head -c 32 /dev/urandom | base64)#
        s#^GLOVEBOX_CAPABILITY_KEY=.*#GLOVEBOX_CAPABILITY_KEY=$(head -c 32 /dev/urandom | base64)#" /etc/glovebox/api.env
    install -m 755 versitygw /usr/local/bin/versitygw
    install -d -m 700 /var/lib/versitygw /var/lib/versitygw/glovebox
    cat >/etc/systemd/system/versitygw.service <<'UNIT'
[Service]
EnvironmentFile=/etc/glovebox/s3.env
ExecStart=/usr/local/bin/versitygw --port 127.0.0.1:7070 --region us-east-1 --quiet posix /var/lib/versitygw
[Install]
WantedBy=multi-user.target
UNIT
    systemctl daemon-reload
    systemctl --quiet enable versitygw redis-server
fi
systemctl start redis-server versitygw

passwd --quiet --lock root # the image lets root in without one, which no host does

# Again: it changes nothing, and starts what has its settings now.
again=$(pack/infra/worker-host.sh --from pack --api 2>&1) || fail "worker-host.sh, again: exit $?"
if [ -z "$again" ] || grep -qE '^  (installed|restarted|to do)|added|loaded|from /' <<<"$again"; then fail "worker-host.sh, again: $again"; else pass "a second run of worker-host.sh changes nothing"; fi

install -d -o glovebox-worker -g glovebox-worker /tmp/worker # a home for podman --remote
export GLOVEBOX_URL=http://127.0.0.1:8437 GLOVEBOX_TOKEN
GLOVEBOX_TOKEN=$(sed -n 's/^GLOVEBOX_TOKEN=//p' /etc/glovebox/api.env)
ready() { curl -fsS "$GLOVEBOX_URL/readyz" && glovebox runtimes list | grep -q '^bash'; }
check "api and worker are ready" within 180 ready
ready >/dev/null 2>&1 || journalctl -q --no-pager -n 60 -u 'glovebox-*' -u versitygw -u redis-server

# An emulated machine on a busy host takes more than the default's 10 s.
echo 'echo "hello from $(uname -r)"' | run hello --limit wall_ms=120000
equal "a first job" "$(result hello status) $(result hello stdout)" "succeeded hello from 4.19.0-gvisor"
outside=$(ps -u glovebox -o pid= | while read -r pid; do grep -qs glovebox-podman.service "/proc/$pid/cgroup" || cat "/proc/$pid/comm"; done)
equal "processes of the sandbox user outside of its unit" "$outside" ""
systemd-analyze security --no-pager 2>/dev/null | grep -E 'UNIT|glovebox'
systemctl --version | head -n 1
podman --version
