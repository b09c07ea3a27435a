#!/bin/bash
# Builds the AWS provider with the services that the module uses and no others, for `make terraform-test` where the
# registry can't be reached: GLOVEBOX_TERRAFORM_PROVIDER=DIR. The whole provider takes 39 minutes of a processor and 9.5 GB; this one took 19 minutes
# beside other work.
#
#   terraform/provider.sh DIR
#
# The source is that of Go's module proxy. Resources, their schemas and checks are the provider's own; what is left out
# are other services and their clients.
set -eu -o pipefail
[ $# = 1 ] || {
    echo "usage: terraform/provider.sh DIR, which gets a terraform-provider-aws" >&2
    exit 2
}
mkdir -p "$1"
to=$(readlink -f "$1")
cd "$(dirname "$(readlink -f "$0")")"

module=github.com/hashicorp/terraform-provider-aws
version=v1.60.1-0.20260602190131-5f2286d6d836 # 6.47.1: Go knows no other name of a commit, as the module's path has no /v6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# used prints the types of resources and data sources that the module and its examples have, as a pattern.
used() { grep -rhoE --include='*.tf' '^ *(resource|data) "aws_[a-z0-9_]+"' . | grep -oE 'aws_[a-z0-9_]+' | sort -u | paste -sd'|'; }
types=$(used)

cp -r "$(cd "$work" && go mod download -json "$module@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')" "$work/src"
chmod -R u+w "$work/src"
cd "$work/src"

# A service comes with those that it imports. The provider itself wants sts.
services=$({ grep -rlE --include='*.go' "@(SDK|Framework)(Resource|DataSource)\(\"($types)\"" internal/service | cut -d/ -f3 && echo sts; } | sort -u)
kept=''
while [ "$services" != "$kept" ]; do
    kept=$services
    services=$({ echo "$kept" && xargs printf 'internal/service/%s\n' <<<"$kept" | xargs grep -rhoE --include='*.go' --exclude='*_test.go' "\"$module/internal/service/[a-z0-9]+\"" | tr -d '"' | sed 's|.*/||'; } | sort -u)
done
echo "  services  $(xargs <<<"$kept")"
awk -v kept="$kept" '
    BEGIN { split(kept, names, "\n"); for (i in names) keep[names[i]] }
    match($0, /internal\/service\/[a-z0-9]+"/) { name = substr($0, RSTART + 17, RLENGTH - 18); if (!(name in keep)) next }
    match($0, /^\t\t[a-z0-9]+\.ServicePackage/) { name = substr($0, 3, RLENGTH - 17); if (!(name in keep)) next }
    { print }' internal/provider/sdkv2/service_packages_gen.go >"$work/packages.go"
mv "$work/packages.go" internal/provider/sdkv2/service_packages_gen.go

# Of clients, those that what is left asks for.
clients=$({ xargs printf 'internal/service/%s\n' <<<"$kept" && find internal -mindepth 1 -maxdepth 1 ! -name service; } |
    xargs grep -rhoE --include='*.go' --exclude='*_test.go' '\.[A-Z][A-Za-z0-9]*Client\(ctx' | sed 's/^\.//; s/(ctx//' | sort -u)
awk -v clients="$clients" '
    BEGIN { split(clients, names, "\n"); for (i in names) keep[names[i]] }
    NR == FNR { if (match($0, /^func \(c \*AWSClient\) [A-Za-z0-9]+/)) { name = substr($0, 21, RLENGTH - 20); if (name in keep && match($0, /\*[a-z0-9_]+\.Client/)) sdk[substr($0, RSTART + 1, RLENGTH - 8)] }; next }
    match($0, /^func \(c \*AWSClient\) [A-Za-z0-9]+/) { name = substr($0, 21, RLENGTH - 20); out = !(name in keep) && /Client\(ctx/ }
    match($0, /aws-sdk-go-v2\/service\/[a-z0-9]+"/) { name = $1 ~ /^"/ ? substr($0, RSTART + 22, RLENGTH - 23) : $1; if (!(name in sdk)) next }
    !out { print }
    /^}/ { out = 0 }' internal/conns/awsclient_gen.go internal/conns/awsclient_gen.go >"$work/clients.go"
mv "$work/clients.go" internal/conns/awsclient_gen.go

CGO_ENABLED=0 GOFLAGS="-mod=mod -trimpath -gcflags=all=-dwarf=false -ldflags=-w" go build -o "$to/terraform-provider-aws" .
echo "  built     $to/terraform-provider-aws"
