package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/fleet"
)

// listed has a container of each of these workers, in this order.
type listed struct {
	Sandboxes
	workers, removed []string
}

func (l *listed) Reap(_ context.Context, alive func(worker string) bool) (int, error) {
	l.removed = nil
	for _, worker := range l.workers {
		if !alive(worker) {
			l.removed = append(l.removed, worker)
		}
	}
	return len(l.removed), nil
}

// TestReapAbsent: a worker is dead once it was absent each time for two beats, and none that was absent long ago.
func TestReapAbsent(t *testing.T) {
	t.Parallel()
	w := sessionWorker(t, 1024)
	w.withRecords(t)
	l := &listed{}
	w.Sandboxes = l
	reap := func(what string, removed []string, workers ...string) {
		t.Helper()
		l.workers = workers
		if err := w.reap(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(l.removed, removed) {
			t.Errorf("%s: removed what is of %v, want %v", what, l.removed, removed)
		}
	}
	longAgo := func() { // as if what was seen had been then
		for worker := range w.absent {
			w.absent[worker] = time.Now().Add(-time.Hour)
		}
	}
	reap("first", nil, "a", "b")
	reap("no time has passed", nil, "a", "b")
	longAgo()
	reap("all the time", []string{"b", "b"}, "b", "b")
	reap("one had nothing here meanwhile", []string{"b"}, "a", "b")

	longAgo()
	if err := w.Records.Fleet.Beat(t.Context(), fleet.Worker{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	reap("one lives", []string{"b"}, "a", "b")
	longAgo()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.reap(over); err == nil || len(l.removed) > 0 {
		t.Errorf("nobody answers: removed %v, %v", l.removed, err)
	}
	reap("nobody has answered", nil, "a", "b")
}
