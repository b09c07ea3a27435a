package worker

import (
	"errors"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// room is what a session got that asked for memory.
type room struct {
	release func()
	err     error
}

// asks has somebody wait for memory, and returns once they stand in line.
func asks(t *testing.T, of *budget, ask func() (func(), error)) <-chan room {
	t.Helper()
	got := make(chan room, 1)
	go func() { release, err := ask(); got <- room{release, err} }()
	gbtest.Eventually(t, "it waits in line", func() bool {
		if !of.tryAcquire(1) {
			return true
		}
		of.release(1)
		return false
	})
	return got
}

// TestSessionsInLine: a session gets its memory in its turn, also where jobs wait for theirs, and what needs less does not pass it.
func TestSessionsInLine(t *testing.T) {
	t.Parallel()
	w := sessionWorker(t, 4096)
	w.withRecords(t)
	x := record.Session{ID: job.NewSessionID("default"), Created: time.Now().Add(-time.Hour)}
	ctx := t.Context()
	session := func(mb int64) func() (func(), error) {
		return func() (func(), error) { return w.reserveSession(ctx, mb) }
	}
	first, err := w.acquire(ctx, 2700)
	if err != nil {
		t.Fatal(err)
	}
	waiting := asks(t, w.memory, func() (func(), error) { return w.acquire(ctx, 1500) })
	small := make(chan room, 1)
	go func() { release, err := session(400)(); small <- room{release, err} }()
	first()
	for _, got := range []room{<-waiting, <-small} {
		if got.err != nil {
			t.Fatalf("behind a job that waited: %v", got.err)
		}
		defer got.release()
	}
	large := asks(t, w.sessions.memory, session(1800))
	if _, ok := w.tryReserveSession(100); ok {
		t.Error("a small session passes a large one that waits")
	}
	w.sessions.memory.release(400)
	got := <-large
	if got.err != nil {
		t.Fatal(got.err)
	}
	got.release()
	_ = w.sessions.memory.acquire(ctx, 400) // which the small one has
	if p := roomPatience(time.Since(x.Created)); p != mostPatience || roomPatience(0) != leastPatience {
		t.Errorf("got a patience of %v", p)
	}
	close(w.draining)
	all, _ := w.tryReserveSession(1600)
	defer all()
	if _, err := w.waitForRoom(ctx, x, 1600); !errors.Is(err, errNoRoom) {
		t.Errorf("as the worker drains: got %v, want errNoRoom", err)
	}
}
