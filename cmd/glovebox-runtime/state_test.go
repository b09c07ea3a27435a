package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const testID = "0a1b"

// play starts a process with the arguments of runsc's that are looked at. It lives until
// it is killed, or the test ends.
func play(t *testing.T, name, id string) *exec.Cmd {
	t.Helper()
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{name, "-c", "read _", id}}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be waited for already
		_ = cmd.Wait()
	})
	// Start returns when the old program has gone, a moment before the new one has its arguments.
	for deadline := time.Now().Add(time.Minute); !isProcess(cmd.Process.Pid, name, id); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is not %s", cmd.Process.Pid, name)
		}
	}
	return cmd
}

// ended reports whether a process has ended, of itself or by a signal.
func ended(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	return !isRunning(cmd.Process)
}

// save writes a state as runsc does, into a directory that it returns.
func save(t *testing.T, sandbox, gofer int, changes ...string) string {
	t.Helper()
	dir := t.TempDir()
	state := fmt.Sprintf(`{"id":"ID","goferPid":%d,"spec":{"root":{"path":"/r"}},"status":"running","sandbox":{"id":"ID","pid":%d,`+
		`"cgroup":{"cgroupunknown":null},"controlSocketPath":"DIR/runsc-ID.sock","mountHints":{"mounts":{}}},`+
		`"compatCgroup":{"cgroupunknown":null},"goferMountConfs":[{"lower":1,"upper":0},{"lower":1,"upper":1}]}`, gofer, sandbox)
	state = strings.NewReplacer(append(changes, "ID", testID, "DIR", dir)...).Replace(state)
	for name, content := range map[string]string{"ID_sandbox:ID.state": state, "ID_sandbox:ID.lock": "", "runsc-ID.sock": "", "null-netns": "", "other_sandbox:other.state": ""} {
		if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, "ID", testID)), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDestroySandbox(t *testing.T) {
	t.Parallel()
	sandbox, gofer := play(t, sandboxName, testID), play(t, goferName, testID)
	dir := save(t, sandbox.Process.Pid, gofer.Process.Pid)
	if err := destroySandbox([]string{"runsc", "--root", dir}, testID); err != nil {
		t.Fatal(err)
	}
	if !ended(t, sandbox) || !ended(t, gofer) {
		t.Error("a process lives on")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 {
		t.Errorf("got %v, %v, want others' two files", left, err)
	}
	if err := destroySandbox([]string{"runsc", "--root", dir}, testID); err == nil {
		t.Error("without a state: got no error")
	}
}

// TestDestroySandboxWithoutGofer: a sandbox with a root image has one process.
func TestDestroySandboxWithoutGofer(t *testing.T) {
	t.Parallel()
	sandbox := play(t, sandboxName, testID)
	dir := save(t, sandbox.Process.Pid, 0, `"lower":1`, `"lower":2`)
	if err := destroySandbox([]string{"runsc", "--root", dir}, testID); err != nil || !ended(t, sandbox) {
		t.Errorf("got %v, ended: %v, want it to have gone", err, ended(t, sandbox))
	}
}

// TestDestroySandboxOfOthers: a number that has come to mean another process ends nobody.
func TestDestroySandboxOfOthers(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]*exec.Cmd{"another sandbox": play(t, sandboxName, "ffff"), "another program": play(t, "sh", testID)} {
		dir := save(t, other.Process.Pid, other.Process.Pid)
		if err := destroySandbox([]string{"runsc", "--root", dir}, testID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if ended(t, other) {
			t.Errorf("%s was killed", name)
		}
	}
}

// TestUnusual: what runsc would have more to do for is left as it is.
func TestUnusual(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][]string{
		"hooks":                 {`"root":`, `"hooks":{"poststop":[]},"root":`},
		"cgroup":                {`"cgroup":{"cgroupunknown":null}`, `"cgroup":{"cgroupv2":{}}`},
		"cgroup of a container": {`"compatCgroup":{"cgroupunknown":null}`, `"compatCgroup":{"cgroupv1":{}}`},
		"overlay in a file":     {`"upper":1`, `"upper":2`},
		"shared mount":          {`"mounts":{}`, `"mounts":{"/x":{}}`},
		"socket elsewhere":      {"DIR/runsc-ID.sock", "/x/runsc-ID.sock"},
		"another's sandbox":     {`"sandbox":{"id":"ID"`, `"sandbox":{"id":"other"`},
		"not started":           {`"sandbox":{`, `"sandbox":null,"x":{`},
		"no gofer, but mounts":  {`"goferPid":`, `"x":`},
		"a gofer for nothing":   {`"lower":1`, `"lower":2`},
		"no JSON":               {`"id"`, `id`},
	} {
		sandbox := play(t, sandboxName, testID)
		dir := save(t, sandbox.Process.Pid, sandbox.Process.Pid, change...)
		if err := destroySandbox([]string{"runsc", "--root", dir}, testID); err == nil {
			t.Errorf("%s: got no error", name)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 5 || ended(t, sandbox) {
			t.Errorf("%s: got %v, %v, ended: %v, want everything as it was", name, left, err, ended(t, sandbox))
		}
	}
}

// TestDestroySandboxLocked: runsc itself is at work on the sandbox.
func TestDestroySandboxLocked(t *testing.T) {
	t.Parallel()
	sandbox := play(t, sandboxName, testID)
	dir := save(t, sandbox.Process.Pid, sandbox.Process.Pid)
	lock, err := os.Open(filepath.Join(dir, testID+"_sandbox:"+testID+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := destroySandbox([]string{"runsc", "--root", dir}, testID); err == nil || ended(t, sandbox) {
		t.Errorf("got %v, ended: %v, want an error and a sandbox that lives", err, ended(t, sandbox))
	}
}

// TestKillDirectly: a sandbox that is known for certain is killed without runsc.
func TestKillDirectly(t *testing.T) {
	t.Parallel()
	sandbox := play(t, sandboxName, testID)
	argv := []string{"runsc", "--root", save(t, sandbox.Process.Pid, sandbox.Process.Pid)}
	for range 2 { // the second finds that it has ended
		if err := kill("/nowhere", argv, []string{"kill", testID, "9"}, time.Minute); err != nil {
			t.Error(err)
		}
	}
	if !ended(t, sandbox) {
		t.Error("it lives on")
	}
}
