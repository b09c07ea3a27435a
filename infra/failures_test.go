package infra

import (
	"os/exec"
	"strings"
	"testing"
)

// TestFailures: what make test says at its end is which tests failed and why, not what their servers printed.
func TestFailures(t *testing.T) {
	const log = `ok  	glovebox/job	0.1s
--- FAIL: TestA (1.00s)
    a_test.go:3: setting up
    --- FAIL: TestA/sub (0.00s)
        a_test.go:9: got 1, want 2
            in words
        process.go:41: output of podman:
            level=info msg=started
    a_test.go:12: after
FAIL
FAIL	glovebox/worker	2.5s
panic: test timed out after 60m0s
FAIL	glovebox/e2e	3600s
FAIL
`
	const want = `== what failed
--- FAIL: TestA (1.00s)
    a_test.go:3: setting up
    --- FAIL: TestA/sub (0.00s)
        a_test.go:9: got 1, want 2
    a_test.go:12: after
FAIL	glovebox/worker	2.5s
panic: test timed out after 60m0s
FAIL	glovebox/e2e	3600s
`
	for log, want := range map[string]string{log: want, "ok  	glovebox/job	0.1s\n": ""} {
		cmd := exec.CommandContext(t.Context(), "awk", "-f", "failures.awk")
		cmd.Stdin = strings.NewReader(log)
		got, err := cmd.CombinedOutput()
		if err != nil || string(got) != want {
			t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
		}
	}
}
