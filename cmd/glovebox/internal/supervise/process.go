package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	pollReady   = 20 * time.Millisecond
	firstDelay  = 100 * time.Millisecond
	lastDelay   = 5 * time.Second
	healthyTime = 30 * time.Second // a child that lived this long starts again with the first delay
	// What a child leaves running may hold its output open for ever.
	outputGrace = time.Second
)

// Command is a program to keep running.
type Command struct {
	// Name of the program, for errors.
	Name string
	// Argv is the path of the program and its arguments, Env its whole environment.
	Argv, Env []string
	// Dir to start it in. Defaults to "/".
	Dir string
	// User to run it as. Defaults to our own.
	User *syscall.Credential
	// Files are its descriptors from 3 on. They stay the caller's to close.
	Files []*os.File
	// Output receives what it prints. Defaults to nowhere.
	Output io.Writer
	// Ready says whether it does its work; it is asked until it answers nil. Defaults
	// to at once.
	Ready func(context.Context) error
	// Grace is how long it may take to end after SIGTERM. Defaults to 5 s.
	Grace time.Duration
	// Restarted is told each time that it died and is started again. It must not block.
	Restarted func(why error)
}

// Process is a Command that runs.
type Process struct {
	Command
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	child   *os.Process
	started time.Time
	ended   error         // how the last child ended, while there is none
	changed chan struct{} // closed when the above change
}

// errEnded is why a child ended that said nothing was wrong.
var errEnded = errors.New("it ended by itself")

// Start starts c and keeps it running until Stop. It fails when c can't be started at
// all; whether it works is WaitReady's to say.
func Start(c Command) (*Process, error) {
	if c.Dir == "" {
		c.Dir = "/"
	}
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &Process{Command: c, stop: stop, done: make(chan struct{}), changed: make(chan struct{})}
	first := make(chan error)
	go p.keep(ctx, first)
	if err := <-first; err != nil {
		stop()
		<-p.done
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return p, nil
}

// keep runs children, one after another, until ctx ends. first is told how the first
// start went.
func (p *Process) keep(ctx context.Context, first chan<- error) {
	defer close(p.done)
	// The kernel ends a child when the thread dies that forked it, so this goroutine
	// keeps its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	delay := firstDelay
	for {
		began := time.Now()
		why := p.once(ctx, first)
		first = nil
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > healthyTime {
			delay = firstDelay
		}
		if p.Restarted != nil {
			p.Restarted(why)
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
		delay = min(2*delay, lastDelay)
	}
}

// once runs one child to its end and returns why it ended.
func (p *Process) once(ctx context.Context, first chan<- error) error {
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...) //nolint:noctx // endWith asks before it kills
	cmd.Env, cmd.Dir, cmd.ExtraFiles = p.Env, p.Dir, p.Files
	cmd.Stdout, cmd.Stderr = p.Output, p.Output
	cmd.WaitDelay = outputGrace
	// A session of its own: a child that is another user must not reach our terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: p.User}
	err := cmd.Start()
	p.set(cmd.Process, err)
	if first != nil { // after set: who is told may ask for the PID
		first <- err
	}
	if err != nil {
		return err
	}
	waited := make(chan struct{})
	var ending sync.WaitGroup
	ending.Go(func() { p.endWith(ctx, cmd.Process, waited) })
	err = cmd.Wait()
	close(waited)
	ending.Wait()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		err = errEnded
	}
	p.set(nil, err)
	return err
}

// endWith ends the child when ctx ends: SIGTERM, and after the grace SIGKILL.
func (p *Process) endWith(ctx context.Context, child *os.Process, waited <-chan struct{}) {
	select {
	case <-waited:
		return
	case <-ctx.Done():
	}
	_ = child.Signal(syscall.SIGTERM) // it may have ended meanwhile
	select {
	case <-waited:
	case <-time.After(p.Grace):
		_ = child.Kill()
	}
}

func (p *Process) set(child *os.Process, ended error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.child, p.ended = child, ended
	if child != nil {
		p.started = time.Now()
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Process) state() (child *os.Process, changed <-chan struct{}, ended error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child, p.changed, p.ended
}

// WaitReady returns nil once Ready answers nil, and an error when the child ends before
// that or ctx ends.
func (p *Process) WaitReady(ctx context.Context) error {
	tick := time.NewTicker(pollReady)
	defer tick.Stop()
	var last error
	for {
		child, changed, ended := p.state()
		if child == nil && ended != nil {
			return fmt.Errorf("%s ended before it was ready: %w", p.Name, ended)
		}
		if child != nil {
			if p.Ready == nil {
				return nil
			}
			if last = p.Ready(ctx); last == nil {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (%w)", p.Name, context.Cause(ctx), last)
		}
	}
}

// PID of the child, 0 while there is none.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil {
		return 0
	}
	return p.child.Pid
}

// Started is when the child that runs was started.
func (p *Process) Started() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

// Stop ends the child, with SIGKILL where the grace is not enough, and returns when it
// is gone.
func (p *Process) Stop() {
	p.stop()
	<-p.done
}
