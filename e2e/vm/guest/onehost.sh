# infra/install.sh on a machine with nothing of Glovebox: Redis, S3 server, api and worker, which take
# a job; installed again; backed up. The machine is then switched off with a job that is queued:
# onehostboot.sh goes on, and restored.sh, on another machine, with the backup.
# shellcheck shell=bash
# shellcheck disable=SC2154 # out is that of lib.sh

# What an installation changes, by its sum: settings, secrets, units, programs.
installed_sum() { find /etc/glovebox /etc/systemd/system/glovebox-* /usr/local/lib/glovebox /usr/local/bin -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum; }
pids() { systemctl show -P MainPID glovebox-{redis,s3,api}.service | xargs; }

started=$SECONDS
pack/infra/install.sh 2>&1 || fail "install.sh: exit $?"
echo "install.sh took $((SECONDS - started)) s"
for name in redis s3 api worker; do equal "glovebox-$name" "$(systemctl is-active "glovebox-$name") $(systemctl is-enabled "glovebox-$name")" "active enabled"; done
equal "who runs what" "$(for name in redis s3 worker; do ps -o user:20= -p "$(systemctl show -P MainPID "glovebox-$name")"; done | xargs)" "glovebox-redis glovebox-s3 glovebox-worker"
check "the api has a user that systemd makes" test "$(ps -o uid= -p "$(systemctl show -P MainPID glovebox-api)")" -ge 61184
equal "secrets" "$(find /etc/glovebox/secrets /etc/glovebox/redis-passwords /etc/glovebox/*.env -type f \( -perm /077 -o ! -user root \))" ""
open=$(ss -Hltn | awk '{ print $4 }' | grep -v '^127\.\|^\[::1\]' | xargs)
echo "listens beyond loopback: ${open:-nothing}"
check "nothing of Glovebox listens beyond loopback" bash -c "! grep -E ':(8437|8440|6390)\b' <<<'$open'"
check "the sandboxes' user reads no secret" bash -c "! (setpriv --reuid=glovebox --regid=glovebox --init-groups cat /etc/glovebox/secrets/token /etc/glovebox/s3.env /etc/glovebox/redis-users.acl /var/lib/glovebox-s3 /var/lib/glovebox-redis/appendonlydir/* | grep .)"

export GLOVEBOX_URL=http://127.0.0.1:8437 GLOVEBOX_TOKEN_FILE=/etc/glovebox/secrets/token
install -d -o glovebox-worker -g glovebox-worker /tmp/worker
doctor_is_content "after install.sh"
echo 'echo "hello from $(uname -r)"; seq 1000 >numbers.txt' | run hello
equal "a job" "$(result hello status) $(result hello stdout) $(result hello limits_enforced)" "succeeded hello from 4.19.0-gvisor hard"
hello=$(result hello id)
mkdir -p "$out/files"
glovebox get --out "$out/files" "$hello" >"$out/download.txt" 2>&1 || fail "download: $(cat "$out/download.txt")"
equal "its artifact" "$(find "$out/files" -name numbers.txt -exec wc -l {} + | awk '{ print $1 }')" 1000
is_bounded "after install.sh"

# Again, while a job is queued: nothing changes.
systemctl stop glovebox-worker
queued=$(submit <<<'echo waited')
before="$(installed_sum) $(pids)"
pack/infra/install.sh >"$out/again.txt" 2>&1 || fail "install.sh, again: exit $?: $(cat "$out/again.txt")"
equal "a second run changes nothing, restarts nothing" "$(installed_sum) $(pids)" "$before"
await ended queued "$queued"
equal "the job that was queued meanwhile" "$(result queued status) $(result queued stdout)" "succeeded waited"

# A backup while the service runs, and a job that runs meanwhile.
running=$(submit <<<'sleep 20; echo ran')
glovebox backup /var/backups/gb.tar >"$out/backup.txt" 2>&1 || fail "glovebox backup: exit $?"
cat "$out/backup.txt"
equal "the backup's mode" "$(stat -c '%a %U' /var/backups/gb.tar)" "600 root"
glovebox restore --check /var/backups/gb.tar >"$out/check.txt" 2>&1
equal "restore --check" "exit $? $(cat "$out/check.txt")" "exit 0 $(grep -v 'has secrets' "$out/backup.txt")"
head -c -5000 /var/backups/gb.tar >/var/backups/cut.tar
glovebox restore --check /var/backups/cut.tar >"$out/cut.txt" 2>&1
equal "restore --check of one that is cut off" "exit $?" "exit 1"
cat "$out/cut.txt"
glovebox restore --replace /var/backups/gb.tar >"$out/refused.txt" 2>&1
equal "restore while the service runs" "exit $?" "exit 1"
cat "$out/refused.txt"
await ended running "$running"
equal "the job that ran meanwhile" "$(result running status) $(result running stdout)" "succeeded ran"

# Switched off with a job that nothing has run.
systemctl stop glovebox-worker
submit <<<'echo "after the boot"' >/root/queued
printf '%s\n' "$hello" >/root/ended
printf '%s\n' "$running" >/root/running

# What an operator has elsewhere when this machine is lost.
mkdir -p "$out/elsewhere"
cp /var/backups/gb.tar "$out/elsewhere/"
tar -C / -cf "$out/elsewhere/etc.tar" etc/glovebox
curl -fsS -H "Authorization: Bearer $(cat $GLOVEBOX_TOKEN_FILE)" "$GLOVEBOX_URL/v1/keys" >"$out/elsewhere/keys.json" || fail "GET /v1/keys: exit $?"
cp "$out/hello.json" "$out/elsewhere/ended.json"
printf '%s\n' "$running" >"$out/elsewhere/running"
