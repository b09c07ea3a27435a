package producer_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// specs yields them, then fails with err if it is not nil.
func specs(list []job.Spec, err error) iter.Seq2[job.Spec, error] {
	return func(yield func(job.Spec, error) bool) {
		for _, s := range list {
			if !yield(s, nil) {
				return
			}
		}
		if err != nil {
			yield(job.Spec{}, err)
		}
	}
}

// numbered are n jobs that differ.
func numbered(n int) []job.Spec {
	list := make([]job.Spec, n)
	for i := range list {
		list[i] = job.Spec{Runtime: "python3", Source: fmt.Sprintf("print(%d)", i), Metadata: map[string]string{"n": fmt.Sprint(i)}}
	}
	return list
}

func (s suite) submitBatch(t *testing.T, key string, list []job.Spec) job.Batch {
	t.Helper()
	b, err := s.jobs.SubmitBatch(t.Context(), producer.BatchOptions{BatchOptions: job.BatchOptions{IdempotencyKey: key, Metadata: map[string]string{"course": "cs1"}}}, specs(list, nil))
	if err != nil {
		t.Fatalf("submit batch: %v", err)
	}
	return b
}

func (s suite) results(t *testing.T, id string, from int) []job.BatchResult {
	t.Helper()
	var list []job.BatchResult
	for r, err := range s.jobs.BatchResults(t.Context(), id, from) {
		if err != nil {
			t.Fatalf("results: %v", err)
		}
		list = append(list, r)
	}
	return list
}

func (s suite) batchLife(t *testing.T) {
	const n = 250 // some groups
	list := numbered(n)
	list[7].Runtime, list[200].IdempotencyKey = "cobol", "key"
	sent := 0
	b, err := s.jobs.SubmitBatch(t.Context(), producer.BatchOptions{
		BatchOptions: job.BatchOptions{Metadata: map[string]string{"course": "cs1"}}, Progress: func(n int) { sent = n },
	}, specs(list, nil))
	if err != nil {
		t.Fatal(err)
	}
	if b.Status != job.BatchRunning || b.Total != n || b.Jobs != n-2 || b.Rejected != 2 || b.Ended != 0 || b.SealedAt == nil || b.FinishedAt != nil || sent != n {
		t.Errorf("got %+v, told of %d sent, want a running batch of %d jobs, two rejected", b, sent, n)
	}
	if len(b.Errors) != 2 || b.Errors[0].Index != 7 || b.Errors[1].Index != 200 || b.Errors[0].Code != job.CodeInvalid || b.Errors[0].Errors[0].Field != "runtime" ||
		b.Errors[1].Errors[0].Field != "idempotency_key" {
		t.Errorf("got errors %+v, want those of jobs 7 and 200", b.Errors)
	}
	waited := make(chan error, 1)
	go func() {
		b, err := s.jobs.WaitBatch(t.Context(), b.ID)
		if err == nil && b.Status != job.BatchCompleted {
			err = fmt.Errorf("got %+v, want a completed batch", b)
		}
		waited <- err
	}()
	var workers sync.WaitGroup
	indexes := make(chan int, n)
	for i := range n {
		if i != 7 && i != 200 {
			indexes <- i
		}
	}
	close(indexes)
	for range 8 {
		workers.Go(func() {
			for i := range indexes {
				s.w.End(t, s.w.Start(t, job.ItemID(b.ID, i)), nil, func(r *job.Result) {
					r.Stdout = fmt.Sprintln(i)
					if i%10 == 0 {
						r.Status = job.Failed
					}
				})
			}
		})
	}
	workers.Wait()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	b, err = s.jobs.GetBatch(t.Context(), b.ID)
	want := map[job.Status]int{job.Succeeded: 248 - 24, job.Failed: 24}
	if err != nil || b.Ended != 248 || !maps.Equal(b.Counts, want) || b.FinishedAt == nil || b.Metadata["course"] != "cs1" || b.ResultsURL == "" {
		t.Errorf("got %+v, %v, want counts %v", b, err, want)
	}
	all := s.results(t, b.ID, 0)
	if len(all) != n {
		t.Fatalf("got %d results, want %d", len(all), n)
	}
	for i, r := range all {
		switch rejected := i == 7 || i == 200; {
		case r.Index != i, rejected != (r.Error != nil), rejected == (r.Result != nil):
			t.Errorf("result %d: got %+v", i, r)
		case !rejected && (r.Result.Stdout != fmt.Sprintln(i) || r.Result.Metadata["n"] != fmt.Sprint(i) || r.ID != r.Result.ID || r.Result.Runtime.Name != "python"):
			t.Errorf("result %d: got %+v", i, r.Result)
		}
	}
	if diff := cmp.Diff(all[100:], s.results(t, b.ID, 100)); diff != "" {
		t.Errorf("from 100: %s", diff)
	}
	if got := s.results(t, b.ID, n); len(got) != 0 {
		t.Errorf("behind the end: got %v", got)
	}
	if _, err := s.jobs.CancelBatch(t.Context(), b.ID); !errors.Is(err, job.ErrEnded) {
		t.Errorf("cancel: got %v, want ErrEnded", err)
	}
}

// The same batch again under its key, whole or in parts, is the same batch.
func (s suite) batchReplay(t *testing.T) {
	list := numbered(230)
	list[3].Runtime = "cobol"
	list[4].Source = strings.Repeat("# \x01\n", 20_000) // too large for the record
	broke := errors.New("the source broke")
	options := producer.BatchOptions{BatchOptions: job.BatchOptions{IdempotencyKey: "replay " + t.Name(), Metadata: map[string]string{"course": "cs1"}}}
	_, err := s.jobs.SubmitBatch(t.Context(), options, specs(list[:120], broke))
	if !errors.Is(err, broke) {
		t.Fatalf("got %v, want the source's error", err)
	}
	first := s.submitBatch(t, options.IdempotencyKey, list)
	if first.Total != 230 || first.Rejected != 1 || first.Status != job.BatchRunning {
		t.Errorf("got %+v", first)
	}
	again := s.submitBatch(t, options.IdempotencyKey, list)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("sent again: %s", diff)
	}
	keys, err := s.w.Raw.Keys(t.Context(), "gb:{default}:job:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for i := range list {
		if slices.Contains(keys, "gb:{default}:job:"+job.ItemID(first.ID, i)) {
			made++
		}
	}
	if made != 229 {
		t.Errorf("%d jobs were made, want 229", made)
	}
	for what, other := range map[string][]job.Spec{
		"another job": slices.Concat(list[:200], numbered(1), list[201:]), "fewer": list[:229], "more": append(slices.Clone(list), numbered(1)...),
	} {
		_, err := s.jobs.SubmitBatch(t.Context(), options, specs(other, nil))
		var said *job.Error
		if !errors.As(err, &said) || said.Code != job.CodeConflict && !errors.Is(err, job.ErrEnded) {
			t.Errorf("%s: got %v, want a conflict", what, err)
		}
	}
	options.Metadata = nil
	if _, err := s.jobs.SubmitBatch(t.Context(), options, specs(list, nil)); !errors.Is(err, job.ErrConflict) {
		t.Errorf("other options: got %v, want ErrConflict", err)
	}
	if b, err := s.jobs.GetBatch(t.Context(), first.ID); err != nil || b.Total != 230 || b.CancelRequested {
		t.Errorf("after the conflicts: got %+v, %v", b, err)
	}
	if b, err := s.jobs.CancelBatch(t.Context(), first.ID); err != nil || b.Status != job.BatchCanceled {
		t.Errorf("cancel: got %+v, %v", b, err)
	}
	if b := s.submitBatch(t, options.IdempotencyKey, list); b.ID != first.ID || b.Status != job.BatchCanceled {
		t.Errorf("sent again after its end: got %+v", b)
	}
}

func (s suite) batchWithoutKey(t *testing.T) {
	broke := errors.New("the source broke")
	_, err := s.jobs.SubmitBatch(t.Context(), producer.BatchOptions{}, specs(numbered(150), broke))
	if !errors.Is(err, broke) {
		t.Fatalf("got %v, want the source's error", err)
	}
	// It can't be gone on with, so nothing of it stays.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		page, err := s.jobs.ListBatches(t.Context(), producer.BatchListOptions{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if b := page.Batches[0]; b.Status == job.BatchCanceled && b.Counts[job.Canceled] == b.Jobs && b.Total <= 150 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("got %+v, want it canceled", b)
		}
	}
}

func (s suite) batchCancel(t *testing.T) {
	b := s.submitBatch(t, "", numbered(120))
	running := s.w.Start(t, job.ItemID(b.ID, 5))
	s.w.End(t, s.w.Start(t, job.ItemID(b.ID, 6)), nil, nil)
	b, err := s.jobs.CancelBatch(t.Context(), b.ID)
	if err != nil || b.Status != job.BatchRunning || !b.CancelRequested || b.Counts[job.Canceled] != 118 || b.Ended != 119 {
		t.Fatalf("got %+v, %v, want all canceled but the one that runs", b, err)
	}
	if r, err := s.w.Records.Get(t.Context(), running.ID); err != nil || !r.CancelRequested {
		t.Errorf("got %+v, %v, want the running job asked to stop", r, err)
	}
	s.w.End(t, running, nil, func(r *job.Result) { r.Status = job.Canceled })
	b, err = s.jobs.WaitBatch(t.Context(), b.ID)
	if err != nil || b.Status != job.BatchCanceled || b.Counts[job.Canceled] != 119 || b.Counts[job.Succeeded] != 1 {
		t.Errorf("got %+v, %v, want a canceled batch", b, err)
	}
	again, err := s.jobs.CancelBatch(t.Context(), b.ID)
	if diff := cmp.Diff(b, again); err != nil || diff != "" {
		t.Errorf("a second cancel: %v %s", err, diff)
	}
}

func (s suite) batchInvalid(t *testing.T) {
	var invalid job.Invalid
	for what, options := range map[string]job.BatchOptions{
		"idempotency_key": {IdempotencyKey: "\x01"}, "callback.url": {Callback: &job.Callback{URL: "https://u:p@example.com"}}, "metadata": {Metadata: map[string]string{"": ""}},
	} {
		_, err := s.jobs.SubmitBatch(t.Context(), producer.BatchOptions{BatchOptions: options}, specs(numbered(1), nil))
		if !errors.As(err, &invalid) || len(invalid) != 1 || invalid[0].Field != what {
			t.Errorf("%s: got %v", what, err)
		}
	}
	_, err := s.jobs.SubmitBatch(t.Context(), producer.BatchOptions{}, specs(nil, nil))
	if !errors.As(err, &invalid) || invalid[0].Field != "jobs" {
		t.Errorf("no jobs: got %v, want job.Invalid", err)
	}
	var left *producer.BatchError
	_, err = s.jobs.SubmitBatch(t.Context(), producer.BatchOptions{}, specs(slices.Repeat([]job.Spec{{Runtime: "cobol"}}, job.MaxBatch+1), nil))
	if !errors.As(err, &left) || !errors.As(err, &invalid) || left.Batch.Status != job.BatchCanceled || left.Batch.Jobs != 0 {
		t.Errorf("too many jobs: got %v", err)
	}
	// Nothing but rejected jobs: it ends at once.
	b := s.submitBatch(t, "", slices.Repeat([]job.Spec{{Runtime: "cobol"}}, 2*job.MaxBatchErrors))
	if b.Status != job.BatchCompleted || b.Rejected != 2*job.MaxBatchErrors || len(b.Errors) != job.MaxBatchErrors {
		t.Errorf("got %s with %d rejected and %d errors", b.Status, b.Rejected, len(b.Errors))
	}
	if all := s.results(t, b.ID, 0); len(all) != b.Total || all[150].Error == nil || all[150].Error.Code != job.CodeInvalid {
		t.Errorf("got %d results, %+v", len(all), all[len(all)-1])
	}
}

func (s suite) batchOthers(t *testing.T) {
	b := s.submitBatch(t, "", numbered(2))
	for _, id := range []string{b.ID, job.NewBatchID("other"), job.NewBatchID("default"), "", "..", "other-b-../../x", job.ItemID(b.ID, 0)} {
		_, getErr := s.other.GetBatch(t.Context(), id)
		_, waitErr := s.other.WaitBatch(t.Context(), id)
		_, cancelErr := s.other.CancelBatch(t.Context(), id)
		var resultsErr error
		for _, resultsErr = range s.other.BatchResults(t.Context(), id, 0) {
			break
		}
		for verb, err := range map[string]error{"get": getErr, "wait": waitErr, "cancel": cancelErr, "results": resultsErr} {
			if !errors.Is(err, job.ErrNotFound) {
				t.Errorf("%s %q as another tenant: got %v, want ErrNotFound", verb, id, err)
			}
		}
	}
	if page, err := s.other.ListBatches(t.Context(), producer.BatchListOptions{}); err != nil || len(page.Batches) != 0 {
		t.Errorf("another tenant sees %+v, %v", page, err)
	}
	if b, err := s.jobs.GetBatch(t.Context(), b.ID); err != nil || b.Status != job.BatchRunning || b.CancelRequested {
		t.Errorf("got %+v, %v, want the batch as it was", b, err)
	}
}

func (s suite) batchList(t *testing.T) {
	var want []string
	for range 3 {
		want = slices.Insert(want, 0, s.submitBatch(t, "", numbered(1)).ID)
		time.Sleep(2 * time.Millisecond) // another time of creation
	}
	var got []string
	o := producer.BatchListOptions{Limit: 2}
	for range 2 {
		page, err := s.jobs.ListBatches(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range page.Batches {
			got = append(got, b.ID)
		}
		o.Cursor = page.Next
	}
	if len(got) < 3 || !slices.Equal(got[:3], want) {
		t.Errorf("got %v, want %v first", got, want)
	}
	var invalid job.Invalid
	if _, err := s.other.ListBatches(t.Context(), o); o.Cursor == "" || !errors.As(err, &invalid) {
		t.Errorf("another tenant with the cursor: got %v, want job.Invalid", err)
	}
	if _, err := s.jobs.ListBatches(t.Context(), producer.BatchListOptions{Limit: producer.MaxPage + 1}); !errors.As(err, &invalid) {
		t.Errorf("got %v, want job.Invalid", err)
	}
}

// A batch beyond the tenant's quota is taken in parts, by whoever comes back.
func (s suite) batchQuota(t *testing.T) {
	if _, err := s.w.Records.CreateTenant(t.Context(), "small", job.Terms{Quotas: job.Quotas{JobsQueued: 150}}); err != nil && !errors.Is(err, job.ErrTenantExists) {
		t.Fatal(err)
	}
	small := s.open(t, s.w, "small")
	list := numbered(200)
	options := producer.BatchOptions{BatchOptions: job.BatchOptions{IdempotencyKey: "quota " + t.Name()}}
	_, err := small.SubmitBatch(t.Context(), options, specs(list, nil))
	var left *producer.BatchError
	var said *job.Error
	if !errors.As(err, &left) || !errors.As(err, &said) || said.Code != job.CodeQuotaExceeded || left.Batch.Jobs != 150 || left.Batch.Status != job.BatchReceiving {
		t.Fatalf("got %v, want 150 jobs taken and the quota named", err)
	}
	for i := range 60 {
		s.w.Start(t, job.ItemID(left.Batch.ID, i))
	}
	b, err := small.SubmitBatch(t.Context(), options, specs(list, nil))
	if err != nil || b.ID != left.Batch.ID || b.Jobs != 200 || b.Status != job.BatchRunning {
		t.Errorf("got %+v, %v, want the rest taken", b, err)
	}
}
