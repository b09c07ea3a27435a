package record

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

// StopTenant cancels whatever state a tenant's jobs are in, says why in each, and leaves
// other tenants alone.
func TestStopTenant(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	ctx := t.Context()
	if _, err := s.CreateTenant(ctx, "default", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	other := s.mustCreate(t, "other", job.Normal)
	running := s.mustStart(t, s.mustCreate(t, "default", job.Normal), 1)
	var queued []string
	for range 3 * cancelGroup { // most of them in the backlog
		queued = append(queued, s.mustCreate(t, "default", []job.Priority{job.High, job.Normal, job.Low}[len(queued)%3]))
	}
	later := job.NewID("default")
	if err := s.Create(ctx, later, job.Spec{Runtime: "bash", RunAt: time.Now().Add(time.Hour)}, ""); err != nil {
		t.Fatal(err)
	}
	sealed, open := s.newBatch(t, 150), s.newBatch(t, 10)
	if _, err := s.SealBatch(ctx, sealed, 150); err != nil {
		t.Fatal(err)
	}
	s.rdb.ZAdd(ctx, openKey("default"), redis.Z{Score: 1, Member: job.NewID("default")}) // an entry whose record is gone

	run := s.newRun(t)

	done, err := s.StopTenant(ctx, "default")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.mustRun(t, run.ID); got.Cancel != RunStopped {
		t.Errorf("got %+v, want the run stopped", got)
	}
	if want := (Stopped{Batches: 2, Jobs: len(queued) + 1, Asked: 1, Queued: 1, Running: 1}); done != want {
		t.Errorf("got %+v, want %+v", done, want)
	}
	reason := func(result []byte) string {
		var r job.Result
		if err := json.Unmarshal(result, &r); err != nil || r.Error == nil {
			return ""
		}
		return r.Error.Code
	}
	for i := range 150 {
		queued = append(queued, job.ItemID(sealed, i))
	}
	for _, id := range append(slices.Clone(queued), later) {
		if j, err := s.Get(ctx, id); err != nil || j.State != job.Canceled || reason(j.Result) != job.CodeTenantStopped {
			t.Fatalf("%s: got %s, %s, %v; want it canceled, and why", id, j.State, j.Result, err)
		}
	}
	for _, id := range []string{sealed, open} {
		if b := s.mustBatch(t, id); b.State != job.BatchCanceled {
			t.Errorf("batch %s: got %s", id, b.State)
		}
	}
	if j, err := s.Get(ctx, running.ID); err != nil || j.State != job.Running || !j.CancelRequested || j.CancelReason == nil {
		t.Errorf("the running job: got %+v, %v; want its worker asked", j, err)
	}
	if j, err := s.Get(ctx, other); err != nil || j.State != job.Queued {
		t.Errorf("another tenant's job: got %s, %v", j.State, err)
	}
	again, err := s.StopTenant(ctx, "default")
	if want := (Stopped{Queued: 1, Running: 1}); err != nil || again != want {
		t.Errorf("again: got %+v, %v, want nothing done", again, err)
	}
	// Its worker, or the sweeper where that is lost, says why, too.
	if err := s.EndUnrun(ctx, running.ID, running.Epoch, job.Canceled, nil); err != nil {
		t.Fatal(err)
	}
	if j, err := s.Get(ctx, running.ID); err != nil || j.State != job.Canceled || reason(j.Result) != job.CodeTenantStopped {
		t.Errorf("the running job, once it ended: got %s %s, %v", j.State, j.Result, err)
	}
}

// TestStopTenantRuns: many runs of a tenant are stopped a group at a time, and a call whose time is up leaves the rest to the next.
func TestStopTenantRuns(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	ctx := t.Context()
	var runs []Run
	for range cancelGroup + 1 {
		runs = append(runs, s.newRun(t))
	}
	if err := s.CancelRun(ctx, runs[0].ID, RunCanceled); err != nil {
		t.Fatal(err)
	}
	s.rdb.ZAdd(ctx, runWorkKey("default"), redis.Z{Member: job.NewRunID("other")}, redis.Z{Member: job.NewRunID("default")}) // of another, and gone
	if err := s.stopRuns(ctx, "default", time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, r := range runs[1:] {
		if got := s.mustRun(t, r.ID).Cancel; got != "" {
			t.Fatalf("got a run stopped for %q when the time was up", got)
		}
	}
	if err := s.stopRuns(ctx, "default", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for i, r := range runs {
		want := RunStopped
		if i == 0 {
			want = RunCanceled
		}
		if got := s.mustRun(t, r.ID).Cancel; got != want {
			t.Errorf("run %d: got it canceled for %q, want %q", i, got, want)
		}
	}
}
