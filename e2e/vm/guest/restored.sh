# A machine is lost. Another one, with nothing of Glovebox, gets what was kept of the first elsewhere: the
# settings, then what infra/install.sh installs, then the backup. elsewhere/ is what onehost.sh left.
# shellcheck shell=bash
# shellcheck disable=SC2154 # out is that of lib.sh

export GLOVEBOX_URL=http://127.0.0.1:8437 GLOVEBOX_TOKEN_FILE=/etc/glovebox/secrets/token
check "nothing of Glovebox is here" bash -c '! command -v glovebox && [ ! -e /etc/glovebox ]'
tar -C / -xf elsewhere/etc.tar
pack/infra/install.sh 2>&1 || fail "install.sh with the settings of another machine: exit $?"
ended=$(jq -r .id elsewhere/ended.json)
glovebox get "$ended" >"$out/before.txt" 2>&1
check "before the restore a job of the other machine is unknown" grep -qi 'not found\|no such\|no job' "$out/before.txt"

systemctl stop glovebox-api glovebox-worker
glovebox restore --check elsewhere/gb.tar || fail "restore --check: exit $?"
glovebox restore --replace elsewhere/gb.tar >"$out/restore.txt" 2>&1
equal "restore --replace" "exit $?" "exit 0"
cat "$out/restore.txt"
systemctl start glovebox-api glovebox-worker
check "ready with what was restored" await api_is_ready
doctor_is_content "on the second machine"

# What had ended is there, with its file and its signature.
glovebox get --json "$ended" >"$out/ended.json" 2>"$out/ended.err" || fail "get: $(cat "$out/ended.err")"
attested() { jq -S '{id, status, stdout, worker, limits_enforced, attestation}' "$1"; }
equal "a job that had ended on the first machine" "$(attested "$out/ended.json" | sha256sum)" "$(attested elsewhere/ended.json | sha256sum)"
glovebox verify --keys elsewhere/keys.json --id "$ended" "$out/ended.json" >"$out/verify.txt" 2>&1
equal "its result, by keys that the first machine told" "exit $?" "exit 0"
cat "$out/verify.txt"
mkdir -p "$out/files"
glovebox get --out "$out/files" "$ended" >"$out/download.txt" 2>&1 || fail "download: $(cat "$out/download.txt")"
equal "its artifact" "$(find "$out/files" -name numbers.txt -exec wc -l {} + | awk '{ print $1 }')" 1000

# What ran runs again, and the machine goes on.
await ended again "$(cat elsewhere/running)"
equal "the job that ran as the backup was made" "$(result again status) $(result again stdout)" "succeeded ran"
echo 'echo "hello from another machine"' | run hello
equal "a new job" "$(result hello status) $(result hello stdout) $(result hello limits_enforced)" "succeeded hello from another machine hard"
jq -e . "$out/hello.json" >/dev/null && glovebox verify --keys elsewhere/keys.json "$out/hello.json" >"$out/verify.txt" 2>&1
equal "its signature is by the first machine's key" "exit $?" "exit 0"
is_bounded "on the second machine"

gone=$(pack/infra/install.sh --uninstall --purge 2>&1) || fail "install.sh --uninstall --purge: exit $?"
equal "what --uninstall --purge says" "$gone" "  gone      all of Glovebox; packages of the distribution stay"
nothing_of_glovebox
