#!/bin/bash
# Writes into CloudWatch how many workers there should be of each pool, once a minute: what the scaling
# policies of terraform/workers.tf follow. glovebox-autoscale.service runs it on each of the API's hosts,
# and the greatest number of a minute counts.
set -eu -o pipefail
# shellcheck source=/dev/null # made by cloud-init
. /etc/glovebox/aws.env

# follow writes the numbers of one pool until glovebox ends, which counts its workers from the jobs that name these labels.
follow() {
    local pool=$1
    glovebox autoscale --watch --interval 1m --pool "$2" --slots "$3" --min "$4" --max "$5" --boot "${6}s" --clear "${7}s" --sessions "${8:-0}" | while read -r wanted why; do
        echo "$pool: $wanted $why"
        # A number that didn't arrive is followed by another: the group stays as it is meanwhile. It is given up before
        # that one comes, or numbers of an outage would stand in line, and count as those of the time after it.
        timeout 50 aws --region "$REGION" cloudwatch put-metric-data --namespace "$AUTOSCALE_NAMESPACE" --metric-name WantedWorkers \
            --dimensions "Pool=$pool" --value "$wanted" || echo "autoscale: CloudWatch didn't take it" >&2
    done
}

IFS=';' read -r -a pools <<<"$AUTOSCALE_POOLS"
for pool in "${pools[@]}"; do
    read -r -a words <<<"$pool"
    follow "${words[@]}" &
done
# As one ends, systemd ends the others, and starts all anew.
wait -n
