#!/bin/bash
# Makes this EC2 instance a worker's host, or an api's, out of the pack that the script lies
# in (infra/worker-host.sh --pack). boot.sh of the Terraform module runs it as root, after
# cloud-init has written /etc/glovebox/aws.env and ROLE.env.
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
units=("glovebox-$role.service" glovebox-drain.service)
if [ -n "${AUTOSCALE_POOLS:-}" ]; then
    install -m 755 infra/aws/autoscale.sh "$lib/aws/"
    install -m 644 infra/aws/glovebox-autoscale.service /etc/systemd/system/glovebox-autoscale.service
    units+=(glovebox-autoscale.service)
fi
systemctl daemon-reload
systemctl --quiet enable "${units[@]}"
# cloud-init waits for this script, and units may wait for cloud-init.
systemctl start --no-block "${units[@]}"
