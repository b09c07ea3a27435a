package attest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/glovebox-run/glovebox/job"
)

// ErrBroken means that executions are not all that their session executed, up to the last of them, in that order.
var ErrBroken = errors.New("the session's executions do not follow each other")

// Transcript is what a session executed, as far as it was given.
type Transcript struct {
	Session string
	// Executions are in the order in which they were executed.
	Executions []Verified
	// Unattested are the ids of executions that nothing is attested of: each was refused or canceled before it began, or its session
	// was lost with it.
	Unattested []string
	// Unchecked are the ids of attested executions whose code and files the transcript lacks.
	Unchecked []string
	// Head is the digest of the last one's subject: it stands for all of them.
	Head string
}

// VerifySession checks each execution's attestation, as [Verify] does, that its input is what it was given, and that none is missing between the first and the last that are attested: each names the one
// before it. Those of a fork come after those that its session had executed before: the first of them names that session, too. They can come in any order. That it is cut off at its end shows only by [Transcript.Reaches]. It fails with the errors of Verify, or
// with one that wraps ErrBroken.
func VerifySession(executions []job.Executed, keys []Key) (Transcript, error) {
	var t Transcript
	for _, r := range executions {
		if r.Attestation == nil {
			t.Unattested = append(t.Unattested, r.ID)
			continue
		}
		v, err := Verify(r.Result, keys)
		if err != nil {
			return Transcript{}, fmt.Errorf("execution %.80q: %w", r.ID, err)
		}
		if v.Statement.Predicate.Session == nil {
			return Transcript{}, fmt.Errorf("%w: %.80q is a job of its own", ErrBroken, r.ID)
		}
		if r.Input == nil {
			t.Unchecked = append(t.Unchecked, r.ID)
		} else if err := checkInput(*r.Input, v.Statement.Predicate); err != nil {
			return Transcript{}, fmt.Errorf("execution %.80q: %w", r.ID, err)
		}
		t.Executions = append(t.Executions, v)
	}
	if len(t.Executions) == 0 {
		return Transcript{}, fmt.Errorf("%w: none of %d executions is attested", ErrUnsigned, len(executions))
	}
	slices.SortFunc(t.Executions, func(a, b Verified) int {
		return cmp.Compare(a.Statement.Predicate.Session.Sequence, b.Statement.Predicate.Session.Sequence)
	})
	for _, v := range t.Executions {
		at := v.Statement.Predicate.Session
		if at.Previous != t.Head {
			return Transcript{}, fmt.Errorf("%w: %.80q, number %d, comes after another than the one before it here: one is missing, or there twice", ErrBroken, v.Statement.Predicate.ID, at.Sequence)
		}
		if from := at.PreviousSession; from != "" && (from != t.Session || from == at.ID) || from == "" && t.Session != "" && t.Session != at.ID {
			return Transcript{}, fmt.Errorf("%w: %.80q is of session %.80q and says that it goes on from %.80q, the one before it here is of %.80q", ErrBroken, v.Statement.Predicate.ID, at.ID, cmp.Or(from, at.ID), t.Session)
		}
		t.Session = at.ID // after those of sessions that it was forked from
		t.Head = v.Statement.Subject[0].Digest.SHA256
	}
	return t, nil
}

// Reaches fails with one that wraps ErrBroken unless the transcript goes at least to the execution with that head, or so many executions; "" and 0 are any. Where they come from is what
// this is worth: a session's record says how far it went, and its message session.ended does.
func (t Transcript) Reaches(head string, count int) error {
	at := slices.IndexFunc(t.Executions, func(v Verified) bool { return v.Statement.Subject[0].Digest.SHA256 == head })
	switch {
	case len(t.Executions) < count:
		return fmt.Errorf("%w: it is cut off: %d of at least %d attested executions are here", ErrBroken, len(t.Executions), count)
	case head != "" && at < 0:
		return fmt.Errorf("%w: it is cut off, or of another session: none of the executions has the digest %.64s", ErrBroken, head)
	}
	return nil
}

// checkInput fails unless the attested input is that.
func checkInput(in job.ExecutionInput, p Predicate) error {
	at := job.ExecutionState{ID: p.Session.ID, Sequence: p.Session.Sequence, Context: p.Session.Context, Language: p.Session.Language, Generation: p.Session.Generation}
	sum, err := ExecutionInputHash(in, at, p.Session.Previous)
	if err != nil {
		return fmt.Errorf("%w: input: %w", ErrChanged, err)
	}
	if sum != p.InputHash {
		return fmt.Errorf("%w: input", ErrChanged)
	}
	return nil
}

// Head returns the digest of the subject of what a signer has just attested. It verifies nothing.
func Head(a *job.Attestation) (string, error) {
	payload, err := decode(a.Payload)
	if err != nil {
		return "", fmt.Errorf("read attestation: %w", err)
	}
	var s struct {
		Subject []Subject `json:"subject"`
	}
	if err := json.Unmarshal(payload, &s); err != nil {
		return "", fmt.Errorf("read attestation: %w", err)
	}
	if len(s.Subject) != 1 {
		return "", fmt.Errorf("read attestation: %d subjects", len(s.Subject))
	}
	return s.Subject[0].Digest.SHA256, nil
}
