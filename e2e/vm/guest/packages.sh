# The Debian packages on a machine with nothing of Glovebox, as docs/release.md says: installed, filled in,
# images pulled from the bucket, where another host has put them; installed once more while jobs run, as
# an upgrade does it; removed; purged.
# shellcheck shell=bash
# shellcheck disable=SC2154 # out is that of lib.sh

# shellcheck source=e2e/vm/guest/servers.sh
. guest/servers.sh
without_packages
install_packages() { DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" ./release/*.deb 2>&1; }
install_packages >"$out/apt.txt" || fail "apt-get install: exit $?"
tail -n 12 "$out/apt.txt"
equal "nothing is started" "$(systemctl is-active glovebox-worker glovebox-api glovebox-podman | xargs)" "inactive inactive inactive"
equal "the packages' programs" "$(glovebox version --json | jq -r .commit) $(command -v glovebox)" "$(cat release/commit) /usr/bin/glovebox"
install -D -m 600 /usr/share/doc/glovebox/examples/api.env /etc/glovebox/api.env
fill_in
cp -a s3/glovebox/. /var/lib/versitygw/glovebox/
systemctl start redis-server versitygw
glovebox runtimes pull bash 2>&1 || fail "glovebox runtimes pull bash: exit $?"
systemctl --quiet enable --now glovebox-worker glovebox-api

install -d -o glovebox-worker -g glovebox-worker /tmp/worker # a home for podman --remote
export GLOVEBOX_URL=http://127.0.0.1:8437 GLOVEBOX_TOKEN
GLOVEBOX_TOKEN=$(sed -n 's/^GLOVEBOX_TOKEN=//p' /etc/glovebox/api.env)
check "api and worker are ready" await api_is_ready
check "the worker says that limits are hard" await logged glovebox-worker 'limits are hard'
doctor_is_content "of the packages"
echo 'echo "hello from $(uname -r)"' | run hello
equal "a job" "$(result hello status) $(result hello stdout) $(result hello limits_enforced)" "succeeded hello from 4.19.0-gvisor hard"
is_bounded "of the packages"
equal "pulled again, nothing changes" "$(glovebox runtimes pull bash 2>&1 | grep -c ' there: bash@')" 1

# ---- an upgrade while jobs run -----------------------------------------------------

ids=()
for _ in 1 2 3 4 5 6; do ids+=("$(submit --limit memory_mb=64 <<<'sleep 60; echo done')"); done
check "jobs run" await a_leaf
invocation=$(systemctl show -P InvocationID glovebox-worker)
install_packages --reinstall >"$out/upgrade.txt" || fail "apt-get install --reinstall: exit $?"
tail -n 12 "$out/upgrade.txt"
equal "the worker that was drained is started again" "$(systemctl is-active glovebox-worker)" active
check "it is another" test "$(systemctl show -P InvocationID glovebox-worker)" != "$invocation"
good=0
for id in "${ids[@]}"; do
    await ended upgraded "$id"
    [ "$(result upgraded status) $(result upgraded stdout) $(result upgraded limits_enforced)" = "succeeded done hard" ] && good=$((good + 1))
done
equal "jobs that the upgrade met" "$good" 6
nothing_left "upgrade"

# ---- away --------------------------------------------------------------------------

settings=$(cat /etc/glovebox/*.env | sha256sum)
apt-get remove -q -y glovebox-worker glovebox-runsc glovebox >"$out/remove.txt" 2>&1 || fail "apt-get remove: exit $?"
equal "settings after a removal" "$(cat /etc/glovebox/*.env | sha256sum)" "$settings"
equal "users after a removal" "$(getent passwd | cut -d: -f1 | grep glovebox | sort | xargs)" "glovebox glovebox-worker"
equal "processes after a removal" "$(pgrep -a 'glovebox|runsc|conmon' | xargs)" ""
apt-get purge -q -y glovebox-worker glovebox-runsc glovebox >"$out/purge.txt" 2>&1 || fail "apt-get purge: exit $?"
tail -n 8 "$out/purge.txt"
equal "settings after a purge" "$(ls /etc/glovebox)" s3.env
# The servers and their settings were the test's own.
systemctl --quiet --now disable versitygw redis-server
rm -r /var/lib/versitygw /etc/systemd/system/versitygw.service /usr/local/bin/versitygw /root/redis-passwords
rm -rf /etc/glovebox /tmp/worker
systemctl daemon-reload
nothing_of_glovebox
