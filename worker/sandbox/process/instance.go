package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox/internal/session"
)

// insideID is the one user of a sandbox, inside: the worker's own, outside.
const insideID = 1000

// namespaces are a sandbox's own.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// rights are what the agent needs to make the sandbox. It keeps only the last one.
var rights = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}

// instance is a sandbox that was started, for one program.
type instance struct {
	session *session.Session
	agent   *exec.Cmd
	kill    func()
	ended   chan struct{} // closed when the agent, and so all of the sandbox, is gone
}

// start starts a sandbox. The caller closes it.
func (s *Sandboxes) start(began time.Time, l job.Limits) (*instance, error) {
	ours, theirs, err := pipes()
	if err != nil {
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	// Nothing but limits is said here, and nothing of the worker's environment passes.
	cmd := exec.Command(s.config.Agent, "--isolation=process", fmt.Sprintf("--disk-mb=%d", l.DiskMB), fmt.Sprintf("--shm-mb=%d", l.MemoryMB)) //nolint:noctx // it outlives the context for a moment
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Cloneflags: namespaces, AmbientCaps: rights,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: insideID, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: insideID, HostID: os.Getegid(), Size: 1}},
	}
	err = cmd.Start()
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("start sandbox: make namespaces: %w", err)
	}
	i := &instance{agent: cmd, ended: make(chan struct{})}
	i.kill = sync.OnceFunc(func() { _ = cmd.Process.Kill() }) // it may have ended
	go func() {
		defer close(i.ended)
		_ = cmd.Wait() // how it ended says nothing that its last frame doesn't
	}()
	i.session = session.New(began, ours)
	i.session.Kernel = s.kernel
	i.session.Outcome.LimitsEnforced, i.session.Outcome.Isolation = "soft", job.Process
	i.session.Outcome.Timing.Created = time.Since(began)
	i.session.Outcome.Timing.Running = i.session.Outcome.Timing.Created
	return i, nil
}

// pipes are the sandbox's standard streams.
func pipes() (ours session.Pipes, theirs [3]*os.File, err error) {
	var all []*os.File
	for range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			for _, f := range all {
				f.Close()
			}
			return ours, theirs, err
		}
		all = append(all, r, w)
	}
	return session.Pipes{Stdin: all[1], Stdout: all[2], Stderr: all[4]}, [3]*os.File{all[0], all[3], all[5]}, nil
}

// awaitReady waits for the agent's first word.
func (i *instance) awaitReady(ctx context.Context, timeout time.Duration) error {
	err := i.session.AwaitReady(ctx, timeout)
	if said := i.session.Stderr(); err != nil && said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// close ends the sandbox with all that runs in it, and waits until it is gone.
func (i *instance) close() {
	i.kill()
	<-i.ended
	i.session.Close()
}
