# The sandbox suite's own tests of cgroups, as the Podman user in a delegated unit. They
# are those of hostcgroup_test.go, in bash: here are no images of other runtimes.
# shellcheck shell=bash
# shellcheck disable=SC2154 # out, unit and leaves are those of lib.sh

systemctl stop glovebox-worker
install -d -m 755 /tmp/gotests
install -m 755 sandbox.test /tmp/gotests/
tests='^Test(SelfTest|Hard.*|LimitsRewritten|LimitMissing)$'
systemd-run --quiet --wait --pipe -p User=glovebox -p WorkingDirectory=/tmp/gotests -p "Delegate=cpu memory pids" -p DelegateSubgroup=sup -p TasksMax=8192 \
    -p Environment=XDG_RUNTIME_DIR=/run/glovebox-podman \
    /usr/local/lib/glovebox/podman-service.sh env -C /tmp/gotests GLOVEBOX_TEST_REQUIRE=podman,cgroups GLOVEBOX_TEST_RUNTIME=bash \
    ./sandbox.test -test.v -test.timeout 90m -test.run "$tests" >"$out/gotests.txt" 2>&1
status=$?
grep -E '^ *--- |^(ok|PASS|FAIL)|no tests' "$out/gotests.txt"
if [ $status = 0 ] && grep -q '^--- PASS' "$out/gotests.txt" && ! grep -q -- '--- SKIP' "$out/gotests.txt"; then pass "go tests $tests"; else
    fail "go tests $tests: status $status"
    tail -n 30 "$out/gotests.txt"
fi
systemctl start glovebox-worker
