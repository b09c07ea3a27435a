package gbtest

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a server or worker that a test starts, kills and starts again.
type Process struct {
	tb    testing.TB
	argv  []string
	env   []string
	ready func() bool

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
	out  *Buffer
}

// Patience is for how long a test waits for what has to happen. It is no promise of ours, so no busy
// machine is to come near it: only what never happens takes as long.
const Patience = 6 * time.Minute

// lastLines is how many lines LastWords has.
const lastLines = 8

// Start runs argv with env added to a bare environment, waits until ready says so
// (for Patience at most: a machine may be busy), and kills it when the test ends.
func Start(tb testing.TB, argv, env []string, ready func() bool) *Process {
	tb.Helper()
	p := &Process{tb: tb, argv: argv, env: env, ready: ready, out: &Buffer{}}
	p.Restart()
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("output of %s:\n%s", argv[0], p.Output())
		}
	})
	return p
}

// Restart starts the process again, after Kill or Stop.
func (p *Process) Restart() {
	p.tb.Helper()
	p.mu.Lock()
	p.cmd = exec.Command(p.argv[0], p.argv[1:]...) //nolint:noctx // it outlives tb.Context, which ends before clean-ups run
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LANG=C.UTF-8"}, p.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	// A test that is killed must not leave its servers behind.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	done := make(chan struct{})
	p.done = done
	cmd := p.cmd
	p.mu.Unlock()
	started := make(chan error, 1)
	go func() {
		// Pdeathsig follows the thread that forked, so this goroutine keeps it.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is the test's business, through Alive and LastWords
		}
		close(done)
	}()
	if err := <-started; err != nil {
		p.tb.Fatalf("start %s: %v", p.argv[0], err)
	}
	if p.ready == nil {
		return
	}
	for deadline := time.Now().Add(Patience); !p.ready(); time.Sleep(50 * time.Millisecond) {
		if !p.Alive() || time.Now().After(deadline) {
			p.tb.Fatalf("%s did not become ready; its output:\n%s", p.argv[0], p.Output())
		}
	}
}

// Setenv changes the environment that the process has from its next start on.
func (p *Process) Setenv(name, value string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.env = append(slices.Clip(p.env), name+"="+value) // the last one counts
}

// Kill is kill -9, and waits until the process is gone.
func (p *Process) Kill() { p.Signal(syscall.SIGKILL); <-p.doneChan() }

// Stop sends SIGTERM and waits, for 2 minutes at most.
func (p *Process) Stop() {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.doneChan():
	case <-time.After(Patience):
		p.tb.Errorf("%s did not end within %s of SIGTERM; its output:\n%s", p.argv[0], Patience, p.Output())
		p.Kill()
	}
}

// Signal sends sig to the process and its children, unless it has ended: another may have its number by now.
func (p *Process) Signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return
	default:
	}
	if p.cmd != nil && p.cmd.Process != nil {
		// The whole group: rootless podman does its work in a child. It may have ended by itself.
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// PID of the running process.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Alive reports whether the process runs.
func (p *Process) Alive() bool {
	select {
	case <-p.doneChan():
		return false
	default:
		return true
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.doneChan() }

func (p *Process) doneChan() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// LastWords says how a process that has ended did so, and what it printed last.
func (p *Process) LastWords() string {
	<-p.doneChan()
	p.mu.Lock()
	state := p.cmd.ProcessState
	p.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(p.Output()), "\n")
	return state.String() + ":\n" + strings.Join(lines[max(0, len(lines)-lastLines):], "\n")
}

// Output is what the process printed so far, over all its starts.
func (p *Process) Output() string { return p.out.String() }

// Printed reports whether the process printed s.
func (p *Process) Printed(s string) bool { return strings.Contains(p.Output(), s) }
