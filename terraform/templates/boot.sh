#!/bin/bash
# Sets this EC2 instance up: fetches the release that /etc/glovebox/aws.env names, checks its
# SHA-256, and runs its infra/aws/host.sh. cloud-init runs it once, as root. The Auto Scaling
# group counts the instance only after that, and replaces one on which it failed.
set -eEu -o pipefail # E: a trap of functions, too
# shellcheck source=/dev/null # made by cloud-init
. /etc/glovebox/aws.env

# launched RESULT tells the group: CONTINUE or ABANDON.
launched() {
    aws --region "$REGION" autoscaling complete-lifecycle-action --lifecycle-action-result "$1" \
        --auto-scaling-group-name "$GROUP" --lifecycle-hook-name "$LAUNCHING_HOOK" \
        --instance-id "$(cloud-init query instance_id)" ||
        echo "boot: no lifecycle action to complete: the first instances may be older than the hook" >&2
}
trap 'launched ABANDON' ERR

missing=()
for package in awscli ca-certificates curl; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    # A new machine updates itself at first: wait for it.
    apt_get() { env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"; }
    apt_get update
    apt_get -y --no-install-recommends install "${missing[@]}"
fi

readonly archive=/var/tmp/glovebox-release dir=/opt/glovebox
case $RELEASE_URL in
s3://*) aws --region "$REGION" s3 cp --no-progress "$RELEASE_URL" "$archive" ;;
*) curl --fail --silent --show-error --location --proto '=https' --retry 5 --output "$archive" "$RELEASE_URL" ;;
esac
echo "$RELEASE_SHA256  $archive" | sha256sum --check --status || {
    echo "boot: $RELEASE_URL has another SHA-256 than $RELEASE_SHA256" >&2
    false
}
rm -rf "$dir"
mkdir -p "$dir"
tar --extract --no-same-owner --file "$archive" --directory "$dir"
rm "$archive"

# The pack, or a directory that holds it.
host=$(find "$dir" -maxdepth 4 -path '*/infra/aws/host.sh' -print -quit)
[ -n "$host" ] || {
    echo "boot: $RELEASE_URL is no pack of infra/worker-host.sh --pack: it has no infra/aws/host.sh" >&2
    false
}
"$host" "$ROLE"
launched CONTINUE
