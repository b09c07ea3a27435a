package main

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// yields n jobs with that much source, each another one; after pause of them it waits.
func yields(n, source, pause int, wait <-chan struct{}) iter.Seq2[job.Spec, error] {
	padding := "# " + strings.Repeat("x", source)
	return func(yield func(job.Spec, error) bool) {
		for i := range n {
			if i == pause && wait != nil {
				<-wait
			}
			if !yield(job.Spec{Runtime: "python", Source: fmt.Sprintf("print(%d) %s", i, padding)}, nil) {
				return
			}
		}
	}
}

// The api is killed while it receives a batch: nothing that it took is lost, and nothing
// is made twice when the batch is sent again.
func TestKillAPIWithinBatch(t *testing.T) {
	t.Parallel()
	p := startAPIProcess(t)
	const n = 1000
	options := producer.BatchOptions{BatchOptions: job.BatchOptions{IdempotencyKey: "import 1"}}
	killed := make(chan struct{})
	sent := make(chan error, 1)
	go func() {
		_, err := p.client.SubmitBatch(t.Context(), options, yields(n, 200, n*2/3, killed))
		sent <- err
	}()
	var before job.Batch
	until(t, func() error {
		page, err := p.client.ListBatches(t.Context(), producer.BatchListOptions{})
		if err != nil || len(page.Batches) != 1 || page.Batches[0].Jobs < n/3 {
			return fmt.Errorf("got %+v, %w, want a third of the batch taken", page, errors.Join(err))
		}
		before = page.Batches[0]
		return nil
	})
	p.Kill()
	close(killed)
	if err := <-sent; err == nil {
		t.Error("the batch was accepted by an api that is dead")
	}
	kept := p.created(t)
	if len(kept) < before.Jobs || len(kept) >= n {
		t.Errorf("%d jobs were accepted, of which the api had told of %d", len(kept), before.Jobs)
	}
	p.Restart()
	b, err := p.client.SubmitBatch(t.Context(), options, yields(n, 200, 0, nil))
	if err != nil || b.ID != before.ID || b.Jobs != n || b.Status != job.BatchRunning {
		t.Fatalf("sent again: got %+v, %v, want the same batch, whole", b, err)
	}
	all := p.created(t)
	for id := range kept {
		if !all[id].Equal(kept[id]) {
			t.Errorf("job %s of the first request is made anew or lost", id)
		}
	}
	if len(all) != n {
		t.Errorf("%d jobs were made, want %d", len(all), n)
	}
	if again, err := p.client.SubmitBatch(t.Context(), options, yields(n, 200, 0, nil)); err != nil || again.ID != b.ID || !maps.Equal(p.created(t), all) {
		t.Errorf("sent once more: got %+v, %v, want the same", again, err)
	}
	for i := range n {
		if _, ok := all[job.ItemID(b.ID, i)]; !ok {
			t.Errorf("jobs[%d] is missing", i)
		}
	}
}

// created are the jobs there are, by id, and when each was made.
func (p *apiProcess) created(t *testing.T) map[string]time.Time {
	t.Helper()
	jobs := map[string]time.Time{}
	for o := (producer.ListOptions{Limit: producer.MaxPage}); ; {
		page, err := p.Client.List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			if _, twice := jobs[j.ID]; twice {
				t.Errorf("job %s is listed twice", j.ID)
			}
			jobs[j.ID] = j.Timing.CreatedAt
		}
		if o.Cursor = page.Next; page.Next == "" {
			return jobs
		}
	}
}

// The largest batch there is, or as large a one as would be noticed, costs the api no more memory than a few of its jobs.
func TestMemoryOfBatch(t *testing.T) {
	t.Parallel()
	p := startAPIProcess(t)
	if _, err := p.client.SubmitBatch(t.Context(), producer.BatchOptions{}, yields(100, 100, 0, nil)); err != nil {
		t.Fatal(err) // so that what is made once is made
	}
	before, _ := p.memory(t)
	began := time.Now()
	const bytes = 20 << 10
	jobs := job.MaxBatch
	if testing.Short() {
		jobs = 7000 // 143 MB
	}
	b, err := p.client.SubmitBatch(t.Context(), producer.BatchOptions{}, yields(jobs, bytes, 0, nil))
	if err != nil || b.Jobs != jobs {
		t.Fatalf("got %+v, %v", b, err)
	}
	_, most := p.memory(t)
	t.Logf("%d jobs of %d KiB, %d MB in all, in %.1f s: the api had %.1f MB before and %.1f MB at most",
		jobs, bytes>>10, jobs*bytes/1_000_000, time.Since(began).Seconds(), float64(before)/1e6, float64(most)/1e6)
	if most > 120e6 {
		t.Errorf("the api had %d bytes of memory, want less than 120 MB", most)
	}
}

func until(t *testing.T, done func() error) {
	t.Helper()
	for deadline := time.Now().Add(gbtest.Patience); ; time.Sleep(10 * time.Millisecond) {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
