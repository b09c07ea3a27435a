#!/bin/bash
# Waits until this EC2 instance is about to end, and drains its worker or api: when a Spot
# instance is interrupted (two minutes ahead) or the Auto Scaling group takes it out (which
# waits for the lifecycle hook). glovebox-drain.service runs it.
set -eu -o pipefail
# shellcheck source=/dev/null # made by cloud-init
. /etc/glovebox/aws.env
readonly imds=${IMDS:-http://169.254.169.254}/latest

# ask PATH prints what the instance's metadata service says, or fails.
ask() {
    local token
    token=$(curl --silent --fail --max-time 2 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$imds/api/token") &&
        curl --silent --fail --max-time 2 -H "X-aws-ec2-metadata-token: $token" "$imds/meta-data/$1"
}

# leaving prints why the instance ends, or fails.
leaving() {
    if ask spot/instance-action >/dev/null; then
        echo "its Spot capacity is taken back"
    elif [ "$(ask autoscaling/target-lifecycle-state)" = Terminated ]; then
        echo "its Auto Scaling group takes it out"
    else
        return 1
    fi
}

until why=$(leaving); do sleep 5; done
echo "drain: this instance ends, as $why"
# The load balancer takes some seconds to send an api no more requests.
[ "$ROLE" != api ] || sleep 10
systemctl stop "glovebox-$ROLE.service"
echo "drain: glovebox-$ROLE has stopped"
# An interruption may come without the hook; the instance then ends by itself.
aws --region "$REGION" autoscaling complete-lifecycle-action --lifecycle-action-result CONTINUE \
    --auto-scaling-group-name "$GROUP" --lifecycle-hook-name "$TERMINATING_HOOK" \
    --instance-id "$(cloud-init query instance_id)" ||
    echo "drain: no lifecycle action to complete; the hook's time ends it, if there is one" >&2
