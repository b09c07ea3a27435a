package tools_test

import (
	"context"
	"errors"
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
