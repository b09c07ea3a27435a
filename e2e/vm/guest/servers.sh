# What a worker host's settings name: Redis with users, S3 with keys, as units of the test. Sourced.
# shellcheck shell=bash

secret() { od -An -N18 -tx1 /dev/urandom | tr -d ' \n'; }

# fill_in sets the servers up, and fills in the settings of worker and api.
fill_in() {
    local s3_access s3_secret shared
    s3_access=$(secret) s3_secret=$(secret)
    add redis-server
    systemctl stop redis-server
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
}
