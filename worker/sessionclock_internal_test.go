package worker

import (
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestNothingBeginsOnceOver: where a session's time was shortened and is over by the time its worker reads that, nothing of it begins any more.
func TestNothingBeginsOnceOver(t *testing.T) {
	t.Parallel()
	w, ctx := sessionWorker(t, 1024), t.Context()
	w.withRecords(t)
	w.sessions.turns = newTurnSlots(1)
	h, j := w.taken(t)
	wake := make(chan struct{})
	h.wake = wake
	begun, err := h.begin(j)
	if err != nil {
		t.Fatal(err)
	}
	waits := h.execute(t)
	second := int64(1)
	if _, err := w.Records.ChangeSession(ctx, h.record.ID, job.SessionChange{TTLSeconds: &second}); err != nil {
		t.Fatal(err)
	}
	gbtest.Eventually(t, "its time is over", func() bool {
		now, err := w.Records.SessionTime(ctx, h.record.ID, w.ID, "", 0)
		return err == nil && now.Over == job.EndTTL
	})
	wake <- struct{}{}
	select {
	case <-begun.Interrupt:
	case <-time.After(gbtest.Patience):
		t.Fatal("nobody interrupts what runs")
	}
	if err := h.Ended(ctx, sandbox.TurnOutcome{TestOutcome: sandbox.TestOutcome{Status: job.Canceled}}); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := h.Next(ctx); err != nil || ok || h.end == nil || h.end.Reason != job.EndTTL {
		t.Errorf("got a turn: %v, %v, an end: %+v, want ttl", ok, err, h.end)
	}
	if got, err := w.Records.Get(ctx, waits); err != nil || got.State != job.Queued {
		t.Errorf("what waited is %s, %v", got.State, err)
	}
	if h.turn != nil {
		h.turn.close()
	}
}
