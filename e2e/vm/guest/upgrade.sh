# An upgrade in the middle of a batch: from the archive's programs to those of pack/, which were built
# otherwise, so that each is replaced. Nothing of the batch is lost, nothing counts twice.
# shellcheck shell=bash
# shellcheck disable=SC2154 # out is that of lib.sh, hook, receiver, draws, archive and told of archive.sh, program of chart.sh

sums() { find /usr/local/bin /usr/local/lib/glovebox -maxdepth 1 -type f \( -name 'glovebox*' -o -name versitygw \) -print0 | sort -z | xargs -0 sha256sum; }
counted() { glovebox batch get --json "$batch" 2>"$out/batch.err" | jq -r ".$1"; }
some_ended() { [ "$(counted ended)" -ge 2 ]; }
one_runs() { [ "$(glovebox list --json --status running 2>"$out/list.err" | jq '.jobs | length')" -gt 0 ]; }
batch_ended() { [ "$(counted status)" = completed ]; }
# told_of prints how many jobs of the batch were told in how many messages: another delivery of a message
# has that message's id.
told_of() { jq -r "select(.verified) | \"\(.id) \(.event.data.id)\"" "$out/hooks.jsonl" | sort -u | cut -d' ' -f2 | grep -Fxf <(jq -r .id "$out/results.jsonl") | sort | uniq -c | awk '{ print $1 }' | sort | uniq -c | xargs; }
all_told() { [ "$(told_of)" = "$jobs 1" ]; }

# upgrade JOBS SECONDS INSTALLER… runs a batch of so many jobs, which take so long except for the first two, and
# upgrades meanwhile. It leaves how many workers have had a part in workers.
upgrade() {
    local seconds=$2 program invocation
    jobs=$1
    shift 2
    seq "$jobs" | jq -c --arg hook "$hook" "{runtime: \"bash\", source: \"sleep \(if . <= 2 then 1 else $seconds end); echo \(. * 7)\", limits: {wall_ms: 300000}, callback: {url: \$hook}}" >/root/batch.jsonl
    sums >"$out/sums-before.txt"
    invocation=$(systemctl show -P InvocationID glovebox-worker)
    batch=$(glovebox batch submit --no-wait --callback "$hook" /root/batch.jsonl 2>"$out/batch.err") || fail "batch submit: $(cat "$out/batch.err")"
    check "two of the batch have ended" await some_ended
    check "one of the batch runs" await one_runs
    echo "ended as the upgrade begins: $(counted ended) of $jobs"
    "$@" >"$out/upgrade.txt" 2>&1 || fail "$*: exit $?"
    cat "$out/upgrade.txt"
    echo "ended as the upgrade is over: $(counted ended) of $jobs"
    sums >"$out/sums-after.txt"
    for program in bin/glovebox bin/glovebox-worker glovebox/glovebox-agent glovebox/glovebox-runtime; do
        check "$program is another" bash -c "! diff <(grep '/$program\$' '$out/sums-before.txt') <(grep '/$program\$' '$out/sums-after.txt')"
    done
    check "the worker is another" test "$(systemctl show -P InvocationID glovebox-worker)" != "$invocation"

    check "the batch ends" await batch_ended
    glovebox batch results "$batch" >"$out/results.jsonl" 2>"$out/results.err" || fail "batch results: $(cat "$out/results.err")"
    equal "of the batch succeeded, each with its own output" "$(jq -r 'select(.result.status == "succeeded" and .result.stdout == "\((.index + 1) * 7)\n") | .index' "$out/results.jsonl" | sort -nu | wc -l) of $(wc -l <"$out/results.jsonl")" "$jobs of $jobs"
    equal "the batch counts" "$(glovebox batch get --json "$batch" | jq -c '[.jobs, .ended, .rejected, .counts]')" "[$jobs,$jobs,0,{\"succeeded\":$jobs}]"
    workers=$(jq -r '.result.worker' "$out/results.jsonl" | sort -u | wc -l)
    echo "of its jobs, attempts and workers: $(jq -r '"\(.result.attempt) \(.result.worker)"' "$out/results.jsonl" | sort | uniq -c | xargs)"
    check "the batch's own webhook came" await told ".type == \"batch.completed\" and .data.id == \"$batch\""
    check "each job of the batch was told in one message" await all_told
    echo "jobs, messages for each: $(told_of)"
}

# The first try may be over before a slow machine has put the programs in place: then the jobs take
# longer, fewer so that they end within await's bound one after the other, and the way is back.
ln -s ../images pack/images
upgrade 10 60 pack/infra/install.sh
if [ "$workers" = 1 ]; then
    echo "the batch was over before the new worker: once more, with longer jobs"
    upgrade 6 240 "$archive/infra/install.sh"
fi
equal "workers that have had a part in the batch" "$workers" 2
equal "messages that were rejected" "$(jq -c 'select(.verified | not)' "$out/hooks.jsonl" | wc -l)" 0
run after --runtime "$draws" <<<"$program"
equal "a chart after the upgrade" "$(result after status) $(jq -r '.artifacts[].name' "$out/after.json")" "succeeded chart-1.png"
doctor_is_content "after the upgrade"
kill "$receiver"

gone=$("$archive/infra/install.sh" --uninstall --purge 2>&1) || fail "install.sh --uninstall --purge: exit $?"
equal "what --uninstall --purge says" "$gone" "  gone      all of Glovebox; packages of the distribution stay"
rm -r "$archive"
nothing_of_glovebox
