package podman_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// interruptions are turns of which two in three are interrupted at some moment of their first milliseconds.
type interruptions struct {
	code  string
	read  string // prints x
	most  int
	sinks []*turnSink
	done  []sandbox.TurnOutcome
}

func (s *interruptions) Next(context.Context) (sandbox.Turn, bool, error) {
	n := len(s.done)
	if n == s.most {
		return sandbox.Turn{}, false, nil
	}
	s.sinks = append(s.sinks, &turnSink{kept: kept{keepBytes: true}})
	turn := sandbox.Turn{Code: []byte(s.read), Wall: time.Minute, Sink: s.sinks[n]}
	switch {
	case n == 1:
		turn.Code = []byte("x=7")
	case n%3 != 1:
		at := make(chan struct{})
		turn.Code, turn.Interrupt = []byte(s.code), at
		time.AfterFunc(rand.N(4*time.Millisecond), func() { close(at) })
	}
	return turn, true, nil
}

func (s *interruptions) Ended(_ context.Context, o sandbox.TurnOutcome) error {
	s.done = append(s.done, o)
	return nil
}

// TestInterruptsAtAnyTime: an interrupt costs no state, also where it comes before the code has begun, or as its first part ends.
func TestInterruptsAtAnyTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ runtime, code string }{
		"node, computes":           {"node", "while (true) {}"},
		"node, waits":              {"node", "await new Promise(() => {})"},
		"node, shows and computes": {"node", "display([1]); while (true) {}"},
		"node, prints":             {"node", "for (;;) console.log('a line')"},
		"node, shows and waits":    {"node", "display([1]); await new Promise(() => {})"},
		"python":                   {"python", "while True: pass"},
		"bash":                     {"bash", "sleep 60"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &interruptions{code: c.code, most: 90, read: "x"}
			p := sessionOf(t, c.runtime)
			if c.runtime == "bash" {
				s.read = "echo $x"
			}
			p.Turns = s
			var outside kept
			if o, err := open(t).Run(t.Context(), p, &outside); err != nil || o.Lost {
				t.Fatalf("lost %v, %v; %s", o.Lost, err, outside.stderr.String())
			}
			for n, o := range s.done {
				status := job.Canceled
				if n%3 == 1 {
					status = job.Succeeded
				}
				got := s.sinks[n].stdout.String()
				if o.StateLost || o.Status != status || n > 1 && n%3 == 1 && got != "7\n" {
					t.Errorf("turn %d: %s, exit code %d %s, lost %v, stdout %q, stderr %q", n, o.Status, o.ExitCode, o.Signal, o.StateLost, got, s.sinks[n].stderr.String())
				}
			}
		})
	}
}
