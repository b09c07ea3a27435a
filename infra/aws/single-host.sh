#!/bin/bash
# Makes this EC2 instance all of Glovebox, out of the pack that the script lies in, with its objects in
# a bucket of S3 that the instance's role may use. For trying it out: the worker belongs on another
# host than what it has the secrets of. cloud-init runs it as root.
#
#   infra/aws/single-host.sh HOST BUCKET REGION
#
# HOST is the name under which clients reach this machine; Caddy gets a certificate for it.
set -eu -o pipefail
[ $# = 3 ] || {
    sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0" >&2
    exit 2
}
exec "$(dirname "$(readlink -f "$0")")/../install.sh" --domain "$1" --bucket "$2" --region "$3"
