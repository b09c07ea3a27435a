#!/bin/bash
# Makes this EC2 instance a worker's host, or an api's, out of the pack that the script lies
# in (infra/worker-host.sh --pack), and waits until that runs. boot.sh of the Terraform module
# runs it as root, after cloud-init has written /etc/glovebox/aws.env and ROLE.env.
#
#   infra/aws/host.sh worker|api
set -eu -o pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
pack=$(pwd)
readonly pack
readonly role=${1-} lib=/usr/local/lib/glovebox

case $role in
worker) infra/worker-host.sh --from "$pack" ;;
api)
    # Only what serves: no Podman, nothing that runs code.
    install -m 755 bin/glovebox /usr/local/bin/glovebox
    install -m 644 infra/systemd/glovebox-api.service /etc/systemd/system/glovebox-api.service
    ;;
*)
    sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0" >&2
    exit 2
    ;;
esac

# shellcheck source=/dev/null # made by cloud-init
. /etc/glovebox/aws.env
install -d -m 755 "$lib/aws" "/etc/systemd/system/glovebox-$role.service.d"
install -m 755 infra/aws/settings.sh infra/aws/drain.sh "$lib/aws/"
install -m 644 infra/aws/glovebox-drain.service /etc/systemd/system/glovebox-drain.service
# The secrets are fetched at each start, into memory. The unit's own time to stop is for a
# grace of 30 s.
cat >"/etc/systemd/system/glovebox-$role.service.d/aws.conf" <<EOF
[Service]
ExecStartPre=+$lib/aws/settings.sh $role
EnvironmentFile=-/run/glovebox-settings/$role.env
TimeoutStopSec=$((GRACE_SECONDS + 30))
EOF
readonly unit=glovebox-$role.service
units=("$unit" glovebox-drain.service)
if [ -n "${AUTOSCALE_POOLS:-}" ]; then
    install -m 755 infra/aws/autoscale.sh "$lib/aws/"
    install -m 644 infra/aws/glovebox-autoscale.service /etc/systemd/system/glovebox-autoscale.service
    units+=(glovebox-autoscale.service)
fi
systemctl daemon-reload
systemctl --quiet enable "${units[@]}"
# cloud-init waits for this script, and units may wait for cloud-init.
systemctl start --no-block "${units[@]}"

# up reports whether the api answers, or the worker's process runs, whatever it still waits for: without Redis, other hosts
# would be no better. A unit whose start has not begun waits for cloud-init, which this script holds up.
up() {
    case $(systemctl is-active "$unit") in
    active) [ "$role" = worker ] || curl --silent --fail --max-time 2 --output /dev/null http://127.0.0.1:8437/healthz ;;
    inactive) [ -n "$(systemctl show --property Job --value "$unit")" ] ;;
    *) false ;;
    esac
}

# A process that refuses its settings or this host ends within a minute, for good or to be started again.
watched=("$unit")
[ "$role" = api ] || watched+=(glovebox-podman.service)
before='' looks=0
for ((tries = 0; tries < 120 && looks < 12; tries++)); do
    sleep 5
    [ "$(systemctl is-active "$unit")" != failed ] || break
    restarts=$(systemctl show --property NRestarts --value "${watched[@]}")
    if up && [ "$restarts" = "$before" ]; then looks=$((looks + 1)); else looks=0; fi
    before=$restarts
done
[ "$looks" = 12 ] || {
    echo "host: $unit is $(systemctl is-active "$unit"), and has not run for a minute without being started again. It says:" >&2
    journalctl --no-pager --lines 20 --unit "$unit" >&2 || true
    exit 1
}
