# The host as production has it: worker-host.sh, Redis with users, S3 with keys.
# shellcheck shell=bash

# shellcheck source=e2e/vm/guest/servers.sh
. guest/servers.sh
[ -e /etc/glovebox ] || without_packages # at the first boot of this disk
pack/infra/worker-host.sh --from pack --api 2>&1 || fail "worker-host.sh: exit $?"
equal "settings" "$(stat -c '%a %U' /etc/glovebox/worker.env) $(stat -c '%a %U' /etc/glovebox/api.env)" "600 root 600 root"

grep -q '^GLOVEBOX_REDIS_URL=.' /etc/glovebox/worker.env || fill_in
systemctl start redis-server versitygw

passwd --quiet --lock root # the image lets root in without one, which no host does

# Again: it changes nothing, and starts what has its settings now.
again=$(pack/infra/worker-host.sh --from pack --api 2>&1) || fail "worker-host.sh, again: exit $?"
if [ -z "$again" ] || grep -qE '^  (installed|restarted|to do)|added|loaded|from /' <<<"$again"; then fail "worker-host.sh, again: $again"; else pass "a second run of worker-host.sh changes nothing"; fi

install -d -o glovebox-worker -g glovebox-worker /tmp/worker # a home for podman --remote
export GLOVEBOX_URL=http://127.0.0.1:8437 GLOVEBOX_TOKEN
GLOVEBOX_TOKEN=$(sed -n 's/^GLOVEBOX_TOKEN=//p' /etc/glovebox/api.env)
check "api and worker are ready" await api_is_ready
api_is_ready >/dev/null 2>&1 || journalctl -q --no-pager -n 60 -u 'glovebox-*' -u versitygw -u redis-server

echo 'echo "hello from $(uname -r)"' | run hello
equal "a first job" "$(result hello status) $(result hello stdout)" "succeeded hello from 4.19.0-gvisor"
outside=$(ps -u glovebox -o pid= | while read -r pid; do grep -qs glovebox-podman.service "/proc/$pid/cgroup" || cat "/proc/$pid/comm"; done)
equal "processes of the sandbox user outside of its unit" "$outside" ""
systemd-analyze security --no-pager 2>/dev/null | grep -E 'UNIT|glovebox'
systemctl --version | head -n 1
podman --version
