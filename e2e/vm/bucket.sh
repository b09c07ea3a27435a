#!/bin/bash
# Puts images of this machine into a bucket, as a fleet's builder does, for machines to pull from.
#
#   e2e/vm/bucket.sh DIR RUNTIME…     DIR/glovebox is the bucket, as versitygw keeps it
#
# As root, after infra/setup.sh and a build. What is there is not sent again.
set -eu -o pipefail
mkdir -p "$1/glovebox"
dir=$(readlink -f "$1")
shift
cd "$(dirname "$(readlink -f "$0")")/../.."

server='' settings=$(mktemp)
finish() {
    rm -f "$settings"
    [ -z "$server" ] || kill "$server"
}
trap finish EXIT
export ROOT_ACCESS_KEY=builder ROOT_SECRET_KEY
ROOT_SECRET_KEY=$(openssl rand -hex 16)

# start takes a port that nothing listens on: a server that ends has found none.
start() {
    port=$((20000 + RANDOM % 10000))
    /usr/local/lib/glovebox/versitygw --port "127.0.0.1:$port" --region us-east-1 --quiet posix "$dir" >/dev/null 2>&1 &
    server=$!
    until curl -sS -o /dev/null "http://127.0.0.1:$port/" 2>/dev/null; do
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.1
    done
    kill -0 "$server" 2>/dev/null
}
tries=0
until start; do [ $((tries += 1)) -lt 20 ] || { echo "bucket.sh: versitygw doesn't start" >&2 && exit 1; }; done

cat >"$settings" <<SETTINGS
GLOVEBOX_S3_ENDPOINT=http://127.0.0.1:$port
GLOVEBOX_S3_REGION=us-east-1
GLOVEBOX_S3_BUCKET=glovebox
GLOVEBOX_S3_ACCESS_KEY=$ROOT_ACCESS_KEY
GLOVEBOX_S3_SECRET_KEY=$ROOT_SECRET_KEY
SETTINGS
bin/glovebox runtimes push "$@" --settings "$settings"
