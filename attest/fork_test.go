package attest

import (
	"errors"
	"slices"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// chained has a session execute one thing more, after what those before it have come to.
func chained(tb testing.TB, s *Signer, before []job.Executed, session, previousSession string) []job.Executed {
	tb.Helper()
	head, at := "", job.ExecutionState{ID: session, Sequence: 1, Generation: 1, State: job.StateKept}
	if n := len(before); n > 0 {
		var err error
		if head, err = Head(before[n-1].Attestation); err != nil {
			tb.Fatal(err)
		}
		at.Sequence = before[n-1].Session.Sequence + 1
	}
	given := job.ExecutionInput{Code: "1"}
	input, err := ExecutionInputHash(given, at, head)
	if err != nil {
		tb.Fatal(err)
	}
	r := job.Result{ID: session + "-" + string(rune('0'+at.Sequence)), Status: job.Succeeded, Session: &at}
	if r.Attestation, err = s.Attest(r, Run{InputHash: input, Previous: head, PreviousSession: previousSession}); err != nil {
		tb.Fatal(err)
	}
	return append(slices.Clone(before), job.Executed{Result: copied(tb, r), Input: &given})
}

// TestVerifyFork: executions of two sessions are one chain only where a statement of the second names the first, and the digest of its last execution before the fork.
func TestVerifyFork(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	keys := []Key{s.Key()}
	parent := chained(t, s, chained(t, s, nil, "p", ""), "p", "")
	fork := chained(t, s, chained(t, s, parent, "f", "p"), "f", "")
	later := chained(t, s, parent, "p", "")
	other := chained(t, s, chained(t, s, nil, "q", ""), "q", "")
	for name, c := range map[string]struct {
		given []job.Executed
		want  error
	}{
		"a fork":                                  {fork, nil},
		"a fork of a fork":                        {chained(t, s, fork, "g", "f"), nil},
		"without the parent":                      {fork[2:], ErrBroken},
		"the parent's later ones":                 {slices.Concat(fork, later[2:]), ErrBroken},
		"the parent's later ones instead of its":  {slices.Concat(later, fork[3:]), ErrBroken},
		"another session's before":                {slices.Concat(other, fork[2:]), ErrBroken},
		"another session's after":                 {slices.Concat(parent, chained(t, s, other, "q", "")[2:]), ErrBroken},
		"a session that began by itself after":    {slices.Concat(parent, other), ErrBroken},
		"the right digest and no parent":          {chained(t, s, parent, "f", ""), ErrBroken},
		"the right digest and another parent":     {chained(t, s, parent, "f", "q"), ErrBroken},
		"the right digest and itself":             {chained(t, s, parent, "p", "p"), ErrBroken},
		"the right parent and another's digest":   {slices.Concat(parent, chained(t, s, other, "f", "p")[2:]), ErrBroken},
		"a fork that goes on as the parent":       {chained(t, s, fork, "p", ""), ErrBroken},
		"a fork that nothing was executed before": {chained(t, s, nil, "f", "p"), ErrBroken},
	} {
		got, err := VerifySession(c.given, keys)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if last := c.given[len(c.given)-1].Session.ID; err == nil && got.Session != last {
			t.Errorf("%s: it is of %q, want %q", name, got.Session, last)
		}
	}
	// Where the second came from is as little changed as anything else that is signed.
	forged := chained(t, s, parent, "f", "q")
	forged[2].Attestation = fork[2].Attestation
	if _, err := VerifySession(forged, keys); err != nil { // the results are the same: the statement says it
		t.Errorf("got %v", err)
	}
	forged[2].Session.ID = "p"
	if _, err := VerifySession(forged, keys); !errors.Is(err, ErrChanged) {
		t.Errorf("got %v, want %v", err, ErrChanged)
	}
}
