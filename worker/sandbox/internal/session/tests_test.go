package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// twoTests are a program's.
type twoTests struct {
	discard
	given int
	ended []sandbox.TestOutcome
}

// running reports whether a test was given that has not ended.
func (g *twoTests) running() bool { return g.given > len(g.ended) }

func (g *twoTests) Next(context.Context) (sandbox.Test, bool, error) {
	if g.given == 2 {
		return sandbox.Test{}, false, nil
	}
	g.given++
	return sandbox.Test{Stdin: sandbox.File{Content: []byte("in")}}, true, nil
}

func (g *twoTests) Ended(_ context.Context, o sandbox.TestOutcome) error {
	g.ended = append(g.ended, o)
	return nil
}

// test is a run as an agent tells of it, from where it asks for the test on.
func (r *rogue) test(code int, frames ...func()) {
	r.send(agentwire.TypeCleared, nil)
	<-r.tests
	r.send(agentwire.TypeStarted, agentwire.Started{})
	for _, send := range frames {
		send()
	}
	r.send(agentwire.TypeExit, agentwire.Exit{Cause: agentwire.Exited, ExitCode: code})
}

// TestRogueAgentOfTests: an agent that was taken over ends its own session, and no test comes to what it
// did not come to by the rules. Each waits until the program is there, as else it is out of order at once.
func TestRogueAgentOfTests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		act   func(*rogue)
		err   error
		ended int
		want  job.Status
		lost  bool
		// silent: it may be the sandbox that hangs
		silent bool
	}{
		{name: "good", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0)
			r.test(3)
			r.send(agentwire.TypeCleared, nil)
			<-r.done
			r.send(agentwire.TypeEnd, agentwire.End{})
		}, ended: 2, want: job.Succeeded},
		{name: "prints as much as it may in each", act: func(r *rogue) {
			r.ready()
			<-r.told
			full := func() { r.print(agentwire.TypeStdout, strings.Repeat("x", 1024)) }
			r.test(0, full)
			r.test(0, full)
			r.send(agentwire.TypeCleared, nil)
			<-r.done
			r.send(agentwire.TypeEnd, agentwire.End{})
		}, ended: 2, want: job.Succeeded},
		{name: "prints more", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0, func() { r.send(agentwire.TypeStdout, strings.Repeat("x", 1025)) })
		}, err: agentwire.ErrProtocol},
		{name: "complains more", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0, func() { r.send(agentwire.TypeStderr, strings.Repeat("x", 64<<10)) }, func() { r.send(agentwire.TypeStderr, "x") })
		}, err: agentwire.ErrProtocol},
		{name: "starts by itself", act: func(r *rogue) { r.ready(); <-r.told; r.test(0); r.send(agentwire.TypeStarted, agentwire.Started{}) }, err: agentwire.ErrProtocol},
		{name: "exits twice", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0)
			r.send(agentwire.TypeExit, agentwire.Exit{Cause: agentwire.Exited})
		}, err: agentwire.ErrProtocol},
		{name: "sends a file", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0)
			r.send(agentwire.TypeArtifactBegin, agentwire.ArtifactBegin{Name: "a"})
		}, err: agentwire.ErrProtocol},
		{name: "ends before the first", act: func(r *rogue) { r.ready(); <-r.told; r.send(agentwire.TypeEnd, agentwire.End{}) }, err: agentwire.ErrProtocol},
		{name: "ends when it has asked for a test", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0)
			r.send(agentwire.TypeCleared, nil)
			<-r.tests
			r.send(agentwire.TypeEnd, agentwire.End{})
		}, err: agentwire.ErrProtocol},
		{name: "asks twice", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0)
			r.send(agentwire.TypeCleared, nil)
			r.send(agentwire.TypeCleared, nil)
		}, err: agentwire.ErrProtocol},
		{name: "can't clear up", act: func(r *rogue) { r.ready(); <-r.told; r.test(3); r.send(agentwire.TypeEnd, agentwire.End{}) }, ended: 1, want: job.Succeeded, lost: true},
		{name: "can't clear up after the last", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0)
			r.test(3)
			r.send(agentwire.TypeEnd, agentwire.End{})
		}, ended: 2, want: job.Succeeded, lost: true},
		{name: "clears up for ever", act: func(r *rogue) { r.ready(); <-r.told; r.test(0) }, ended: 1, want: job.Succeeded, lost: true, silent: true},
		{name: "clears up for ever after the last", act: func(r *rogue) { r.ready(); <-r.told; r.test(0); r.test(3) }, ended: 2, want: job.Succeeded, lost: true, silent: true},
		{name: "never asks for the first", act: func(r *rogue) { r.ready(); <-r.told }, err: errOverdue},
		{name: "goes after the last", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0)
			r.test(3)
			r.send(agentwire.TypeCleared, nil)
			<-r.done
			r.conn.Close()
		}, ended: 2, want: job.Succeeded, lost: true},
		{name: "never ends", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0)
			r.test(3)
			r.send(agentwire.TypeCleared, nil)
			<-r.done
		}, ended: 2, want: job.Succeeded, lost: true},
		{name: "goes on after the last", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0)
			r.test(3)
			r.send(agentwire.TypeCleared, nil)
			<-r.done
			r.send(agentwire.TypeStarted, agentwire.Started{})
		}, err: agentwire.ErrProtocol, ended: 2},
		{name: "goes", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0)
			r.send(agentwire.TypeCleared, nil)
			<-r.tests
			r.conn.Close()
		}, err: ErrNoEnd, ended: 1},
		{name: "never starts the second", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0)
			r.send(agentwire.TypeCleared, nil)
			<-r.tests
		}, ended: 1, lost: true, silent: true},
		{name: "never ends the second", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.test(0)
			r.send(agentwire.TypeCleared, nil)
			<-r.tests
			r.send(agentwire.TypeStarted, agentwire.Started{})
		}, ended: 1, want: job.TimedOut, lost: true, silent: true},
		{name: "refuses", act: func(r *rogue) {
			r.ready()
			<-r.told
			r.send(agentwire.TypeRefused, agentwire.Refused{Message: "no room"})
			r.send(agentwire.TypeEnd, agentwire.End{})
		}, want: job.CompileFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := &twoTests{}
				limits := job.Limits{WallMS: 1000, OutputKB: 1}.Filled(job.Limits{})
				s, err := serve(t, Task{Program: sandbox.Program{Command: []string{"x"}, Limits: limits, Tests: g}, Sink: g}, nil, &rogue{act: tt.act})
				if tt.err == nil != (err == nil) || tt.err != nil && !errors.Is(err, tt.err) {
					t.Fatalf("got %v, want %v", err, tt.err)
				}
				if o := s.Outcome; len(g.ended) < tt.ended || tt.err == nil && (o.Status != tt.want || o.Lost != tt.lost || o.Silent != tt.silent || len(g.ended) != tt.ended) {
					t.Errorf("got %+v after %d tests, want %s after %d", o, len(g.ended), tt.want, tt.ended)
				}
				if begun := s.Outcome.Status == job.TimedOut; tt.lost && g.running() != (begun || tt.want == "") {
					t.Errorf("lost after %d of %d tests with %s", len(g.ended), g.given, s.Outcome.Status)
				}
				if tt.want == job.CompileFailed && g.given > 0 {
					t.Errorf("%d tests were given before the program was refused", g.given)
				}
				if tt.name == "good" && (g.ended[0].Status != job.Succeeded || g.ended[1] != sandbox.TestOutcome{Status: job.Failed, ExitCode: 3}) {
					t.Errorf("got %+v", g.ended)
				}
			})
		})
	}
}

// TestLostInATest: what a sandbox was killed for is the outcome of the test that it was killed in.
func TestLostInATest(t *testing.T) {
	t.Parallel()
	s := &Session{task: Task{Program: sandbox.Program{Tests: &twoTests{}}}, testBegan: time.Now()}
	if o := s.OutOfMemory(5); !o.Lost || o.Status != job.OutOfMemory || o.Usage.MemoryPeakBytes != 5 || o.Usage.WallMS > 60_000 {
		t.Errorf("got %+v", o)
	}
	s.layingOut = true
	s.setTest("")
	if o := s.OutOfMemory(5); !o.Lost || o.Status != "" {
		t.Errorf("before it has begun: got %+v, want a test that is charged with nothing", o)
	}
}
