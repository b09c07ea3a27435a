package supervise

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is a writer that can be waited on.
type output struct{ gbtest.Buffer }

func (o *output) has(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(gbtest.Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(o.String(), want) {
			return
		}
	}
	t.Fatalf("got %q, want %q in it", o.String(), want)
}

func sh(script string, out *output) Command {
	return Command{Name: "sh", Argv: []string{"/bin/sh", "-c", script}, Output: out}
}

func TestStopAsksFirst(t *testing.T) {
	t.Parallel()
	var out output
	seen := filepath.Join(t.TempDir(), "seen")
	c := sh("trap 'echo asked; while [ ! -e "+seen+" ]; do sleep 0.01; done; exit 0' TERM; echo up; while :; do sleep 0.01; done", &out)
	c.Grace = gbtest.Patience
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	out.has(t, "up")
	stopped := make(chan struct{})
	go func() { p.Stop(); close(stopped) }()
	out.has(t, "asked") // before it ends: what a child printed last may be lost
	if err := os.WriteFile(seen, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-stopped
}

func TestStopForces(t *testing.T) {
	t.Parallel()
	var out output
	c := sh("trap '' TERM; echo up; while :; do sleep 0.01; done", &out)
	c.Grace = 50 * time.Millisecond
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	out.has(t, "up")
	pid := p.PID()
	p.Stop()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the child after Stop: got %v, want it gone", err)
	}
}

// TestStartTells: once Start returns, there is a child to be told of. A signal to PID 0
// would be one to the caller's own group.
func TestStartTells(t *testing.T) {
	t.Parallel()
	for range 50 {
		p, err := Start(Command{Name: "sleep", Argv: []string{"/bin/sleep", "60"}})
		if err != nil {
			t.Fatal(err)
		}
		pid := p.PID()
		p.Stop()
		if pid == 0 {
			t.Fatal("it has no PID")
		}
	}
}

func TestStartsAgain(t *testing.T) {
	t.Parallel()
	died := make(chan error, 1)
	c := Command{Name: "sleep", Argv: []string{"/bin/sleep", "60"}, Restarted: func(why error) { died <- why }}
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := p.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := p.PID()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if why := <-died; why == nil || !strings.Contains(why.Error(), "killed") {
		t.Errorf("why it died: got %v, want the signal", why)
	}
	for deadline := time.Now().Add(gbtest.Patience); p.PID() == 0 || p.PID() == first; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it was not started again")
		}
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ready")
	c := sh("sleep 0.1; touch "+file+"; sleep 60", &output{})
	c.Ready = func(context.Context) error { _, err := os.Stat(file); return err }
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := p.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestNeverReady(t *testing.T) {
	t.Parallel()
	never := func(context.Context) error { return errors.New("not yet") }
	dies := sh("exit 7", &output{})
	dies.Ready = never
	p, err := Start(dies)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := p.WaitReady(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("a child that dies: got %v, want its exit status", err)
	}

	hangs := sh("sleep 60", &output{})
	hangs.Ready = never
	q, err := Start(hangs)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := q.WaitReady(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("a child that hangs: got %v, want the deadline and why", err)
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	if _, err := Start(Command{Name: "nothing", Argv: []string{"/does/not/exist"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that it does not exist", err)
	}
}

// A child that runs something in the background, which keeps the output open, has
// ended all the same.
func TestOutputHeldOpen(t *testing.T) {
	t.Parallel()
	var out output
	p, err := Start(sh("sleep 100 & echo child $!; sleep 100", &out))
	if err != nil {
		t.Fatal(err)
	}
	out.has(t, "\n")
	began := time.Now()
	p.Stop()
	if d := time.Since(began); d > gbtest.AtOnce {
		t.Errorf("Stop took %s", d)
	}
	left, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(out.String(), "child")))
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(left, syscall.SIGKILL)
}
