package podman_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// step is one turn of a session.
type step struct {
	code  string
	files []sandbox.File
	wall  time.Duration // defaults to a minute
	// interruptAt is what the turn prints before it is interrupted; "": it isn't.
	interruptAt string
	// restartAt is what it prints before its interpreter is ended; "": it isn't.
	restartAt string
	on        func() // called when it prints
	in        sandbox.Context
	beside    map[string]int
	anew      bool
}

// turned is what became of a step.
type turned struct {
	sandbox.TurnOutcome
	*turnSink
}

// turnSink keeps what a turn makes, and interrupts it when it has printed what it is to print first.
type turnSink struct {
	kept
	interruptAt string
	interrupt   chan struct{}
	restartAt   string
	restart     chan struct{}
	on          func()
	count       int64 // bytes of stdout
	shown       bytes.Buffer
}

func (k *turnSink) Stdout(p []byte) error {
	if k.on != nil {
		k.on()
		k.on = nil
	}
	if k.count += int64(len(p)); k.count > 1<<20 {
		return nil
	}
	k.stdout.Write(p)
	if k.interruptAt != "" && bytes.Contains(k.stdout.Bytes(), []byte(k.interruptAt)) {
		k.interruptAt = ""
		close(k.interrupt)
	}
	if k.restartAt != "" && bytes.Contains(k.stdout.Bytes(), []byte(k.restartAt)) {
		k.restartAt = ""
		close(k.restart)
	}
	return nil
}

// steps are a session's turns.
type steps struct {
	todo    []step
	current *turnSink
	done    []turned
}

func (s *steps) Next(context.Context) (sandbox.Turn, bool, error) {
	if len(s.done) == len(s.todo) {
		return sandbox.Turn{}, false, nil
	}
	t := s.todo[len(s.done)]
	if t.wall == 0 {
		t.wall = time.Minute
	}
	s.current = &turnSink{kept: kept{keepBytes: true}, interruptAt: t.interruptAt, restartAt: t.restartAt, on: t.on, interrupt: make(chan struct{}), restart: make(chan struct{})}
	return sandbox.Turn{
		Files: t.files, Code: []byte(t.code), Wall: t.wall, Interrupt: s.current.interrupt, Restart: s.current.restart, Context: t.in, Contexts: t.beside, Anew: t.anew, Sink: s.current,
	}, true, nil
}

func (s *steps) Ended(_ context.Context, o sandbox.TurnOutcome) error {
	s.done = append(s.done, turned{o, s.current})
	return nil
}

// sessionOf is a session of the runtime with the default limits.
func sessionOf(tb testing.TB, name string) sandbox.Program {
	tb.Helper()
	set, err := runtimes.Embedded()
	if err != nil {
		tb.Fatal(err)
	}
	r, ok := set.Lookup(name)
	if !ok || r.Session == nil {
		tb.Fatalf("there is no runtime %s that has sessions", name)
	}
	return sandbox.Program{
		JobID: "test", Epoch: 1, Image: r.Image(), Command: r.Session, Env: r.Env, Limits: ample.Filled(r.Limits),
		Interpreter: &sandbox.File{Name: r.File, Content: r.SessionCode},
	}
}

// turns has the steps executed in one session, in a sandbox of its own.
func turns(tb testing.TB, p sandbox.Program, todo ...step) []turned {
	tb.Helper()
	done, _ := turnsIn(tb, open(tb), p, todo...)
	return done
}

func turnsIn(tb testing.TB, sandboxes *podman.Sandboxes, p sandbox.Program, todo ...step) ([]turned, sandbox.Outcome) {
	tb.Helper()
	s := &steps{todo: todo}
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	defer cancel()
	p.Turns = s
	var outside kept
	o, err := sandboxes.Run(ctx, p, &outside)
	if err != nil || o.Lost {
		tb.Fatalf("lost %v, %v, after %d turns; %s", o.Lost, err, len(s.done), outside.stderr.String())
	}
	if len(s.done) != len(todo) {
		tb.Fatalf("%d turns have ended, want %d", len(s.done), len(todo))
	}
	return s.done, o
}

// want is what a step comes to.
type want struct {
	stdout string
	status job.Status
	code   int
	stderr string // a part of it
	lost   bool
	// others are the other contexts that were lost, each with a space before it.
	others string
}

func check(tb testing.TB, got []turned, wanted ...want) {
	tb.Helper()
	for i, w := range wanted {
		g := got[i]
		if w.status == "" {
			w.status = job.Succeeded
		}
		others := ""
		for _, name := range g.LostContexts {
			others += " " + name
		}
		if others != w.others {
			tb.Errorf("turn %d: lost the contexts %q, want %q", i+1, others, w.others)
		}
		if g.stdout.String() != w.stdout || g.Status != w.status || g.ExitCode != w.code || g.StateLost != w.lost || !strings.Contains(g.stderr.String(), w.stderr) {
			tb.Errorf("turn %d: %s, exit code %d, lost %v, stdout %q, stderr %q; want %+v", i+1, g.Status, g.ExitCode, g.StateLost, g.stdout.String(), g.stderr.String(), w)
		}
	}
}
