package tools_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/producertest"
	"github.com/glovebox-run/glovebox/producer/tools"
)

// leaving is a client whose caller leaves as soon as a job is accepted, before the answer has come.
type leaving struct {
	tools.Glovebox
	leave func()
	id    string
}

func (l *leaving) Submit(ctx context.Context, spec job.Spec) (producer.Job, error) {
	j, err := l.Glovebox.Submit(context.WithoutCancel(ctx), spec)
	if err != nil {
		return j, err
	}
	l.id = j.ID
	l.leave()
	return j, ctx.Err()
}

// TestCallerLeavesDuringSubmit: a job that nobody waits for any more is canceled, also if its caller left
// before it had its id.
func TestCallerLeavesDuringSubmit(t *testing.T) {
	t.Parallel()
	env := producertest.New(t, "")
	env.Runtimes(t)
	tool, err := tools.Find(tools.RunCode)
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	l := &leaving{Glovebox: env.Client, leave: leave}
	if _, err := tool.Call(ctx, tools.Caller{Glovebox: l, MaxWait: tools.MaxWait}, []byte(`{"language":"python","code":"1"}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the caller has left", err)
	}
	if j, err := env.Client.Get(t.Context(), l.id); err != nil || j.Status != job.Canceled {
		t.Errorf("got %s, %v, want it to be canceled", j.Status, err)
	}
}

// keyless fails each request, and has the idempotency keys that they came with.
type keyless struct {
	tools.Glovebox
	keys []string
}

var errLost = errors.New("the answer is lost")

func (k *keyless) Submit(_ context.Context, spec job.Spec) (producer.Job, error) {
	k.keys = append(k.keys, spec.IdempotencyKey)
	return producer.Job{}, errLost
}

func (k *keyless) StartSession(_ context.Context, s job.SessionSettings) (job.Session, error) {
	k.keys = append(k.keys, s.IdempotencyKey)
	return job.Session{}, errLost
}

func (k *keyless) ExecuteInSession(_ context.Context, _ string, e job.SessionExecution) (producer.Job, error) {
	k.keys = append(k.keys, e.IdempotencyKey)
	return producer.Job{}, errLost
}

// TestRequestsHaveKeys: over a network each request can be repeated, as its answer may be lost. In the API none has a key, which Redis would keep.
func TestRequestsHaveKeys(t *testing.T) {
	t.Parallel()
	tool, err := tools.Find(tools.RunCode)
	if err != nil {
		t.Fatal(err)
	}
	for _, remote := range []bool{true, false} {
		k := &keyless{}
		for _, arguments := range []string{
			`{"language":"python","code":"1"}`, `{"language":"python","session_id":"new","code":"1"}`, `{"session_id":"default-s-x","code":"1"}`,
		} {
			if _, err := tool.Call(t.Context(), tools.Caller{Glovebox: k, MaxWait: tools.MaxWait, Remote: remote}, []byte(arguments)); err != nil { // the answer says that it failed
				t.Errorf("%s: %v", arguments, err)
			}
		}
		if slices.Contains(k.keys, "") == remote || len(k.keys) != 3 || remote && len(slices.Compact(slices.Sorted(slices.Values(k.keys)))) != 3 {
			t.Errorf("remote %v: got the keys %q", remote, k.keys)
		}
	}
}
