package main

import (
	"slices"
	"strings"
	"testing"
)

func TestExitCommand(t *testing.T) {
	t.Parallel()
	// As Podman 4.3.1 calls it.
	const before = "--api-version 1 -c abc -u abc -r /lib/glovebox-runtime -b /b -p /p -n NAME --exit-dir /e --full-attach -l none --log-level warning -i --timeout=7200 --conmon-pidfile /c"
	const cleanup = " --exit-command /usr/bin/podman --exit-command-arg --root --exit-command-arg -n --exit-command-arg container --exit-command-arg cleanup --exit-command-arg abc"
	tests := []struct {
		name, args string
		changed    bool
	}{
		{"a worker's", strings.ReplaceAll(before, "NAME", "glovebox-x") + cleanup, true},
		{"somebody's", strings.ReplaceAll(before, "NAME", "happy_euler") + cleanup, false},
		{"somebody's whose exit command tells otherwise", strings.ReplaceAll(before, "NAME", "happy_euler") + cleanup + " --exit-command-arg -n --exit-command-arg glovebox-x", false},
		{"a process in a worker's", strings.ReplaceAll(before, "NAME", "glovebox-x") + " --exec-attach -e --exec-process-spec /s" + cleanup, false},
		{"no name", before[:strings.Index(before, "-n")] + cleanup, false},
		{"no exit command", strings.ReplaceAll(before, "NAME", "glovebox-x"), false},
		{"version", "--version", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args, id := strings.Fields(tt.args), ""
			if tt.changed {
				id = "abc"
			}
			if got := workerContainer(args); got != id {
				t.Errorf("got %q, want %q", got, id)
			}
			if !tt.changed {
				return
			}
			want := strings.Fields(strings.ReplaceAll(before, "NAME", "glovebox-x") + " --exit-command /self --exit-command-arg exited --exit-command-arg abc")
			if got := withExitCommand(args, "/self", exitedCommand, id); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestIsConmon(t *testing.T) {
	t.Parallel()
	for argv0, want := range map[string]bool{
		"/usr/local/lib/glovebox/conmon": true, "conmon": true, "/usr/local/lib/glovebox/glovebox-runtime": false, "": false,
	} {
		if got := isConmon(argv0); got != want {
			t.Errorf("%q: got %v, want %v", argv0, got, want)
		}
	}
}
