package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestIsKill(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{
		"kill abc 9": true, "kill --all abc KILL": true, "kill abc SIGKILL": true,
		"kill abc 15": false, "kill abc": false, "kill": false, "delete abc 9": false, "": false,
	} {
		if got := isKill(strings.Fields(args)); got != want {
			t.Errorf("%q: got %v, want %v", args, got, want)
		}
	}
}

// TestKill stands in for a runsc whose sandbox ends while it is killed; e2e's TestSoak
// meets the real one.
func TestKill(t *testing.T) {
	t.Parallel()
	const fails = `echo "$@" >>"$0.log"; [ "$4" = kill ] && { echo connection refused >&2; exit 128; }; echo '"status": "STATUS"'`
	tests := []struct {
		name, script string
		refused      string // part of the error
		calls        string
		patience     time.Duration
	}{
		{name: "killed", script: `echo "$@" >>"$0.log"`, calls: "--root /r --fixed kill abc 9"},
		{name: "ended by itself", script: strings.ReplaceAll(fails, "STATUS", "stopped"), calls: "--root /r --fixed kill abc 9\n--root /r --fixed state abc"},
		{
			name: "ends slowly", patience: time.Minute,
			script: `echo "$@" >>"$0.log"; [ "$4" = kill ] && { echo connection refused >&2; exit 128; }; [ $(wc -l <"$0.log") -lt 4 ] || echo '"status": "stopped"'`,
			calls:  "--root /r --fixed kill abc 9\n--root /r --fixed state abc\n--root /r --fixed kill abc 9\n--root /r --fixed state abc",
		},
		{name: "can't be killed", script: strings.ReplaceAll(fails, "STATUS", "running"), patience: 100 * time.Millisecond, refused: "connection refused"},
		{name: "unknown to runsc", script: "echo does not exist >&2; exit 128", patience: time.Hour, refused: "does not exist"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runsc := script(t, tt.script)
			err := kill(runsc, strings.Fields("runsc --root /r --fixed kill abc 9"), strings.Fields("kill abc 9"), tt.patience)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("got %v, want an error with %q", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Error(err)
			}
			if b, err := os.ReadFile(runsc + ".log"); err != nil || strings.TrimSpace(string(b)) != tt.calls {
				t.Errorf("runsc was called with %q, want %q; %v", b, tt.calls, err)
			}
		})
	}
}

// script writes a program that stands in for runsc. Nothing forks meanwhile: a child of another test
// would hold the file open for writing until its exec, and the kernel refuse to execute it.
func script(t *testing.T, source string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "runsc")
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+source+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRemoveStaleLock: a lock without a state goes, one with a state stays.
func TestRemoveStaleLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"gone_sandbox:gone.lock", "here_sandbox:here.lock", "here_sandbox:here.state"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"gone", "here", "never"} {
		removeStaleLock([]string{"runsc", "--root", dir}, id)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 {
		t.Errorf("got %v, %v, want here's two files", left, err)
	}
}

// TestExited: what conmon runs as it ends takes the sandbox along, and finds nothing to do
// where Podman has been before.
func TestExited(t *testing.T) {
	t.Parallel()
	sandbox := play(t, sandboxName, testID)
	argv := strings.Fields("runsc --root " + save(t, sandbox.Process.Pid, sandbox.Process.Pid) + " --fixed exited " + testID)
	other := os.Getppid()
	if err := exited("/nowhere", argv, argv[4:], other, time.Minute); err != nil || ended(t, sandbox) {
		t.Errorf("another conmon's: %v, want it left alone", err)
	}
	for range 2 { // the second finds that it has ended
		if err := exited("/nowhere", argv, argv[4:], os.Getpid(), time.Minute); err != nil {
			t.Error(err)
		}
	}
	if !ended(t, sandbox) {
		t.Error("it lives on")
	}
	gone := strings.Fields("runsc --root " + t.TempDir() + " exited " + testID)
	if err := exited("/nowhere", gone, gone[3:], os.Getpid(), time.Minute); err != nil {
		t.Errorf("without a state: %v", err)
	}
}

// TestExitedUnusual: what is not known for certain is killed by runsc.
func TestExitedUnusual(t *testing.T) {
	t.Parallel()
	runsc := script(t, `echo "$@" >>"$0.log"`)
	root := save(t, 1<<22, 1<<22, `"mounts":{}`, `"mounts":{"/x":{}}`)
	argv := strings.Fields("runsc --root " + root + " --fixed exited " + testID)
	if err := exited(runsc, argv, argv[4:], os.Getpid(), time.Minute); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(runsc + ".log"); err != nil || string(b) != "--root "+root+" --fixed kill "+testID+" 9\n" {
		t.Errorf("runsc was called with %q, %v", b, err)
	}
}
