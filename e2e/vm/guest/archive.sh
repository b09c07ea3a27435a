# infra/install.sh of a release's archive, on a machine with nothing of Glovebox. Images lie beside its
# programs, as this machine reaches no mirror to build them from. chart.sh and upgrade.sh go on.
# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034 # out is that of lib.sh; hook, receiver and draws are for the parts after this

without_packages
tar -xf release/glovebox_*_linux_amd64.tar.gz -C /root || fail "tar: exit $?"
archive=$(echo /root/glovebox-*)
ln -s "$PWD/images" "$archive/images"
started=$SECONDS
"$archive/infra/install.sh" 2>&1 || fail "install.sh of the archive: exit $?"
echo "install.sh of the archive took $((SECONDS - started)) s"
equal "the archive's programs" "$(glovebox version --json | jq -r .commit)" "$(cat release/commit)"

# Webhooks go to this machine's own address only where the operator says so.
echo 'GLOVEBOX_WEBHOOK_ALLOW=127.0.0.0/8:9000' >>/etc/glovebox/api.env
systemctl restart glovebox-api
export GLOVEBOX_URL=http://127.0.0.1:8437 GLOVEBOX_TOKEN_FILE=/etc/glovebox/secrets/token
draws=$(cat draws) # the runtime that draws charts: python or r
check "ready" await api_is_ready bash "$draws"
doctor_is_content "of the archive"
is_bounded "of the archive"

hook=http://127.0.0.1:9000/
GLOVEBOX_WEBHOOK_SECRET=$(glovebox webhook keys) || fail "glovebox webhook keys: exit $?"
export GLOVEBOX_WEBHOOK_SECRET
glovebox receive --addr 127.0.0.1:9000 --json >"$out/hooks.jsonl" 2>"$out/receive.err" &
receiver=$!
# told FILTER: a message came, and was verified, of which the filter of jq is true.
told() { [ -n "$(jq -r "select(.verified) | .event | select($1) | .type" "$out/hooks.jsonl")" ]; }
