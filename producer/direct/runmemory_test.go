package direct_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// counted is memory that says how much of it is held.
type counted struct {
	mu         sync.Mutex
	held, most int64
	takes      int
}

func (m *counted) Take(_ context.Context, bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held += bytes
	m.most = max(m.most, m.held)
	m.takes++
	return nil
}

func (m *counted) Give(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held -= bytes
}

func (m *counted) now() (held, most int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held, m.most
}

// TestWaitRunMemory: who waits for a run takes memory for what is answered, and none while it waits.
func TestWaitRunMemory(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"fetch": source()}}})
	if err != nil {
		t.Fatal(err)
	}
	size, err := w.Records.RunSize(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	m := &counted{}
	c := w.Client.ForAnswer("default", m)
	waiting, over := context.WithTimeout(t.Context(), time.Second)
	defer over()
	if _, err := c.WaitRun(waiting, run.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want it not to have ended", err)
	}
	if held, most := m.now(); held != 0 || most != 0 {
		t.Errorf("got %d bytes held, and up to %d, while it is waited for", held, most)
	}
	if _, err := w.Client.CancelRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if held, _ := m.now(); held < size || held > 16*size {
		t.Errorf("got %d bytes held for a run of %d", held, size)
	}
}

// TestRunDeliveries: to list what was sent of a run reads nothing of it that may be large.
func TestRunDeliveries(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{
		Steps: map[string]job.Step{"fetch": source()}, Callback: &job.Callback{URL: "https://example.com/hook"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.CancelRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := w.Raw.HSet(t.Context(), "gb:{default}:run:"+run.ID, "metadata", "{").Err(); err != nil { // who reads all of it fails
		t.Fatal(err)
	}
	if list, err := w.Client.RunDeliveries(t.Context(), run.ID); err != nil || len(list) != 1 || list[0].RunID != run.ID {
		t.Errorf("got %+v, %v, want one of the run", list, err)
	}
	if _, err := w.Client.RunDeliveries(t.Context(), job.NewRunID("default")); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("no such run: got %v, want job.ErrNotFound", err)
	}
}
