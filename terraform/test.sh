#!/bin/bash
# Validates the module and its examples, and runs its tests, which mock AWS: nothing is made and
# no account is needed, but the AWS provider is. It comes from the registry, or from the directory
# GLOVEBOX_TERRAFORM_PROVIDER, which holds a terraform-provider-aws. make terraform-test runs it.
set -eu -o pipefail
cd "$(dirname "$(readlink -f "$0")")"

command -v terraform >/dev/null || {
    echo "terraform is not on this machine: install Terraform 1.11 or later" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The tree stays as it is: no .terraform, no lock file.
cp -r . "$work/module"
cd "$work/module"
init=(terraform init -backend=false -input=false)
if [ -n "${GLOVEBOX_TERRAFORM_PROVIDER:-}" ]; then
    [ -x "$GLOVEBOX_TERRAFORM_PROVIDER/terraform-provider-aws" ] || {
        echo "GLOVEBOX_TERRAFORM_PROVIDER: there is no program terraform-provider-aws in $GLOVEBOX_TERRAFORM_PROVIDER" >&2
        exit 1
    }
    cat >"$work/terraformrc" <<EOF
provider_installation {
  dev_overrides { "hashicorp/aws" = "$GLOVEBOX_TERRAFORM_PROVIDER" }
  direct {}
}
EOF
    export TF_CLI_CONFIG_FILE=$work/terraformrc
    # With an override, init would ask the registry all the same.
    init=(terraform get)
fi
for dir in . examples/*; do
    echo "== $dir"
    (cd "$dir" && "${init[@]}" >/dev/null && terraform validate)
done
terraform test
