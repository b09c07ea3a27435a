package direct_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
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

// TestAdvanceKept: what jobs have left is in memory of one step at a time where it is much, so that a run ends whose outputs point into all of it. A step
// that reads more at once fails, and no other does.
func TestAdvanceKept(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	const jobs = 16
	fat, one, both := source(), source("s0"), source("s0", "s1")
	fat.Each = &job.Each{From: "/params/list"}
	one.Args = []job.Value{{From: "/needs/s0/outputs/0/a/0/a"}}
	both.Args = []job.Value{{From: "/needs/s0/outputs/0/a/0/a"}, {From: "/needs/s1/outputs/0/a/0/a"}}
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Params: list(jobs), Pipeline: job.Pipeline{
		Params:  []byte(`{"type":"object","properties":{"list":{"type":"array","items":{"type":"integer"}}}}`),
		Steps:   map[string]job.Step{"s0": fat, "s1": fat, "one": one, "both": both},
		Outputs: map[string]job.Value{"x": {From: "/needs/s0/outputs/15/a/8188"}, "y": {From: "/needs/s1/outputs/0/a/0/a"}, "z": {From: "/needs/one/succeeded"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	m := &counted{}
	c := w.Client.ForAnswer("default", m)
	advance := func() {
		t.Helper()
		if err := c.Advance(t.Context(), run.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	advance()
	outputs := `{"a":[` + strings.Repeat(`{"a":0},`, 8188) + `{"a":1}]}` // 64 KiB, which take 3 MiB of memory
	for _, step := range []string{"s0", "s1"} {
		for i := range jobs {
			w.End(t, w.Start(t, job.StepJobID(run.ID, step, i, 1)), map[string]string{job.OutputsFile: outputs}, nil)
		}
	}
	advance()
	if held, most := m.now(); held != 0 || most < 64<<20 || most > 128<<20 {
		t.Errorf("got %d bytes held, and up to %d, want what one step may keep", held, most)
	}
	endAs(t, w, run.ID, "one", record.Ending{Status: job.Succeeded, Result: []byte(`{}`)})
	advance()
	if run, err = w.Client.GetRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if s := run.Steps["both"]; s.Status != "failed" || !strings.Contains(s.Why, "s1: what its jobs left is too large to be read") {
		t.Errorf("got %s %q of the step that reads both", s.Status, s.Why)
	}
	if want := `{"x":{"a":1},"y":0,"z":1}`; run.Status != job.Failed || string(run.Outputs) != want || run.Note != "" {
		t.Errorf("got %s with outputs %s and %q, want %s", run.Status, run.Outputs, run.Note, want)
	}
}
