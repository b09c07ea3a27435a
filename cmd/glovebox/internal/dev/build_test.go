package dev

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
)

// lines are what was said.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestBuildFails: jobs that wait for a runtime which can't be built end, and say so, those too that
// waited when dev ended last. The next job has it tried again.
func TestBuildFails(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), gbtest.Redis(t).URL()
	open := func() *record.Store {
		t.Helper()
		records, err := record.Open(ctx, record.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		return records
	}
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	records := open()
	t.Cleanup(func() { records.Close() })
	waits := func(n int) (ids []string) {
		t.Helper()
		for range n {
			id := job.NewID("default")
			if err := records.Create(ctx, id, job.Spec{Runtime: "awk", Source: "1"}, ""); err != nil {
				t.Fatal(err)
			}
			if err := records.Queue.Enqueue(ctx, queue.RunTask(id, 1, job.Low, time.Time{}).HandedOver("awk")); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		return ids
	}
	failed := func(ids []string) {
		t.Helper()
		for _, id := range ids {
			gbtest.Eventually(t, "the end of a job whose runtime can't be built", func() bool {
				j, err := records.Get(ctx, id)
				if err != nil {
					t.Fatal(err)
				}
				return j.State.Final()
			})
			j, err := records.Get(ctx, id)
			if err != nil || j.State != job.InternalError {
				t.Errorf("got %v, %v, want internal_error", j.State, err)
			}
		}
	}
	first := waits(70) // several pages of tasks
	var said lines
	s := &stack{Config: Config{
		Runtimes: set, Out: &said,
		Built: func(context.Context) (map[string]bool, error) { return nil, nil },
		Build: func(ctx context.Context, names []string, out io.Writer) error {
			return set.Build(ctx, runtimes.BuildOptions{Names: names, Out: out, Podman: []string{"false"}, RootImages: []string{"false"}})
		},
	}}
	stop, err := s.buildFor(ctx, open())
	if err != nil {
		t.Fatal(err)
	}
	failed(first)
	second := waits(2)
	if told, err := records.Fleet.Wanted(ctx, "awk"); err != nil || !told {
		t.Errorf("told %v, %v: want it offered still", told, err)
	}
	failed(second)
	if waits, err := records.Queue.HasHandedOver(ctx, "awk"); err != nil || waits {
		t.Errorf("a task waits: %v, %v", waits, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(said.String(), "jobs that waited for it have failed: 70") {
		t.Errorf("said %s, want how many jobs have failed", said.String())
	}
}

// TestBuildTellsTheWorker: once a runtime is built the worker is told that there is another image, until it offers it.
func TestBuildTellsTheWorker(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), gbtest.Redis(t).URL()
	records, err := record.Open(ctx, record.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	awk, _ := set.Lookup("awk")
	var built atomic.Bool
	var said lines
	s := &stack{Config: Config{
		Runtimes: set, Out: &said,
		Built: func(context.Context) (map[string]bool, error) { return map[string]bool{awk.Image(): built.Load()}, nil },
		Build: func(context.Context, []string, io.Writer) error { built.Store(true); return nil },
	}}
	stop, err := s.buildFor(ctx, records)
	if err != nil {
		t.Fatal(err)
	}
	worker, err := record.Open(ctx, record.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { worker.Close() })
	told, wanted := make(chan struct{}, 100), make(chan struct{}, 100)
	offer := worker.Fleet.Offer(ctx, func(name string) {
		switch name {
		case fleet.ImagesOffer:
			told <- struct{}{}
		case "awk":
			wanted <- struct{}{}
		}
	})
	t.Cleanup(func() { offer.Close() })
	if told, err := worker.Fleet.Wanted(ctx, "awk"); err != nil || !told {
		t.Fatalf("told %v, %v: want it offered", told, err)
	}
	gbtest.Eventually(t, "it is built", func() bool { return strings.Contains(said.String(), "is built; the worker is about to take its jobs") })
	if err := offer.Set(ctx, []string{fleet.ImagesOffer}); err != nil { // this worker listens only now
		t.Fatal(err)
	}
	<-told
	if err := offer.Set(ctx, []string{fleet.ImagesOffer, "awk"}); err != nil {
		t.Fatal(err)
	}
	<-wanted
	if err := stop(); err != nil {
		t.Error(err)
	}
	if strings.Contains(said.String(), "could not be had") {
		t.Errorf("said %s", said.String())
	}
}
