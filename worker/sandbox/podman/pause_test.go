package podman_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// pausedSteps are a session's turns, with a pause before each but the first.
type pausedSteps struct {
	steps
	tb      testing.TB
	pausing bool
	pauses  int
	resumes int
}

func (s *pausedSteps) Next(ctx context.Context) (sandbox.Turn, bool, error) {
	if len(s.done) > 0 && !s.pausing {
		s.pausing = true
		return sandbox.Turn{Pause: true}, true, nil
	}
	s.pausing = false
	return s.steps.Next(ctx)
}

func (s *pausedSteps) Paused(bytes int64, took time.Duration) {
	s.pauses++
	s.tb.Logf("paused: %.1f MiB in %v", float64(bytes)/(1<<20), took)
}

func (s *pausedSteps) Stayed(why error) { s.tb.Errorf("no pause: %v", why) }

func (s *pausedSteps) Resumed(took time.Duration) {
	s.resumes++
	s.tb.Logf("resumed in %v", took)
}

// withPauses is a Podman whose sessions can be paused.
func withPauses(tb testing.TB, worker string, bytes int64) *podman.Sandboxes {
	tb.Helper()
	open(tb)
	p, err := podman.Open(tb.Context(), podman.Config{
		Socket: suite.socket, Agent: agentPath(), Instance: instance, Worker: worker, PauseDir: tb.TempDir(), PauseBytes: bytes,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// TestPause: a session that was paused goes on as if nothing had been.
func TestPause(t *testing.T) {
	for runtime, c := range map[string]struct {
		todo []step
		want []want
	}{
		"python": {
			[]step{
				{code: `import numpy, os, socket, subprocess, threading, time
a = numpy.arange(1000000)
f = open('kept.txt', 'w+'); f.write('one'); f.flush()
open('/tmp/there', 'w').write('tmp')
near, far = socket.socketpair(); near.send(b'sent')
child = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
ticks = []
def tick():
    while True:
        ticks.append(time.monotonic()); time.sleep(0.01)
threading.Thread(target=tick, daemon=True).start()
began, real = time.monotonic(), time.time()`},
				{code: "int(a.sum()), f.tell(), open('/tmp/there').read(), far.recv(9), time.monotonic() - began < 600, 0 <= time.time() - real < 600"},
				{code: "child.communicate(b'through')[0], child.returncode"},
				{code: "print('begun', flush=True)\nwhile True: pass", interruptAt: "begun"},
				{code: "n = len(ticks)\nwhile len(ticks) == n: time.sleep(0.01)\nTrue"},
				{code: "while True: pass", wall: time.Second},
				{code: "open('kept.txt').read()"},
			},
			[]want{
				{},
				{stdout: "(499999500000, 3, 'tmp', b'sent', True, True)\n"},
				{stdout: "(b'through', 0)\n"},
				{stdout: "begun\n", status: job.Canceled, code: 130, stderr: "KeyboardInterrupt"},
				{stdout: "True\n"},
				{status: job.TimedOut, code: 124, stderr: "Execution timed out"},
				{stdout: "'one'\n"},
			},
		},
		"node": {
			[]step{
				{code: "const m = new Map([['a', 1]]); let n = 1; const later = new Promise(r => setTimeout(() => r(7), 50))"},
				{code: "n + m.get('a')"},
				{code: "await later"},
				{code: "console.log('begun'); while (true) {}", interruptAt: "begun"},
				{code: "n + 41"},
			},
			[]want{{}, {stdout: "2\n"}, {stdout: "7\n"}, {stdout: "begun\n", status: job.Canceled, code: 130}, {stdout: "42\n"}},
		},
	} {
		t.Run(runtime, func(t *testing.T) {
			p := withPauses(t, "pause-"+runtime, 4<<30)
			program := sessionOf(t, runtime)
			s := &pausedSteps{steps: steps{todo: c.todo}, tb: t}
			program.Turns = s
			var outside kept
			o, err := p.Run(t.Context(), program, &outside)
			if err != nil || o.Lost {
				t.Fatalf("lost %v, %v, after %d turns", o.Lost, err, len(s.done))
			}
			check(t, s.done, c.want...)
			if n := len(c.todo); s.pauses != n || s.resumes != n-1 {
				t.Errorf("%d pauses and %d resumes, want %d and %d", s.pauses, s.resumes, n, n-1)
			}
		})
	}
}

// longPause is a session that is paused for a while.
type longPause struct {
	pausedSteps
	length time.Duration
}

func (s *longPause) Next(ctx context.Context) (sandbox.Turn, bool, error) {
	if s.pausing {
		time.Sleep(s.length)
	}
	return s.pausedSteps.Next(ctx)
}

// TestPauseClocks: the program's clocks tell the time that has passed, as they do where a session waits in memory; its CPU time stands still, and what it draws is new.
func TestPauseClocks(t *testing.T) {
	t.Parallel()
	p := withPauses(t, "pause-clocks", 4<<30)
	const code = `import time, os, random
clocks = ['REALTIME', 'MONOTONIC', 'MONOTONIC_RAW', 'PROCESS_CPUTIME_ID']
now = [time.clock_gettime(getattr(time, 'CLOCK_' + c)) for c in clocks]
passed = [b - a for a, b in zip(globals().get('was', now), now)]
was = now; drawn = globals().get('drawn', []) + [os.urandom(8), random.random()]`
	s := &longPause{pausedSteps{steps: steps{todo: []step{{code: code}, {code: code}, {code: "[x > 5 for x in passed], max(passed) - min(passed[:3]) < 600, len(set(drawn))"}}}, tb: t}, 5 * time.Second}
	program := sessionOf(t, "python")
	program.Turns = s
	began := time.Now()
	var outside kept
	if o, err := p.Run(t.Context(), program, &outside); err != nil || o.Lost {
		t.Fatalf("lost %v, %v, after %d turns", o.Lost, err, len(s.done))
	}
	t.Logf("%v in all", time.Since(began))
	check(t, s.done, want{}, want{}, want{stdout: "([True, True, True, False], True, 4)\n"})
}

// refusing is a session that may not be paused, as it takes too much of the disk.
type refusing struct {
	pausedSteps
	why []error
}

func (s *refusing) Stayed(why error) { s.why = append(s.why, why) }

// TestPauseTooLarge: a session that takes more of the disk than there is stays in memory, as it was, and takes nothing of the disk.
func TestPauseTooLarge(t *testing.T) {
	t.Parallel()
	const disk = 24 << 20
	p := withPauses(t, "pause-large", disk)
	program := sessionOf(t, "python")
	s := &refusing{pausedSteps: pausedSteps{steps: steps{todo: []step{
		{code: "import os; x = os.urandom(40 << 20); n = hash(x)"}, {code: "hash(x) == n"}, {code: "import threading; t = threading.Thread(target=print, args=('on',)); t.start(); t.join()"}, {code: "del x"}, {code: "n == n"},
	}}, tb: t}}
	program.Turns = s
	var outside kept
	if o, err := p.Run(t.Context(), program, &outside); err != nil || o.Lost {
		t.Fatalf("lost %v, %v, after %d turns", o.Lost, err, len(s.done))
	}
	check(t, s.done, want{}, want{stdout: "True\n"}, want{stdout: "on\n"}, want{}, want{stdout: "True\n"})
	for _, why := range s.why {
		if !strings.Contains(why.Error(), "all of the disk") {
			t.Errorf("no pause: %v", why)
		}
	}
	if len(s.why) != 3 || s.pauses != 2 || s.resumes != 1 {
		t.Errorf("%d refused, %d pauses, %d resumes, want 3, 2 and 1", len(s.why), s.pauses, s.resumes)
	}
	if left := p.PauseBytesLeft(); left != disk {
		t.Errorf("%d bytes of the disk are left, want %d", left, disk)
	}
}

// wanted is a session that is wanted as soon as it is to be paused.
type wanted struct{ refusing }

func (s *wanted) Next(ctx context.Context) (sandbox.Turn, bool, error) {
	t, ok, err := s.refusing.Next(ctx)
	if t.Pause {
		now := make(chan struct{})
		close(now)
		t.Interrupt = now
	}
	return t, ok, err
}

// TestPauseInterrupted: a session that is wanted while it is written to the disk goes on in its sandbox.
func TestPauseInterrupted(t *testing.T) {
	t.Parallel()
	p := withPauses(t, "pause-interrupted", 1<<30)
	program := sessionOf(t, "python")
	s := &wanted{refusing{pausedSteps: pausedSteps{steps: steps{todo: []step{
		{code: "import os; x = os.urandom(40 << 20); x += x; n = hash(x)"}, {code: "hash(x) == n"}, {code: "hash(x) == n"},
	}}, tb: t}}}
	program.Turns = s
	var outside kept
	if o, err := p.Run(t.Context(), program, &outside); err != nil || o.Lost {
		t.Fatalf("lost %v, %v, after %d turns", o.Lost, err, len(s.done))
	}
	check(t, s.done, want{}, want{stdout: "True\n"}, want{stdout: "True\n"})
	for _, why := range s.why {
		if !errors.Is(why, sandbox.ErrWanted) {
			t.Errorf("no pause: %v", why)
		}
	}
	if len(s.why) != 3 || s.pauses != 0 {
		t.Errorf("%d interrupted, %d pauses, want 3 and 0", len(s.why), s.pauses)
	}
	if left := p.PauseBytesLeft(); left != 1<<30 {
		t.Errorf("%d bytes of the disk are left", left)
	}
}
