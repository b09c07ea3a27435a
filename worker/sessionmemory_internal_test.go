package worker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// nextTurn is what Next has returned.
type nextTurn struct {
	turn sandbox.Turn
	err  error
}

// next asks for the next execution beside the test.
func (h *heldSession) next(ctx context.Context) <-chan nextTurn {
	got := make(chan nextTurn, 1)
	go func() {
		turn, _, err := h.Next(ctx)
		got <- nextTurn{turn, err}
	}()
	return got
}

// TestPausedTakesNothingWithoutMemory: a paused session whose execution is canceled as it waits for a slot asks for neither slot nor memory any more, and its next execution
// waits for both.
func TestPausedTakesNothingWithoutMemory(t *testing.T) {
	t.Parallel()
	w := sessionWorker(t, 1024)
	w.withRecords(t)
	w.sessions.turns = newTurnSlots(1)
	ctx, settings := t.Context(), job.SessionSettings{Runtime: "python", Limits: job.Limits{MemoryMB: 256, WallMS: 1000}}
	x, err := w.Records.OpenSession(ctx, "default", settings, nil)
	if err == nil {
		x, err = w.Records.ClaimSession(ctx, x.ID, w.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	wake := make(chan struct{}) // received means that the look before it is over
	h := &heldSession{
		worker: w, life: context.WithoutCancel(ctx), record: x, log: w.Log, limits: settings.Limits, languages: []string{"python"},
		clock: newClock(x), wake: wake, memoryMB: 512, pause: pause{on: true},
	}
	execute := func() string {
		id := job.NewID("default")
		if err := w.Records.AddTurn(ctx, x.ID, id, settings.Spec(job.SessionExecution{Code: "1"}), record.NewTurn{}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	waiting := func() int {
		w.sessions.turns.mu.Lock()
		defer w.sessions.turns.mu.Unlock()
		return len(w.sessions.turns.waiting)
	}
	memory := func() (free, wanted int64) {
		w.memory.mu.Lock()
		defer w.memory.mu.Unlock()
		return w.memory.free, w.memory.wanted
	}
	if !w.sessions.turns.try("default") {
		t.Fatal("there is no slot")
	}
	canceled := execute()
	got := h.next(ctx)
	gbtest.Eventually(t, "it has memory, and waits for a slot", func() bool { free, _ := memory(); return free == 512 && waiting() == 1 })
	if status, err := w.Records.Cancel(ctx, canceled, nil); err != nil || status != job.Canceled {
		t.Fatalf("got %s, %v", status, err)
	}
	wake <- struct{}{}
	gbtest.Eventually(t, "it has given both back", func() bool { free, _ := memory(); return free == 1024 && waiting() == 0 })
	if !w.memory.tryAcquire(1024) {
		t.Fatal("the memory isn't free")
	}
	id := execute()
	wake <- struct{}{}
	gbtest.Eventually(t, "the other execution waits for memory", func() bool { _, wanted := memory(); return wanted == 512 })
	w.sessions.turns.give("default")
	wake <- struct{}{}
	wake <- struct{}{}
	if j, err := w.Records.Get(ctx, id); err != nil || j.State != job.Queued {
		t.Errorf("without memory: got %s, %v, want it queued", j.State, err)
	}
	w.memory.release(1024)
	n := <-got
	if n.err != nil || string(n.turn.Code) != "1" || h.release == nil || !h.slot {
		t.Errorf("got %+v, with a slot: %v", n, h.slot)
	}
	h.turn.close()
	if h.giveMemory(); w.memory.missing() != 0 {
		t.Error("memory is missing")
	}
}

// TestNotIdleAsItReads: a session that reads the files of an execution is none to be paused, and one again once that is canceled.
func TestNotIdleAsItReads(t *testing.T) {
	t.Parallel()
	w, ctx, objects := sessionWorker(t, 1024), t.Context(), &hanging{asked: make(chan struct{})}
	w.withRecords(t)
	w.Objects, w.sessions.turns = objects, newTurnSlots(1)
	w.sessions.pauser.after = time.Nanosecond
	h, j := w.taken(t)
	h.done = turnEnd{j, w.endUnrun(h.life, j, job.Canceled, nil, spent{})}
	sum := strings.Repeat("a", 64)
	spec := h.record.Settings.Spec(job.SessionExecution{Code: "1", Files: []job.File{{Name: "a", Upload: sum, SHA256: sum, Size: 1}}})
	id := job.NewID("default")
	if err := w.Records.AddTurn(ctx, h.record.ID, id, spec, record.NewTurn{}); err != nil {
		t.Fatal(err)
	}
	got := h.next(ctx)
	<-objects.asked
	p := w.sessions.pauser
	p.mu.Lock()
	if p.pausing != 0 || len(p.idle) != 0 {
		t.Errorf("%d are being paused, and %d are idle, want none", p.pausing, len(p.idle))
	}
	p.mu.Unlock()
	if _, err := w.Records.Cancel(ctx, id, nil); err != nil {
		t.Fatal(err)
	}
	n := <-got
	if n.err != nil || !n.turn.Pause {
		t.Fatalf("got %+v, want it paused", n)
	}
	h.Stayed(sandbox.ErrWanted)
}
