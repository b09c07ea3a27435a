package infra

import (
	"strings"
	"testing"
)

// atTerminal runs a line of bash at a terminal of its own, which is root's, with input typed.
// The Podman that podman.sh runs is the script.
func (m *machine) atTerminal(podman, line, typed string) string {
	m.t.Helper()
	m.stub("podman", podman)
	m.stdin = typed
	defer func() { m.stdin = "" }()
	return strings.ReplaceAll(m.run("script", "-qec", line, "/dev/null"), "\r\n", "\n")
}

// TestRootsTerminal: no process of the Podman user has the terminal of root, who ran it: not
// as a descriptor, nor as its session's.
func TestRootsTerminal(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	const look = `readlink "/proc/$$/fd/0" "/proc/$$/fd/1" "/proc/$$/fd/2" >/run/saw
cut -d' ' -f7 "/proc/$$/stat" >>/run/saw
find "/proc/$$/fd" -type l -printf '%l\n' >>/run/saw
{ tty </dev/tty; } >>/run/saw 2>&1
exit 7`
	lines := map[string]string{
		"all of it":      "infra/podman.sh",
		"none of it":     "set -o pipefail; infra/podman.sh </dev/null 2>&1 | cat",
		"another script": "infra/root-images.sh",
		"a test":         "cp /bin/bash podman.test; infra/as-podman-user.sh podman.test /usr/local/bin/podman",
	}
	if !testing.Short() { // some of it
		lines["no input"] = "infra/podman.sh </dev/null"
		lines["input of a pipe"] = "echo | infra/podman.sh"
		lines["output to a pipe"] = "set -o pipefail; infra/podman.sh | cat"
		lines["errors to a file"] = "infra/podman.sh 2>/run/errors"
	}
	for name, line := range lines {
		line = "tty >/run/mine; cut -d' ' -f7 /proc/$$/stat >>/run/mine; rm -f /run/saw; (" + line + "); echo ended with $?"
		out := m.atTerminal(look, line, "")
		if !strings.Contains(out, "ended with 7") {
			t.Errorf("%s: got %q, want it to end with 7", name, out)
		}
		mine := strings.Fields(m.run("cat", "/run/mine"))
		if len(mine) != 2 || !strings.HasPrefix(mine[0], "/dev/pts/") || mine[1] == "0" {
			t.Fatalf("%s: it was not at a terminal: %q", name, mine)
		}
		saw := m.run("cat", "/run/saw")
		for _, s := range strings.Fields(saw) {
			if s == mine[0] || s == mine[1] {
				t.Errorf("%s: root's terminal is %s; Podman's process has\n%s", name, mine, saw)
				break
			}
		}
	}
}

// TestPodmanAtATerminal: with a terminal of its own, podman.sh does what it did with root's.
func TestPodmanAtATerminal(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	const ask = `[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && : </dev/tty && read -r line && echo "heard $line" && echo "and $*" >&2`
	if out := m.atTerminal(ask, `infra/podman.sh run 'a b' '$HOME' "it's"`, "hello\n"); !strings.Contains(out, "heard hello\nand run a b $HOME it's\n") {
		t.Errorf("got %q", out)
	}
	const bytes = `printf 'a\nb\r\n\004\000c'`
	if out := m.atTerminal(bytes, "infra/podman.sh | od -An -c", ""); !strings.Contains(out, `a  \n   b  \r  \n 004  \0   c`) {
		t.Errorf("what goes into a pipe: got %q", out)
	}
	if out := m.atTerminal("exec od -An -c", `printf 'a\r\n\004\000c' | infra/podman.sh`, ""); !strings.Contains(out, `a  \r  \n 004  \0   c`) {
		t.Errorf("what comes from a pipe: got %q", out)
	}
	const wait = `trap 'echo told; exit 9' TERM INT
echo on; while :; do sleep 0.05; done`
	for _, signal := range []string{"TERM", "INT"} {
		line := "exec 5< <(exec infra/podman.sh </dev/null 2>/run/errors); pid=$!; read -r on <&5; kill -" + signal + " $pid; cat <&5; wait $pid; echo ended with $?"
		if out := m.atTerminal(wait, line, ""); !strings.Contains(out, "told\nended with 9") {
			t.Errorf("%s: got %q", signal, out)
		}
	}
}
