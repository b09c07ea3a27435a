package direct_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// TestPlacementWaits: a job says that it waits for workers which aren't there.
func TestPlacementWaits(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	if err := w.Worker.Fleet.PublishLabels(t.Context(), job.Labels{"gpu": "yes"}, nil); err != nil {
		t.Fatal(err)
	}
	j, err := w.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Placement: job.Labels{"gpu": "yes"}})
	if err != nil {
		t.Fatal(err)
	}
	for pools, want := range map[int64]string{0: "no worker that takes jobs has the labels gpu=yes", 2: ""} {
		if err := w.Records.Fleet.SetPools(t.Context(), map[string]int64{"gpu=yes": pools}); err != nil {
			t.Fatal(err)
		}
		if got, err := w.Client.Get(t.Context(), j.ID); err != nil || got.Waits != want || got.Placement.String() != "gpu=yes" {
			t.Errorf("got %+v, %v, want %q", got.Summary, err, want)
		}
	}
}

// TestWaitsForAny: a job that any worker may run says that none does.
func TestWaitsForAny(t *testing.T) {
	t.Parallel()
	w, ctx := producertest.New(t, ""), t.Context()
	w.Runtimes(t)
	j, err := w.Client.Submit(ctx, job.Spec{Runtime: "python", Source: "1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		worker fleet.Worker
		want   string
	}{
		{fleet.Worker{}, "no worker lives"},
		{fleet.Worker{ID: "a", Concurrency: 2, Paused: "the disk is full"}, "every worker is paused"},
		{fleet.Worker{ID: "b", Concurrency: 2, Labels: job.Labels{"pool": "exams"}, Only: []string{"pool"}}, "no worker takes jobs without a placement"},
		{fleet.Worker{ID: "c", Concurrency: 2}, ""},
	} {
		if c.worker.ID != "" {
			if err := w.Worker.Fleet.Beat(ctx, c.worker); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Raw.Del(ctx, "gb:slots:total").Err(); err != nil { // what was counted holds for two seconds
			t.Fatal(err)
		}
		if got, err := w.Client.Get(ctx, j.ID); err != nil || got.Waits != c.want {
			t.Errorf("with worker %q: got %+v, %v, want %q", c.worker.ID, got.Summary, err, c.want)
		}
	}
	later := time.Now().Add(time.Hour)
	j, err = w.Client.Submit(ctx, job.Spec{Runtime: "python", Source: "1", RunAt: later})
	if err != nil {
		t.Fatal(err)
	}
	for _, worker := range []string{"a", "b", "c"} {
		if err := w.Worker.Fleet.Leave(ctx, worker); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := w.Client.Get(ctx, j.ID); err != nil || got.Waits != "" {
		t.Errorf("a job that waits for its time: got %+v, %v", got.Summary, err)
	}
	// A Redis that takes no writes: what is counted can't be noted.
	if err := errors.Join(w.Raw.ConfigSet(ctx, "maxmemory", "1").Err(), w.Raw.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err(), w.Raw.Del(ctx, "gb:slots:total").Err()); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Client.Get(ctx, j.ID); err != nil || got.ID != j.ID {
		t.Errorf("where Redis is full: got %+v, %v, want the job", got.Summary, err)
	}
}

// TestWaitsForItsRuntime: a job whose runtime no worker offers says so, until it is looked for one again.
func TestWaitsForItsRuntime(t *testing.T) {
	t.Parallel()
	w, ctx := producertest.New(t, ""), t.Context()
	w.Runtimes(t)
	if err := w.Worker.Fleet.Beat(ctx, fleet.Worker{ID: "a", Concurrency: 2}); err != nil {
		t.Fatal(err)
	}
	j, err := w.Client.Submit(ctx, job.Spec{Runtime: "python", Source: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if told, err := w.Worker.HandOver(ctx, queue.Run{ID: j.ID, Epoch: 1}, &record.NotOfferedError{Name: "python", Priority: job.Normal}); err != nil || told {
		t.Fatalf("got %v, %v, want no worker told", told, err)
	}
	if got, err := w.Client.Get(ctx, j.ID); err != nil || !strings.HasPrefix(got.Waits, "no worker offers python; one is looked for again at 20") {
		t.Errorf("got %+v, %v", got.Summary, err)
	}
	if err := w.Raw.ZRem(ctx, "gb:{default}:later", j.ID).Err(); err != nil { // as once it is looked for again
		t.Fatal(err)
	}
	if got, err := w.Client.Get(ctx, j.ID); err != nil || got.Waits != "" {
		t.Errorf("once it is in the queue again: got %+v, %v", got.Summary, err)
	}
}
