#!/bin/bash
# Writes into CloudWatch how many workers there should be, once a minute: what the scaling policy
# of terraform/workers.tf follows. glovebox-autoscale.service runs it on each of the API's hosts,
# and the greatest number of a minute counts.
set -eu -o pipefail
# shellcheck source=/dev/null # made by cloud-init
. /etc/glovebox/aws.env

glovebox autoscale --watch --interval 1m --slots "$AUTOSCALE_SLOTS" --min "$AUTOSCALE_MIN" --max "$AUTOSCALE_MAX" \
    --boot "${AUTOSCALE_BOOT_SECONDS}s" --clear "${AUTOSCALE_CLEAR_SECONDS}s" | while read -r wanted why; do
    echo "$wanted $why"
    # A number that didn't arrive is followed by another: the group stays as it is meanwhile. It is given up before
    # that one comes, or numbers of an outage would stand in line, and count as those of the time after it.
    timeout 50 aws --region "$REGION" cloudwatch put-metric-data --namespace "$AUTOSCALE_NAMESPACE" --metric-name WantedWorkers \
        --dimensions "Pool=$AUTOSCALE_POOL" --value "$wanted" || echo "autoscale: CloudWatch didn't take it" >&2
done
