package podman_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// typedTests are an interactive program's tests.
type typedTests struct {
	graded
	typists []*typist
}

func (g *typedTests) Next(context.Context) (sandbox.Test, bool, error) {
	if len(g.got) == len(g.typists) {
		return sandbox.Test{}, false, nil
	}
	return sandbox.Test{Input: g.typists[len(g.got)]}, true, nil
}

func (g *typedTests) Stdout(p []byte) error {
	return errors.Join(g.typists[len(g.got)].Stdout(p), g.graded.Stdout(p))
}

// TestForkedTestsInteractive: a test's process gets what comes while it runs, and the end of that; signals reach its own processes alone.
func TestForkedTestsInteractive(t *testing.T) {
	t.Parallel()
	p := forking(t, "forked-interactive")
	steps := func(all ...typedIn) *typist { return newTypist(all...) }
	data := func(after, text string) typedIn { return typedIn{after, job.Input{Data: text}} }
	g := &typedTests{typists: []*typist{
		steps(data("up", "echo\n"), data("echo", "two\n"), typedIn{"<two>", job.Input{EOF: true}}),
		steps(data("up", "sleep\n"), typedIn{"asleep", job.Input{Signal: "SIGINT"}}),
		steps(data("up", "child\n"), typedIn{"ready", job.Input{Signal: "SIGUSR1"}}),
		steps(data("up", "open\n"), data("opened", "three\n")),
		steps(data("up", "leave\n"), data("left", strings.Repeat("x", 100_000))),
		steps(data("up", "echo\n"), typedIn{"echo", job.Input{EOF: true}}),
	}}
	prog := program(isForked+`
import os, signal, sys, time
print("up", flush=True)
what = input()
print(what, flush=True)
def sleep(): # in pieces: a signal between Python's look for one and the system call is seen only behind that
    while True: time.sleep(0.1)
if what == "echo":
    for line in sys.stdin: print(f"<{line.strip()}>", flush=True)
    print("end")
if what == "sleep":
    try: print("asleep", flush=True); sleep()
    except KeyboardInterrupt: print("awake")
if what == "child":
    signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"got\n") and os._exit(0)) # print may be under way
    if os.fork() == 0: sleep()
    print("child ready", flush=True)
    sleep()
if what == "open": print("opened", flush=True); print(open("/dev/stdin").readline())
if what == "leave": print("left", flush=True)
`, asJobOf(pythonRuntime(t)), limits(job.Limits{WallMS: 15_000}))
	prog.Tests, prog.ForkTests, prog.Interactive = g, true, true
	o, err := p.Run(t.Context(), prog, g)
	if err != nil || o.Lost {
		t.Fatalf("got %+v, %v, after %d tests", o, err, len(g.got))
	}
	for i, want := range []string{"up\necho\n<two>\nend\n", "up\nsleep\nasleep\nawake\n", "up\nchild\nchild ready\ngot\n", "up\nopen\nopened\nthree\n\n", "up\nleave\nleft\n", "up\necho\nend\n"} {
		if got := g.got[i]; got.Status != job.Succeeded || strings.Replace(got.stdout, "got\ngot\n", "got\n", 1) != want || got.stderr != "forked " {
			t.Errorf("test %d: got %+v, %q, %q, want %q", i+1, got.TestOutcome, got.stdout, got.stderr, want)
		}
	}
}

// TestForkedTestsBounded: each test has the limits for itself, beside what it shares.
func TestForkedTestsBounded(t *testing.T) {
	t.Parallel()
	p := forking(t, "forked-bounded")
	prog := program(isForked+`
import numpy, time
what, n = input().split()
if what == "memory": b = bytearray(int(n) << 20); b[::4096] = b"x" * len(b[::4096])
if what == "busy":
    while time.process_time() < float(n): pass
if what == "print": print("x" * int(n))
print("done")
`, asJobOf(pythonRuntime(t)), limits(job.Limits{MemoryMB: 128, CPUMS: 3_000, WallMS: 60_000, OutputKB: 64}))
	type test struct {
		input string
		want  job.Status
	}
	tests := []test{
		{"memory 90", job.Succeeded},
		{"memory 300", job.OutOfMemory},
		{"memory 90", job.Succeeded},
		{"busy 1.3", job.Succeeded},
		{"busy 1.3", job.Succeeded},
		{"busy 60", job.TimedOut},
		{"busy 1.3", job.Succeeded},
		{"print 100000", job.OutputLimitExceeded},
		{"print 10", job.Succeeded},
		{"memory 300", job.OutOfMemory},
		{"memory 90", job.Succeeded},
	}
	var inputs []string
	for _, tt := range tests {
		inputs = append(inputs, tt.input)
	}
	o, got := gradeIn(t, p, true, prog, nil, inputs...)
	if o.Lost || len(got) != len(tests) {
		t.Fatalf("got %+v after %d tests", o, len(got))
	}
	for i, tt := range tests {
		if got[i].Status != tt.want || !strings.HasPrefix(got[i].stderr, "forked ") {
			t.Errorf("%s: got %+v, %q, want %s", tt.input, got[i].TestOutcome, got[i].stderr, tt.want)
		}
	}
}
