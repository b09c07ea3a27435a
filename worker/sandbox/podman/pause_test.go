package podman_test

import (
	"context"
	"log/slog"
	"os"
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
				{code: "int(a.sum()), f.tell(), open('/tmp/there').read(), far.recv(9), time.monotonic() - began < 60, 0 <= time.time() - real < 60"},
				{code: "child.communicate(b'through')[0], child.returncode"},
				{code: "print('begun', flush=True)\nwhile True: pass", interruptAt: "begun"},
				{code: "n = len(ticks); time.sleep(0.2); len(ticks) > n"},
				{code: "while True: pass", wall: time.Second},
				{code: "open('kept.txt').read()"},
			},
			[]want{
				{}, {stdout: "(499999500000, 3, 'tmp', b'sent', True, True)\n"}, {stdout: "(b'through', 0)\n"},
				{stdout: "begun\n", status: job.Canceled, code: 130, stderr: "KeyboardInterrupt"}, {stdout: "True\n"},
				{status: job.TimedOut, code: 124, stderr: "Execution timed out"}, {stdout: "'one'\n"},
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
