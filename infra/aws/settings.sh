#!/bin/bash
# Fetches the role's secret settings, lines of NAME=value, from Secrets Manager into memory.
# The unit of the api or the worker runs it as root before each start, so a restart takes up
# what was rotated.
#
#   settings.sh worker|api
set -eu -o pipefail
readonly role=$1 dir=/run/glovebox-settings
# shellcheck source=/dev/null # made by cloud-init
. /etc/glovebox/aws.env

umask 077
install -d -m 700 "$dir"
# Status 2 would be a wrong configuration, which systemd doesn't try again.
aws --region "$REGION" secretsmanager get-secret-value --secret-id "$SECRET_ARN" \
    --query SecretString --output text >"$dir/$role.env.new" || exit 1
grep -q "^GLOVEBOX_REDIS_URL='\?rediss://" "$dir/$role.env.new" || {
    echo "settings: $SECRET_ARN has no GLOVEBOX_REDIS_URL with TLS" >&2
    exit 1
}
mv -f "$dir/$role.env.new" "$dir/$role.env"
