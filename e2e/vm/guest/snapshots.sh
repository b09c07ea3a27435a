# Sandboxes that go on from a snapshot, and sessions that are written to disk and go on, under cgroup v2 and
# with two users: the kernel bounds them as it does others, and what they go on from nobody changes.
# With TypeScript, whose image is small; it comes from the bucket. Its process waits with little, where an emulated machine takes minutes for what
# Node waits with.
# shellcheck shell=bash
# shellcheck disable=SC2154 # out, unit and leaves are those of lib.sh

cp -a s3/glovebox/. /var/lib/versitygw/glovebox/
glovebox runtimes pull typescript 2>&1 || fail "glovebox runtimes pull typescript: exit $?"
cp /etc/glovebox/worker.env /root/worker.env
# Its memory is what has room for the snapshot.
printf 'GLOVEBOX_CONCURRENCY=2\nGLOVEBOX_MEMORY_MB=3200\nGLOVEBOX_WARM=1\nGLOVEBOX_SNAPSHOTS=always\nGLOVEBOX_METRICS_ADDR=127.0.0.1:8438\nGLOVEBOX_SESSION_PAUSE_MB=500\nGLOVEBOX_SESSION_PAUSE_AFTER_SECONDS=5\n' >>/etc/glovebox/worker.env
systemctl restart glovebox-worker
check "api and worker are ready" await api_is_ready bash typescript
snapshots() { curl -fsS http://127.0.0.1:8438/snapshots; }
has_snapshot() { snapshots | jq -e '.runtimes[] | select(.runtime == "typescript" and .bytes > 0)'; }
# A snapshot is made of a runtime that is in demand.
echo "console.log(1 + 2)" | run first --runtime typescript
equal "a job of TypeScript" "$(result first status) $(result first stdout)" "succeeded 3"
check "there is a snapshot" await has_snapshot
snapshots

# ---- limits ----------------------------------------------------------------------

# restored NAME [FLAG…] is run, in a sandbox that goes on from the snapshot: the first that is free may be another.
went_on() { run "$@" --runtime typescript <"/root/$1.ts" && [[ $(result "$1" runtime.snapshot) =~ ^[0-9a-f]{64}$ ]]; }
restored() {
    cat >"/root/$1.ts"
    await went_on "$@" || fail "$1: no run went on from the snapshot"
}
restored plain <<'TS'
console.log(20 + 22, require("fs").readFileSync("/proc/version", "utf8").split(" ")[2])
TS
equal "a job that goes on from the snapshot" "$(result plain status) $(result plain stdout) $(result plain limits_enforced)" "succeeded 42 4.19.0-gvisor hard"
check "it names the snapshot" grep -qE '"snapshot": *"[0-9a-f]{64}"' "$out/plain.json"
restored memory-restored --limit memory_mb=128 <<'TS'
const kept: Buffer[] = []
for (let i = 0; i < 1024; i++) kept.push(Buffer.alloc(1 << 20, i))
console.log("survived", kept.length)
TS
equal "1 GiB with memory_mb=128" "$(result memory-restored status) $(result memory-restored limits_enforced)" "out_of_memory hard"

# leaf_of FIGURE prints the cgroup with that cpu.max.
leaf_of() { grep -lx "$1 100000" "$leaves"/*/cpu.max 2>/dev/null | head -n 1 | xargs -r dirname; }
has_leaf() { [ -n "$(leaf_of "$1")" ]; }
figures() { (cd "$1" && echo "memory.max=$(cat memory.max) swap=$(cat memory.swap.max) group=$(cat memory.oom.group) pids.max=$(cat pids.max)"); }
spinner=$(submit --runtime typescript --limit cpus=0.43 --limit memory_mb=128 --limit processes=64 <<<'for (;;) ;' 2>"$out/spinner.err")
check "cpu.max of a restored sandbox becomes that of cpus=0.43" await has_leaf 43000
leaf=$(leaf_of 43000)
echo "its figures: $(figures "$leaf")"
check "its memory is bounded, without swap" bash -c "[ $(cat "$leaf/memory.max") -lt $((512 << 20)) ] && [ $(cat "$leaf/memory.swap.max") = 0 ]"
takes "a restored spinner with cpus=0.43" "$leaf" 15 48
glovebox cancel "$spinner" >"$out/cancel.txt" 2>&1 || cat "$out/cancel.txt"
await ended spinner "$spinner"
equal "the spinner" "$(result spinner status)" canceled # its result says nothing of its sandbox

# ---- who can change them -----------------------------------------------------------

# A snapshot is three files in the worker's memory. Root opens them, and the kernel lets not even root write.
worker=$(systemctl show -P MainPID glovebox-worker)
mapfile -t files < <(find "/proc/$worker/fd" -lname '/memfd:glovebox-snapshot*')
check "the worker has the snapshot's files" test ${#files[@]} -ge 3
cat >/tmp/change.py <<'PYTHON'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
try:
    os.pwrite(fd, b"spoilt", 0)
except PermissionError:
    pass
else:
    sys.exit("written")
try:
    os.ftruncate(fd, 0)
except PermissionError:
    sys.exit(0)
sys.exit("truncated")
PYTHON
for file in "${files[@]}"; do
    check "${file##*/}: the kernel refuses root's writing" python3 /tmp/change.py "$file"
    for user in as_escaped as_worker; do
        if $user dd if="$file" of=/dev/null bs=1 count=1 >/dev/null 2>&1; then read=yes; else read=no; fi
        case $user,$read in
        as_escaped,no) pass "the sandboxes' user can't open it" ;;
        as_escaped,yes) fail "the sandboxes' user opens it" ;;
        as_worker,*) echo "the worker's user opens it: $read" ;;
        esac
    done
done

# ---- sessions that are written to disk ------------------------------------------------

session=$(glovebox session start bash --limit wall_ms=300000 --limit memory_mb=128 --limit cpus=0.37 2>"$out/session.err") || fail "session start: $(cat "$out/session.err")"
executes() { glovebox session exec "$@" 2>>"$out/session.err"; }
equal "a session" "$(executes "$session" 'x=6; y=7; cd /tmp; echo $((x * y))')" 42
paused() { [ "$(glovebox session show "$1" | jq -r .status)" = paused ]; }
check "it is paused" await paused "$session"
cache=/var/cache/glovebox-worker
equal "the worker's cache" "$(stat -c '%a %U' $cache)" "700 glovebox-worker"
check "the sandboxes' user doesn't get there" bash -c "! setpriv --reuid=glovebox --regid=glovebox --init-groups ls $cache"
mapfile -t sealed < <(find "/proc/$worker/fd" -lname "$cache*")
echo "files of paused sessions: ${#sealed[@]}"
check "there is one" test ${#sealed[@]} -ge 1
for file in "${sealed[@]}"; do
    if as_escaped dd if="$file" of=/dev/null bs=1 count=1 >/dev/null 2>&1; then fail "the sandboxes' user opens the file of a paused session"; else pass "the sandboxes' user can't open the file of a paused session"; fi
done
fork=$(glovebox session fork "$session" 2>>"$out/session.err") || fail "session fork: $(tail -n 1 "$out/session.err")"
equal "it goes on where it was" "$(executes "$session" 'x=100; echo $((x + y)) $PWD')" "107 /tmp"
equal "its fork has what it had before" "$(executes "$fork" 'echo $((x * y)) $PWD')" "42 /tmp"
await paused "$session" || fail "the session is not paused" # it is, so the cgroup is the fork's
executes "$fork" 'for i in {1..30000}; do :; done; sleep 8' >/dev/null &
check "the kernel bounds a fork" await has_leaf 37000
leaf=$(leaf_of 37000)
echo "its figures: $(figures "$leaf")"
check "its memory, too" test "$(cat "$leaf/memory.max")" -lt $((512 << 20))
wait $!
glovebox session exec --json "$fork" 'tail /dev/zero | wc -c' >"$out/fork-memory.json" 2>>"$out/session.err"
equal "a memory bomb in a fork with memory_mb=128" "$(result fork-memory status)" out_of_memory
glovebox session end "$session" "$fork" >/dev/null 2>&1

cp /root/worker.env /etc/glovebox/worker.env
systemctl restart glovebox-worker
check "as it was" await api_is_ready
nothing_left "snapshots"
