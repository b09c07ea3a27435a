# Memory, CPU and processes of a job are bounded by the kernel, in a cgroup of its own.
# shellcheck shell=bash
# shellcheck disable=SC2154 # out, unit and leaves are those of lib.sh

check "the worker says that limits are hard" logged glovebox-worker 'limits are hard'
this_run glovebox-worker | grep -E 'limits are' | tail -n 3
equal "limits_enforced of a first job" "$(result hello limits_enforced)" hard
# shellcheck source=/dev/null
(set -a && . /etc/glovebox/worker.env && glovebox doctor) >"$out/doctor.txt" 2>&1
grep -E 'cgroups|^problem' "$out/doctor.txt"
check "doctor says that limits are hard" grep -qE '^ok +cgroups .*hard' "$out/doctor.txt"
check "doctor finds no problem" bash -c "! grep -q ^problem '$out/doctor.txt'"

# watch_leaves writes what each leaf held at most into a file, until it is killed.
watch_leaves() {
    local leaf
    while :; do
        for leaf in "$leaves"/*/; do
            [ -d "$leaf" ] || continue
            echo "$(basename "$leaf" | cut -c1-8) max=$(cat "$leaf/memory.max") peak=$(cat "$leaf/memory.peak") swap=$(cat "$leaf/memory.swap.max") cpu=$(cat "$leaf/cpu.max") pids=$(cat "$leaf/pids.max") pids_peak=$(cat "$leaf/pids.peak") oom=$(sed -n 's/^oom_group_kill //p' "$leaf/memory.events")"
        done 2>/dev/null
        sleep 0.2
    done
}

# neighbour runs a job that computes for a while, beside whatever comes next.
neighbour() {
    run "neighbour-$1" --limit memory_mb=64 <<<'for i in $(seq 2000); do x=$((i * i % 7)); done; sleep 15; echo fine' &
    neighbour=$!
    await a_leaf
}
neighbour_is_fine() {
    wait "$neighbour"
    equal "neighbour of $1" "$(result "neighbour-$1" status) $(result "neighbour-$1" stdout)" "succeeded fine"
}

# ---- memory --------------------------------------------------------------------

watch_leaves >"$out/leaves-memory.txt" &
watcher=$!
neighbour memory
run memory --limit memory_mb=96 <<<'dd if=/dev/zero of=/dev/null bs=1G count=1; echo survived'
equal "1 GiB with memory_mb=96" "$(result memory status)" out_of_memory
for dir in /work /tmp /dev/shm; do
    name=tmpfs$(tr / - <<<$dir)
    run "$name" --limit memory_mb=64 --limit disk_mb=256 --limit file_mb=256 <<<"dd if=/dev/zero of=$dir/x bs=16M count=12; echo wrote \$?; sleep 3"
    case "$(result "$name" status)/$(result "$name" stdout)" in
    out_of_memory/*) pass "files in $dir are charged: out_of_memory" ;;
    */"wrote 1"*) pass "files in $dir are bounded: $(result "$name" stderr | tail -n 1)" ;;
    *) fail "192 MiB in $dir with memory_mb=64: $(result "$name" status) $(result "$name" stdout)" ;;
    esac
done
neighbour_is_fine memory
kill $watcher
nothing_left memory
if awk '{ for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] }; if (v["peak"] > v["max"] + 1048576) bad = 1; n++; if (v["peak"] > top) { top = v["peak"]; line = $0 } }
    END { print "leaf that held most: " line; exit bad || n == 0 }' "$out/leaves-memory.txt"; then pass "no leaf held more than its memory.max (and the pages that the kernel counts ahead)"; else fail "a leaf held more than its memory.max, or none was seen"; fi

# The kernel alone, with no agent that counts: a container of the same service.
podman_run() {
    as_worker podman --remote --url unix:///run/glovebox-podman.sock run --name "$1" --network none --read-only --memory 160m --cpus 0.5 --pids-limit 200 \
        "${@:2}"
}
bash_image=$(glovebox runtimes list --images | awk '$1 == "bash" { print $NF }')
bash_image=localhost/glovebox/${bash_image#localhost/glovebox/}
inspect() { as_worker podman --remote --url unix:///run/glovebox-podman.sock inspect -f "$1" "$2"; }
podman_run kernel-memory "$bash_image" bash -c 'dd if=/dev/zero of=/dev/null bs=1G count=1; echo survived' >"$out/kernel-memory.txt" 2>&1
equal "1 GiB under 160 MiB without an agent: exit, OOMKilled" "$(inspect '{{.State.ExitCode}} {{.State.OOMKilled}}' kernel-memory)" "137 true"
podman_run kernel-tmpfs --tmpfs /tmp:size=1g "$bash_image" bash -c 'dd if=/dev/zero of=/tmp/x bs=16M count=20; echo survived' >"$out/kernel-tmpfs.txt" 2>&1
equal "320 MiB in a tmpfs without an agent: exit, OOMKilled" "$(inspect '{{.State.ExitCode}} {{.State.OOMKilled}}' kernel-tmpfs)" "137 true"
as_worker podman --remote --url unix:///run/glovebox-podman.sock rm -f -t0 kernel-memory kernel-tmpfs >/dev/null

# ---- CPU -----------------------------------------------------------------------

spinner=$(submit --limit cpus=0.5 --limit memory_mb=64 <<<'while :; do :; done' 2>"$out/cpu.err")
await a_leaf
leaf=$(find "$leaves" -mindepth 1 -maxdepth 1 -type d | head -n 1)
# A sandbox starts with a whole CPU; the job's share is set when its code comes.
claimed() { [ "$(cat "$leaf/cpu.max")" = "50000 100000" ]; }
check "cpu.max becomes that of cpus=0.5" await claimed
takes "a spinner with cpus=0.5" "$leaf" 20 55
glovebox cancel "$spinner" >"$out/cancel.txt" 2>&1 || cat "$out/cancel.txt"
await ended cpu "$spinner"
equal "the spinner's job" "$(result cpu status)" canceled

# ---- processes -----------------------------------------------------------------

watch_leaves >"$out/leaves-processes.txt" &
watcher=$!
neighbour processes
run bomb --limit processes=32 --limit wall_ms=15000 --limit memory_mb=96 <<<':() { : | : & }; :; sleep 20; echo still here'
neighbour_is_fine processes
kill $watcher
echo "the fork bomb's job: $(result bomb status), exit $(result bomb exit_code), $(jq -c .usage "$out/bomb.json")"
case "$(result bomb status)" in
failed | timed_out | succeeded | out_of_memory) pass "a fork bomb ends as $(result bomb status)" ;;
*) fail "a fork bomb ends as $(result bomb status)" ;;
esac
if awk '{ for (i = 2; i <= NF; i++) { split($i, f, "="); v[f[1]] = f[2] }; if (v["pids_peak"] > v["pids"]) bad = 1; n++; if (v["pids_peak"] > top) { top = v["pids_peak"]; line = $0 } }
    END { print "leaf with the most: " line; exit bad || n == 0 }' "$out/leaves-processes.txt"; then pass "no leaf had more processes than its pids.max"; else fail "a leaf had more processes than its pids.max, or none was seen"; fi
nothing_left "fork bomb"
