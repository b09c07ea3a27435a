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
	// A busy host takes seconds to end a sandbox with some hundred processes, and for as
	// long nobody listens and runsc calls it running.
	killPatience = 20 * time.Second
	killPause    = 20 * time.Millisecond
)

// isKill reports whether a command with its arguments is `kill <id> 9`.
func isKill(rest []string) bool {
	return len(rest) > 2 && rest[0] == "kill" && slices.Contains([]string{"9", "KILL", "SIGKILL"}, rest[len(rest)-1])
}

// kill ends the sandbox's process, where that is the one that runsc has noted, which takes all that runs in it
// along, as runsc's own delete does it. Otherwise it is
// runsc's, but that a sandbox which ends by itself at that moment counts as
// killed. runsc then says that it can't reach it, Podman believes that somebody
// else cleans up, and forgets the container without `delete`: what runsc keeps of it
// would stay in memory for good. argv are runsc's arguments, rest is their tail from
// the command on.
func kill(runsc string, argv, rest []string, patience time.Duration) error {
	id := rest[len(rest)-2]
	if s, err := loadState(argv, id); err == nil && killProcess(s.Sandbox.Pid, sandboxName, id, endPatience) == nil {
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

// exited ends a sandbox whose conmon ends: nobody would wait for its end any more, nor
// find it. Mostly it has ended, which is why conmon does, or Podman has deleted it already, or
// the container has got another one, which is another conmon's.
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

// queryState reports whether runsc knows the sandbox, and whether it says that nothing of it
// runs.
func queryState(runsc string, argv, rest []string) (known, stopped bool) {
	id := rest[len(rest)-2]
	cmd := &exec.Cmd{Path: runsc, Args: slices.Concat(argv[:len(argv)-len(rest)], []string{"state", id})}
	out, err := cmd.Output()
	return err == nil, bytes.Contains(out, []byte(`"status": "stopped"`)) // not worth the start of a JSON parser
}

// removeStaleLock removes the lock file that runsc makes anew, and leaves, when it is asked about a
// sandbox that is gone: two of Podman's processes that remove one container do that.
func removeStaleLock(argv []string, id string) {
	name := filepath.Join(stateRoot(argv), id+"_sandbox:"+id)
	if _, err := os.Stat(name + ".state"); errors.Is(err, os.ErrNotExist) {
		_ = os.Remove(name + ".lock") // mostly there is none
	}
}
