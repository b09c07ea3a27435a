package record

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// newBatch begins a batch and adds n jobs to it.
func (s *Store) newBatch(t *testing.T, n int) string {
	t.Helper()
	b, continued, err := s.OpenBatch(t.Context(), "default", job.BatchOptions{Callback: &job.Callback{URL: "https://example.com/hook"}})
	if err != nil || continued {
		t.Fatalf("got %v, %v, want a new batch", continued, err)
	}
	s.addJobs(t, b.ID, 0, n)
	return b.ID
}

func batchJob(batch string, index int) NewJob {
	source := fmt.Sprintf("print(%d)", index)
	return NewJob{
		ID: job.ItemID(batch, index), Spec: job.Spec{Runtime: "python", Source: source}, Index: index, Fingerprint: NewFingerprint([]byte(source)),
	}
}

func (s *Store) addJobs(t *testing.T, batch string, first, n int) {
	t.Helper()
	var jobs []NewJob
	for i := range n {
		jobs = append(jobs, batchJob(batch, first+i))
	}
	if err := s.AddToBatch(t.Context(), batch, jobs); err != nil {
		t.Fatalf("add jobs: %v", err)
	}
}

func (s *Store) mustBatch(t *testing.T, id string) Batch {
	t.Helper()
	b, err := s.GetBatch(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// runItem ends one job of a batch as a worker would, if it can be started.
func (s *Store) runItem(t *testing.T, batch string, index int, worker string) error {
	t.Helper()
	j, err := s.Start(t.Context(), job.ItemID(batch, index), 1, worker)
	if err != nil {
		return err
	}
	e := Ending{Status: job.Succeeded, Result: []byte(`{}`)}
	err = s.End(t.Context(), j, e)
	if again := s.End(t.Context(), j, e); !errors.Is(again, job.ErrEnded) { // its answer got lost
		t.Errorf("end again: got %v, want job.ErrEnded", again)
	}
	return err
}

// Whoever ends, replays, seals and cancels what and when: a batch ends once, is told
// once, and its counts are those of its jobs.
func TestBatchEndsOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ seal, cancel bool }{"sealed first": {seal: true}, "sealed meanwhile": {}, "canceled meanwhile": {cancel: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storeOf(t, 100)
			const n = 120
			id := s.newBatch(t, n)
			told := s.ListenDone(t.Context())
			defer told.Close()
			woken, stop := told.Wait(id)
			defer stop()
			var all sync.WaitGroup
			seal := func() {
				if _, err := s.SealBatch(t.Context(), id, n); err != nil {
					t.Errorf("seal: %v", err)
				}
			}
			if c.seal {
				seal()
			}
			for w := range 8 {
				all.Go(func() {
					for i := range n {
						err := s.runItem(t, id, (i+w*n/8)%n, fmt.Sprint("w", w))
						if err != nil && !errors.Is(err, job.ErrEnded) && !errors.Is(err, ErrTaken) && !errors.Is(err, ErrStale) {
							t.Errorf("run: %v", err)
						}
					}
				})
				if w%4 == 1 {
					all.Go(seal)
				}
				if c.cancel && w%4 == 2 {
					all.Go(func() {
						if _, err := s.CancelBatch(t.Context(), id); err != nil && !errors.Is(err, job.ErrEnded) {
							t.Errorf("cancel: %v", err)
						}
					})
				}
			}
			all.Wait()
			seal()
			b := s.mustBatch(t, id)
			ended := 0
			for _, count := range b.Ended {
				ended += count
			}
			if !b.State.Final() || b.State == job.BatchCanceled != b.CancelRequested || ended != n || b.Jobs != n || b.Finished.IsZero() || !c.cancel && b.Ended[job.Succeeded] != n {
				t.Errorf("got %+v, want it ended with %d jobs", b, n)
			}
			did := DeliveryID(id, job.EventBatchCompleted, "https://example.com/hook")
			if d, err := s.GetDelivery(t.Context(), "default", did); err != nil || d.BatchID != id || d.JobID != "" || d.Event != job.EventBatchCompleted || d.State != Pending || d.Attempt != 1 {
				t.Errorf("got delivery %+v, %v", d, err)
			}
			if due := s.rdb.ZRange(t.Context(), outboxKey("default"), 0, -1).Val(); !slices.Equal(due, []string{did}) {
				t.Errorf("got outbox %v, want only %s", due, did)
			}
			if got := tasks(t, s, queue.Delivery); !slices.Equal(got, []string{"default/" + did + ".1"}) {
				t.Errorf("got tasks %v, want one for %s", got, did)
			}
			select {
			case <-woken:
			case <-time.After(time.Minute):
				t.Error("nobody was woken")
			}
			for _, key := range []string{batchKey("default", id), batchItemsKey("default", id)} {
				if ttl := s.rdb.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > s.retention {
					t.Errorf("%s expires in %s, want in %s", key, ttl, s.retention)
				}
			}
			if left := s.rdb.ZCard(t.Context(), batchWorkKey("default")).Val(); left != 0 {
				t.Errorf("%d batches are still to be looked at", left)
			}
		})
	}
}

func TestAddToBatchAgain(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	if _, err := s.CreateTenant(t.Context(), "default", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	id := s.newBatch(t, 30)
	s.addJobs(t, id, 20, 20) // ten of them again
	fault := []job.ItemError{{Index: 40, Code: "invalid", Message: "m"}}
	print40 := []Fingerprint{NewFingerprint([]byte("x"))}
	for range 2 {
		if err := s.Reject(t.Context(), id, print40, fault); err != nil {
			t.Fatal(err)
		}
	}
	if b := s.mustBatch(t, id); b.Jobs != 40 || b.Rejected != 1 || len(b.Errors) != 1 {
		t.Errorf("got %+v, want 40 jobs and one rejected", b)
	}
	// What is another job in the same place is told, whether the first was accepted or not.
	other := batchJob(id, 7)
	other.Fingerprint = NewFingerprint([]byte("other"))
	if err := s.AddToBatch(t.Context(), id, []NewJob{batchJob(id, 6), other}); !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), "jobs[7]") {
		t.Errorf("another job: got %v, want job.ErrConflict", err)
	}
	if err := s.AddToBatch(t.Context(), id, []NewJob{batchJob(id, 40)}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("another job in the place of a rejected one: got %v, want job.ErrConflict", err)
	}
	if _, err := s.SealBatch(t.Context(), id, 40); !errors.Is(err, job.ErrConflict) {
		t.Errorf("sealed with fewer: got %v, want job.ErrConflict", err)
	}
	if _, err := s.SealBatch(t.Context(), id, 41); err != nil {
		t.Errorf("seal: %v", err)
	}
	s.addJobs(t, id, 0, 40) // all there: harmless
	if err := s.AddToBatch(t.Context(), id, []NewJob{batchJob(id, 41)}); !errors.Is(err, ErrSealed) {
		t.Errorf("one more after the seal: got %v, want ErrSealed", err)
	}
	if err := s.AddToBatch(t.Context(), job.NewBatchID("default"), []NewJob{batchJob(id, 0)}); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("to no batch: got %v, want job.ErrNotFound", err)
	}
	prints, err := s.Fingerprints(t.Context(), id, 39, 3)
	if err != nil || !prints[0].Known() || prints[0].Rejected() || !prints[1].Rejected() || !prints[1].Same(print40[0]) || prints[2].Known() {
		t.Errorf("got fingerprints %v, %v", prints, err)
	}
	if usage := s.usage(t, "default"); usage.JobsQueued != 40 {
		t.Errorf("%d jobs are queued, want 40", usage.JobsQueued)
	}
}

// A batch whose sender is silent for a quarter of an hour is canceled; one that goes on
// is not, and neither is one that is complete.
func TestSweepBatches(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s := w.Records
	silent, going, complete := s.newBatch(t, 3), s.newBatch(t, 3), s.newBatch(t, 3)
	if _, err := s.SealBatch(t.Context(), complete, 3); err != nil {
		t.Fatal(err)
	}
	running, err := s.Start(t.Context(), job.ItemID(silent, 1), 1, "w1")
	if err != nil {
		t.Fatal(err)
	}
	w.forward(batchPatience - time.Minute)
	s.addJobs(t, going, 3, 1)
	w.forward(batchPatience + time.Minute)
	w.pass(t.Context(), batchPass, w.sweepBatches)
	if b := s.mustBatch(t, silent); b.State != job.BatchRunning || !b.CancelRequested || b.Ended[job.Canceled] != 2 {
		t.Errorf("got %+v, want it being canceled", b)
	}
	for id, want := range map[string]job.BatchStatus{going: job.BatchReceiving, complete: job.BatchRunning} {
		if b := s.mustBatch(t, id); b.State != want || b.CancelRequested || len(b.Ended) != 0 {
			t.Errorf("got %+v, want it %s", b, want)
		}
	}
	if err := s.End(t.Context(), running, Ending{Status: job.Canceled, Result: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if b := s.mustBatch(t, silent); b.State != job.BatchCanceled || b.Ended[job.Canceled] != 3 {
		t.Errorf("got %+v, want it canceled", b)
	}
}

// Whoever cancels may die before it has come to every job.
func TestSweepGoesOnCanceling(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s := w.Records
	id := s.newBatch(t, 5)
	if err := cancelBatchScript.Run(t.Context(), s.rdb, "default", script.Args{"id": id, "now": s.now(), "again": s.now().Add(cancelAgain), "overdue": ""}).Err(); err != nil {
		t.Fatal(err)
	}
	w.pass(t.Context(), batchPass, w.sweepBatches)
	if b := s.mustBatch(t, id); b.State != job.BatchRunning || len(b.Ended) != 0 {
		t.Errorf("got %+v, want nothing done yet", b)
	}
	w.forward(cancelAgain + time.Second)
	w.pass(t.Context(), batchPass, w.sweepBatches)
	if b := s.mustBatch(t, id); b.State != job.BatchCanceled || b.Ended[job.Canceled] != 5 {
		t.Errorf("got %+v, want it canceled", b)
	}
}

// A batch is given up once nobody sends it any more, and not before.
func TestRenewBatch(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s := w.Records
	id := s.newBatch(t, 1)
	const most = batchPatience - time.Minute
	for i := range 3 {
		w.forward(time.Duration(i+1) * most)
		if err := s.RenewBatch(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.pass(t.Context(), batchPass, w.sweepBatches)
	}
	if b := s.mustBatch(t, id); b.State != job.BatchReceiving {
		t.Errorf("got %+v, want it received", b)
	}
	w.forward(3*most + batchPatience + time.Minute)
	w.pass(t.Context(), batchPass, w.sweepBatches)
	if b := s.mustBatch(t, id); b.State != job.BatchCanceled {
		t.Errorf("got %+v, want it given up", b)
	}
	if err := s.RenewBatch(t.Context(), id); err != nil { // too late: it stays as it is
		t.Fatal(err)
	}
	if n, err := s.rdb.ZCard(t.Context(), batchWorkKey("default")).Result(); err != nil || n != 0 {
		t.Errorf("%d batches are to be given up, %v, want none", n, err)
	}
}

// A job beyond a quota leaves a hole where smaller ones come after it: they are canceled
// like the others.
func TestCancelBatchWithHoles(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 1)
	if _, err := s.CreateTenant(t.Context(), "default", job.Terms{Quotas: job.Quotas{BytesQueued: 4000}}); err != nil {
		t.Fatal(err)
	}
	id := s.newBatch(t, 0)
	jobs := []NewJob{batchJob(id, 0), batchJob(id, 1), batchJob(id, 2)}
	jobs[1].Spec.Source = strings.Repeat("x", 4000)
	if err := s.AddToBatch(t.Context(), id, jobs); err == nil || !strings.Contains(err.Error(), "jobs[1]") {
		t.Fatalf("got %v, want that jobs[1] is too much", err)
	}
	b, err := s.CancelBatch(t.Context(), id)
	if err != nil || b.State != job.BatchCanceled || b.Jobs != 2 || b.Ended[job.Canceled] != 2 || b.Extent != 3 {
		t.Errorf("got %+v, %v, want both jobs canceled", b, err)
	}
}

// A batch is forgotten, and what it took of Redis given back, once its record has expired.
func TestBatchesAreForgotten(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s := w.Records
	gone, kept := s.rejected(t, "", 3, "no").ID, s.newBatch(t, 1)
	if n := s.recorded(t); n < 2*batchCost+3*(itemCost+faultCost)+jobCost {
		t.Errorf("%d bytes are counted", n)
	}
	if err := s.rdb.Del(t.Context(), batchKey("default", gone), batchItemsKey("default", gone), batchErrorsKey("default", gone)).Err(); err != nil { // its time is over
		t.Fatal(err)
	}
	w.forward(s.retention + 2*expiredDelay)
	if err := w.sweepGarbage(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	w.forward(0)
	if left := s.traces(t, gone); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	entries := s.rdb.ZRange(t.Context(), batchesKey("default"), 0, -1).Val()
	if len(entries) != 1 || Position(entries[0]).id() != kept {
		t.Errorf("got %v, want only %s", entries, kept)
	}
	if n, want := s.recorded(t), int64(batchCost+itemCost+textCost(len("null"))+2*textCost(len("https://example.com/hook"))); n < want || n > want+2*jobCost {
		t.Errorf("%d bytes are counted, want those of the other one and its job", n)
	}
	// A record that is gone is not brought back by its job's end.
	s.rdb.Del(t.Context(), batchKey("default", kept))
	if err := s.End(t.Context(), s.mustStart(t, job.ItemID(kept, 0), 1), Ending{Status: job.Succeeded, Result: []byte("{}")}); err != nil {
		t.Errorf("a job outlives its batch: %v", err)
	}
	if n := s.rdb.Exists(t.Context(), batchKey("default", kept)).Val(); n != 0 {
		t.Error("it brought its batch's record back")
	}
}

// A batch whose jobs were all rejected says so for as long as any other; one that was
// sealed without a job has nothing to say.
func TestRejectedBatchIsKept(t *testing.T) {
	t.Parallel()
	s, ctx := openStore(t, Config{}), t.Context()
	for n, want := range map[int]time.Duration{0: time.Hour, 3: s.retention} {
		b := s.rejected(t, fmt.Sprint(n), n, "no")
		if b.State != job.BatchCompleted {
			t.Fatalf("got %+v, want it completed", b)
		}
		for _, k := range []string{batchKey("default", b.ID), batchItemsKey("default", b.ID), batchErrorsKey("default", b.ID)} {
			if left := s.rdb.PTTL(ctx, k).Val(); n > 0 || k == batchKey("default", b.ID) {
				if left > want || left < want-time.Minute {
					t.Errorf("%d rejected: %s is kept for %s, want %s", n, k, left, want)
				}
			}
		}
	}
}

// A batch whose sender is heard of just before the sweeper gives it up goes on.
func TestRenewedAtTheLastMoment(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	id := s.newBatch(t, 1)
	w.forward(batchPatience + time.Minute)
	due, err := w.due(ctx, batchWorkKey("default"))
	if err != nil || len(due) != 1 {
		t.Fatal(due, err)
	}
	giveUp := w.giveUp(ctx, "default")
	if err := s.RenewBatch(ctx, id); err != nil {
		t.Fatal(err)
	}
	renewed := s.rdb.ZScore(ctx, batchWorkKey("default"), id).Val()
	if err := w.each(ctx, batchWorkKey("default"), due, cancelAgain, giveUp); err != nil {
		t.Fatal(err)
	}
	if b := s.mustBatch(t, id); b.State != job.BatchReceiving || b.CancelRequested {
		t.Errorf("got %+v, want it received", b)
	}
	if at := s.rdb.ZScore(ctx, batchWorkKey("default"), id).Val(); at != renewed {
		t.Errorf("it is given up %.0f ms sooner than was said", renewed-at)
	}
	if err := s.AddToBatch(ctx, id, []NewJob{batchJob(id, 1)}); err != nil {
		t.Errorf("its next job: %v", err)
	}
}

func FuzzParseBatchPosition(f *testing.F) {
	f.Add("1700000000000:acme-b-mfrggzdfmztwq2lknnwg23tpoa")
	f.Add("acme-b-mfrggzdfmztwq2lknnwg23tpoa")
	f.Fuzz(func(t *testing.T, s string) {
		if p, ok := ParseBatchPosition("acme", s); ok && (len(p) != millisDigits+1+len(job.NewBatchID("acme")) || strings.ContainsAny(s, "[(+")) {
			t.Errorf("%q is taken for a position", s)
		}
	})
}
