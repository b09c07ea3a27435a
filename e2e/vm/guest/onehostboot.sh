# The machine of onehost.sh, booted again: all starts by itself, the job that was queued runs. Then
# the backup is restored, TLS comes and goes, and all is taken away.
# shellcheck shell=bash
# shellcheck disable=SC2154 # out is that of lib.sh

install_it() { pack/infra/install.sh "$@" 2>&1; }
export GLOVEBOX_URL=http://127.0.0.1:8437 GLOVEBOX_TOKEN_FILE=/etc/glovebox/secrets/token
check "after the boot all is there by itself" await api_is_ready
await ended queued "$(cat /root/queued)"
equal "the job that was queued at the switch-off" "$(result queued status) $(result queued stdout)" "succeeded after the boot"

# Back to the backup: what ran then runs again, what came later is gone.
systemctl stop glovebox-api glovebox-worker
glovebox restore /var/backups/gb.tar >"$out/notempty.txt" 2>&1
equal "restore onto records" "exit $?" "exit 1"
cat "$out/notempty.txt"
glovebox restore --replace /var/backups/gb.tar >"$out/restore.txt" 2>&1
equal "restore --replace" "exit $?" "exit 0"
cat "$out/restore.txt"
systemctl start glovebox-api glovebox-worker
check "ready with what was restored" await api_is_ready
await ended again "$(cat /root/running)"
equal "the job that ran as the backup was made" "$(result again status) $(result again stdout)" "succeeded ran"
mkdir -p "$out/files"
glovebox get --out "$out/files" "$(cat /root/ended)" >"$out/download.txt" 2>&1 || fail "download: $(cat "$out/download.txt")"
equal "the artifact of a job that had ended" "$(find "$out/files" -name numbers.txt -exec wc -l {} + | awk '{ print $1 }')" 1000
glovebox get "$(cat /root/queued)" >"$out/later.txt" 2>&1
check "a job that came after the backup is unknown" grep -qi 'not found\|no such\|no job' "$out/later.txt"

# TLS, with an authority of Caddy's own: the machine has no network.
caddyfile=$(sha256sum </etc/caddy/Caddyfile)
install_it --domain worker-host --tls internal >"$out/domain.txt" || fail "install.sh --domain: exit $?"
cat "$out/domain.txt"
root_ca=/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt
tls() { curl -fsS --cacert $root_ca https://worker-host/readyz; }
check "https://worker-host answers" await tls
head -c 8000000 /dev/urandom >/root/upload
from_elsewhere() { SSL_CERT_FILE=$root_ca GLOVEBOX_URL=https://worker-host "$@"; }
from_elsewhere submit --limit disk_mb=100 --limit file_mb=20 --limit artifact_mb=20 --file /root/upload <<<'cat upload >copy' >/root/uploaded 2>"$out/upload.txt" || fail "submit with a large file by TLS: $(cat "$out/upload.txt")"
await ended uploaded "$(cat /root/uploaded)"
equal "a job with a large file" "$(result uploaded status)" succeeded
from_elsewhere glovebox get --out "$out/files" "$(cat /root/uploaded)" >"$out/get.txt" 2>&1 || fail "get by TLS: $(cat "$out/get.txt")"
check "the file came back through TLS as it was sent" cmp /root/upload "$out/files/copy"
location=$(curl -sS -o /dev/null -w '%{redirect_url}' --cacert $root_ca -H "Authorization: Bearer $(cat $GLOVEBOX_TOKEN_FILE)" "https://worker-host/v1/jobs/$(cat /root/uploaded)/artifacts/copy")
equal "where files are" "${location%%/tenants/*}" https://worker-host/glovebox
code() { curl -sS -o /dev/null -w '%{http_code}' --cacert $root_ca "$@"; }
equal "S3 with its signature, with another, without one, and the list of all" "$(code "$location") $(code "${location/X-Amz-Signature=/X-Amz-Signature=0}") $(code "${location%%\?*}") $(code https://worker-host/glovebox/)" "200 403 404 404"
check "no browser runs what it gets there" bash -c "curl -sS -o /dev/null -D - --cacert $root_ca '$location' | grep -qi '^content-security-policy: sandbox'"
install_it >"$out/nodomain.txt" || fail "install.sh without --domain: exit $?"
equal "without --domain Caddy has its own settings again" "$(sha256sum </etc/caddy/Caddyfile)" "$caddyfile"
check "without --domain nothing answers at https://worker-host" bash -c "! curl -fsS --cacert $root_ca https://worker-host/readyz"
check "ready, still" await api_is_ready

gone=$(pack/infra/install.sh --uninstall --purge 2>&1) || fail "install.sh --uninstall --purge: exit $?"
equal "what --uninstall --purge says" "$gone" "  gone      all of Glovebox; packages of the distribution stay"
nothing_of_glovebox
