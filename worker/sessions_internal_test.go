package worker

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
)

// TestTaskOfSessionGivenBack: the task of a session comes back from the worker that has just given it back and is not done with it, and does not where that holds it.
func TestTaskOfSessionGivenBack(t *testing.T) {
	t.Parallel()
	w, ctx := sessionWorker(t, 4096), t.Context()
	w.withRecords(t)
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	w.Runtimes, w.Isolation = set, job.GVisor
	x, err := w.Records.OpenSession(ctx, "default", job.SessionSettings{Runtime: "python"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	run := queue.Run{ID: x.ID, Epoch: 1}
	b, err := json.Marshal(run)
	if err == nil {
		err = w.beginRun(run)
	}
	if err != nil {
		t.Fatal(err)
	}
	slots := 0
	take := func() error {
		return w.handleSession(ctx, asynq.NewTask(queue.TypeSession, b), func() { slots++ })
	}
	if err := take(); !errors.Is(err, errRunning) {
		t.Errorf("given back: got %v, want that its task comes back", err)
	}
	if _, err := w.Records.ClaimSession(ctx, x.ID, w.ID); err != nil {
		t.Fatal(err)
	}
	if err := take(); err != nil {
		t.Errorf("held: got %v, want that its task goes", err)
	}
	if slots != 2 || w.memory.free != 4096 {
		t.Errorf("%d slots and %d MiB are free", slots, w.memory.free)
	}
}
