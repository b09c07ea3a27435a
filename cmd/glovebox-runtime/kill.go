package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// killTimeout is long: a busy host takes seconds to end a sandbox with some hundred
	// processes, and until then nobody listens in it and runsc calls it running.
	killTimeout = 20 * time.Second
	killPause   = 20 * time.Millisecond
)

// isKill reports whether the command is `kill <id> 9`.
func isKill(rest []string) bool {
	return len(rest) > 2 && rest[0] == "kill" && slices.Contains([]string{"9", "KILL", "SIGKILL"}, rest[len(rest)-1])
}

// kill kills the sandbox's process, as runsc's own delete does: everything in the sandbox ends
// with it. If that process is not the one that runsc has noted, runsc's kill is called, and a
// sandbox that ends by itself at that moment counts as killed. runsc would say that it can't
// reach the sandbox; Podman would believe that somebody else cleans up, and forget the container
// without `delete`; and what runsc keeps of it would stay in memory for good. argv are runsc's
// arguments, rest is their tail from the command on.
func kill(runsc string, argv, rest []string, patience time.Duration) error {
	id := rest[len(rest)-2]
	if s, err := loadState(argv, id); err == nil && killProcess(s.Sandbox.Pid, sandboxName, id, endTimeout) == nil {
		return nil
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(killPause) {
		var said bytes.Buffer
		cmd := &exec.Cmd{Path: runsc, Args: argv, Stdout: os.Stdout, Stderr: &said}
		err := cmd.Run()
		if err == nil {
			return nil
		}
		var exit *exec.ExitError
		known, stopped := false, false
		if errors.As(err, &exit) {
			known, stopped = queryState(runsc, argv, rest)
		}
		switch {
		case stopped:
			return nil
		case !known || time.Now().After(deadline):
			removeStaleLock(argv, rest[len(rest)-2])
			return errors.Join(err, errors.New(strings.TrimSpace(said.String())))
		}
	}
}

// exited ends a sandbox whose conmon ends: otherwise nobody would wait for the sandbox's end, or
// find it. Mostly there is nothing to do: conmon ends because the sandbox has ended, or Podman has
// deleted it already, or the container has another sandbox, with another conmon.
func exited(runsc string, argv, rest []string, conmon int, patience time.Duration) error {
	id := rest[len(rest)-1]
	if _, err := os.Stat(stateFile(argv, id)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if s, err := loadState(argv, id); err == nil && parentOf(s.Sandbox.Pid) != conmon {
		return nil
	}
	command := []string{"kill", id, "9"}
	return kill(runsc, slices.Concat(argv[:len(argv)-len(rest)], command), command, patience)
}

// queryState asks runsc whether it knows the sandbox, and whether that is stopped.
func queryState(runsc string, argv, rest []string) (known, stopped bool) {
	id := rest[len(rest)-2]
	cmd := &exec.Cmd{Path: runsc, Args: slices.Concat(argv[:len(argv)-len(rest)], []string{"state", id})}
	out, err := cmd.Output()
	return err == nil, bytes.Contains(out, []byte(`"status": "stopped"`)) // not worth the start of a JSON parser
}

// removeStaleLock removes the lock file that runsc makes, and leaves, when it is asked about a
// sandbox that is gone. That happens when two of Podman's processes remove one container.
func removeStaleLock(argv []string, id string) {
	name := filepath.Join(stateRoot(argv), id+"_sandbox:"+id)
	if _, err := os.Stat(name + ".state"); errors.Is(err, os.ErrNotExist) {
		_ = os.Remove(name + ".lock") // mostly there is none
	}
}
