package podman_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// TestAbuseInSession: whatever an execution of a session does, it ends as its limits say. The next one is executed as ever, or the session is
// over for the memory that its files hold. A job beside it ends as if it were alone, and nothing is left of either.
func TestAbuseInSession(t *testing.T) {
	t.Parallel()
	attackAll(t, inShort(1, 2, abuses(t)), (*suspects).attackInSession)
}

// attackInSession makes an attack in a session, with a job beside it.
func (s *suspects) attackInSession(t *testing.T, a abuse) {
	t.Helper()
	code := string(a.program.Files[0].Content)
	if a.program.Command[0] == "bash" {
		code = "import subprocess\nsubprocess.run(['bash', '-c', " + strconv.Quote(code) + "])"
	}
	code += "\nNone" // no value to print
	p := sessionOf(t, "python")
	p.Limits = a.program.Limits
	begun := false
	x := &steps{todo: []step{{code: "x = 41"}, {code: code, wall: time.Duration(p.Limits.WallMS) * time.Millisecond}, {code: "40 + 2"}}}
	s.beside(t, func(ctx context.Context, jobID string, on func()) {
		p.JobID, p.Turns = jobID, x
		x.todo[1].on = func() { begun = true; on() }
		var outside kept
		o, err := s.podman.Run(ctx, p, &outside)
		if !begun {
			on()
			t.Fatalf("the attack never began: %+v, %v, %+v", o, err, x.done)
		}
		switch {
		case err != nil:
			t.Error(err)
		case o.Lost && o.Status == job.OutOfMemory && a.fills: // there is no room for an interpreter
			return
		case o.Lost || len(x.done) != 3:
			t.Errorf("the session is lost: %+v after %d turns", o, len(x.done))
		}
	})
	if len(x.done) < 3 {
		return
	}
	attacked, next := x.done[1], x.done[2]
	want := a.stdout
	if a.inSession != "" {
		want = a.inSession
	}
	a.check(t, attacked.Status, want, &attacked.kept)
	if a.fills && next.Status == job.OutOfMemory {
		return
	}
	if a.endless && attacked.Status == job.OutputLimitExceeded { // what the attack has left running prints on
		return
	}
	if next.Status != job.Succeeded || next.stdout.String() != "42\n" || next.stderr.Len() > 0 || a.names == "" && len(next.artifacts) > 0 {
		t.Errorf("the next execution: %+v, stdout %.500q, stderr %.500q, artifacts %s", next.TurnOutcome, next.stdout.String(), next.stderr.String(), next.names())
	}
}
