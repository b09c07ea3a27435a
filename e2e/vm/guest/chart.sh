# A job that draws a chart, and its webhook: who gets it can tell who sent it, and what the worker attested.
# shellcheck shell=bash
# shellcheck disable=SC2154 # out is that of lib.sh, hook and draws of archive.sh

case $draws in
python) program='import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(-8, 8, 400)
for k in range(1, 6):
    plt.plot(x, np.sinc(x / k), label=f"sinc(x/{k})")
plt.legend()
plt.show()
print("drawn on Linux", open("/proc/version").read().split()[2])' ;;
r) program='x <- seq(-8, 8, length.out = 400)
plot(x, sin(x) / x, type = "l")
cat("drawn on Linux", strsplit(readLines("/proc/version"), " ")[[1]][3], fill = TRUE)' ;;
esac
run chart --runtime "$draws" --callback "$hook" <<<"$program"
chart=$(result chart id)
equal "a job that draws" "$(result chart status) $(result chart stdout) $(result chart limits_enforced)" "succeeded drawn on Linux 4.19.0-gvisor hard"
echo "it took: $(jq -c '{timing, usage, runtime}' "$out/chart.json")"
mkdir -p "$out/files"
glovebox get --out "$out/files" "$chart" >"$out/download.txt" 2>&1 || fail "download: $(cat "$out/download.txt")"
equal "its chart is a PNG" "$(head -c 8 "$out/files/chart-1.png" | od -An -tx1 | tr -d ' \n')" 89504e470d0a1a0a
[ "$draws" != python ] || equal "the chart's data" "$(jq -r '.artifacts[] | select(.name == "chart-1.png") | .chart | tostring | contains("sinc(x/3)")' "$out/chart.json")" true

check "its webhook came, and its signature is good" await told ".data.id == \"$chart\""
jq -c "select(.verified) | .event | select(.data.id == \"$chart\")" "$out/hooks.jsonl" | head -n 1 >"$out/hook.json"
equal "what it tells" "$(jq -r '.type + " " + .data.status' "$out/hook.json")" "job.completed succeeded"
curl -fsS -H "Authorization: Bearer $(cat "$GLOVEBOX_TOKEN_FILE")" "$GLOVEBOX_URL/v1/keys" >"$out/keys.json" || fail "GET /v1/keys: exit $?"
env -u GLOVEBOX_URL -u GLOVEBOX_TOKEN_FILE glovebox verify --keys "$out/keys.json" --id "$chart" "$out/hook.json" >"$out/verify.txt" 2>&1
equal "glovebox verify of the webhook's body, which asks nobody" "exit $?" "exit 0"
cat "$out/verify.txt"
jq -c '.data.stdout = "drawn elsewhere"' "$out/hook.json" | glovebox verify --keys "$out/keys.json" - >"$out/changed.txt" 2>&1
equal "of a body that was changed" "exit $? $(head -c 8 "$out/changed.txt")" "exit 1 REJECTED"
