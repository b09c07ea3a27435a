package record_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

func TestLifecycle(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	id := create(t, s, spec())
	if j := get(t, s, id); j.State != job.Queued || j.Epoch != 1 || j.Spec.Source != "print(1)" || j.Metadata["course"] != "42" {
		t.Fatalf("got %+v", j)
	}
	if got := pendingTasks(t, s, "normal"); !slices.Equal(got, []string{id + ".1"}) {
		t.Fatalf("got tasks %v, want only %s.1", got, id)
	}

	j := start(t, s, id, 1, "w1")
	if j.State != job.Running || j.Attempts != 1 || j.Spec.Source != "print(1)" {
		t.Fatalf("got %+v", j)
	}
	if again := start(t, s, id, 1, "w1"); again.Attempts != 1 {
		t.Errorf("start by the same worker counted twice: %d attempts", again.Attempts)
	}
	if _, err := s.Start(t.Context(), id, 1, "w2"); !errors.Is(err, record.ErrTaken) {
		t.Errorf("start by another worker: got %v, want ErrTaken", err)
	}
	if _, err := s.Start(t.Context(), id, 2, "w2"); !errors.Is(err, record.ErrStale) {
		t.Errorf("start of another epoch: got %v, want ErrStale", err)
	}

	listener := s.ListenDone(t.Context())
	defer listener.Close()
	listener.Subscribed(t, s.Redis(), "gb:done")
	woken, stop := listener.Wait(id)
	defer stop()
	if err := s.End(t.Context(), j, record.Ending{Status: job.Succeeded, Result: []byte(`{"a":1}`), ResultRef: "k"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
	case <-time.After(time.Minute):
		t.Error("the end woke nobody")
	}
	if err := s.End(t.Context(), j, record.Ending{Status: job.Failed, Result: []byte(`{}`)}); !errors.Is(err, job.ErrEnded) {
		t.Errorf("second end: got %v, want ErrEnded", err)
	}
	j = get(t, s, id)
	if j.State != job.Succeeded || string(j.Result) != `{"a":1}` || j.Spec != nil || j.Finished.IsZero() {
		t.Errorf("got %+v", j)
	}
	did := record.DeliveryID(id, job.EventCompleted, "https://example.com/hook")
	if got := pendingTasks(t, s, queue.Delivery); !slices.Equal(got, []string{"default/" + did + ".1"}) {
		t.Errorf("got delivery tasks %v", got)
	}
	if ttl := s.Redis().PTTL(t.Context(), "gb:{default}:job:"+id).Val(); ttl <= 0 {
		t.Errorf("an ended record has no expiry: %v", ttl)
	}
	if _, err := s.Start(t.Context(), id, 1, "w1"); !errors.Is(err, job.ErrEnded) {
		t.Errorf("start after the end: got %v, want ErrEnded", err)
	}
}

func TestRequeue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		cost         record.Cost
		cancel       bool
		attempts     int
		want         record.Requeued
		wantAttempts int
	}{
		{"a lost worker costs an attempt", record.CostAttempt, false, 1, record.RequeueOK, 1},
		{"a drain costs none", record.CostNothing, false, 1, record.RequeueOK, 0},
		{"attempts used up", record.CostAttempt, false, 3, record.RequeueExhausted, 3},
		{"a drain works on the last attempt", record.CostNothing, false, 3, record.RequeueOK, 2},
		{"an outage costs none", record.CostOutage, false, 1, record.RequeueOK, 0},
		{"an outage at the last attempt", record.CostOutage, false, 3, record.RequeueOK, 2},
		{"cancelled in an outage", record.CostOutage, true, 1, record.RequeueCanceled, 1},
		{"cancelled meanwhile", record.CostAttempt, true, 1, record.RequeueCanceled, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, _ := open(t)
			id, epoch := create(t, s, spec()), 1
			for ; epoch < c.attempts; epoch++ {
				start(t, s, id, epoch, "w")
				if _, err := s.Requeue(t.Context(), id, epoch, "w", record.CostAttempt, 0); err != nil {
					t.Fatal(err)
				}
			}
			old := start(t, s, id, epoch, "w")
			if c.cancel {
				if got, err := s.Cancel(t.Context(), id, nil); got != job.Running || err != nil {
					t.Fatalf("cancel: got %v %v", got, err)
				}
			}
			got, err := s.Requeue(t.Context(), id, epoch, "w", c.cost, 0)
			if err != nil || got != c.want {
				t.Fatalf("got %q %v, want %q", got, err, c.want)
			}
			j := get(t, s, id)
			if j.Attempts != c.wantAttempts {
				t.Errorf("got %d attempts, want %d", j.Attempts, c.wantAttempts)
			}
			if got != record.RequeueOK {
				return
			}
			if j.State != job.Queued || j.Epoch != epoch+1 {
				t.Errorf("got state %s epoch %d, want queued %d", j.State, j.Epoch, epoch+1)
			}
			if err := s.End(t.Context(), old, record.Ending{Status: job.Succeeded, Result: []byte("{}")}); !errors.Is(err, record.ErrStale) {
				t.Errorf("end by the loser: got %v, want ErrStale", err)
			}
			if got, _ := s.Requeue(t.Context(), id, epoch, "w", c.cost, 0); got != record.RequeueStale {
				t.Errorf("second requeue: got %q, want stale", got)
			}
		})
	}
}

// TestOutagesCostNothingForADay: then they cost attempts, and the job comes to its end.
func TestOutagesCostNothingForADay(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	id := create(t, s, spec())
	outage := func(epoch int) record.Requeued {
		t.Helper()
		start(t, s, id, epoch, "w")
		got, err := s.Requeue(t.Context(), id, epoch, "w", record.CostOutage, 0)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for epoch := 1; epoch <= 10; epoch++ {
		if got := outage(epoch); got != record.RequeueOK {
			t.Fatalf("outage %d: got %q", epoch, got)
		}
	}
	j := get(t, s, id)
	if since := time.Since(j.OutageSince); j.Attempts != 0 || since < 0 || since > time.Minute {
		t.Errorf("after 10 outages: got %d attempts, outages since %s", j.Attempts, j.OutageSince)
	}
	dayAgo := time.Now().Add(-24*time.Hour - time.Second).UnixMilli()
	s.Redis().HSet(t.Context(), "gb:{default}:job:"+id, "outage", dayAgo)
	for i, want := range []record.Requeued{record.RequeueOK, record.RequeueOK, record.RequeueExhausted} {
		if got := outage(11 + i); got != want {
			t.Errorf("outage %d after a day: got %q, want %q", i+1, got, want)
		}
		if j := get(t, s, id); j.Attempts != i+1 {
			t.Errorf("outage %d after a day: got %d attempts", i+1, j.Attempts)
		}
	}
}

func TestCancelQueued(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	id := create(t, s, spec())
	got, err := s.Cancel(t.Context(), id, []byte(`{"status":"canceled"}`))
	if got != job.Canceled || err != nil {
		t.Fatalf("got %v %v", got, err)
	}
	if _, err := s.Start(t.Context(), id, 1, "w"); !errors.Is(err, job.ErrEnded) {
		t.Errorf("start of a cancelled job: got %v, want ErrEnded", err)
	}
	if _, err := s.Cancel(t.Context(), id, nil); !errors.Is(err, job.ErrEnded) {
		t.Errorf("second cancel: got %v, want ErrEnded", err)
	}
	if _, err := s.Cancel(t.Context(), job.NewID("default"), nil); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("cancel of nothing: got %v, want ErrNotFound", err)
	}
}

func TestFailureHasAllLeadingFields(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	id := create(t, s, spec())
	start(t, s, id, 1, "w1")
	if err := s.EndUnrun(t.Context(), id, 1, job.InternalError, &job.Error{Code: "worker_lost", Message: "m"}); err != nil {
		t.Fatal(err)
	}
	var r job.Result
	if err := json.Unmarshal(get(t, s, id).Result, &r); err != nil {
		t.Fatal(err)
	}
	if r.ID != id || r.Status != job.InternalError || r.Error.Code != "worker_lost" || r.Attempt != 1 || r.Timing.StartedAt == nil {
		t.Errorf("got %+v", r)
	}
}

// A job whose deadline JSON can't hold, as a worker that was taken over may leave it, ends.
func TestEndOfATimeWithoutJSON(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	spoil := func(id string) {
		t.Helper()
		if err := s.Redis().HSet(t.Context(), "gb:{default}:job:"+id, "deadline", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	running, queued := create(t, s, spec()), create(t, s, spec())
	spoil(running)
	spoil(queued)
	start(t, s, running, 1, "w1")
	if err := s.EndUnrun(t.Context(), running, 1, job.InternalError, nil); err != nil {
		t.Error(err)
	}
	if _, err := s.Cancel(t.Context(), queued, nil); err != nil {
		t.Error(err)
	}
}

func TestFailureFitsIntoTheRecord(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	most := spec()
	for i := range job.MaxMetadata {
		most.Metadata[fmt.Sprint(i, strings.Repeat("k", job.MaxMetadataBytes-3))] = strings.Repeat("\x01", job.MaxMetadataBytes)
	}
	id := create(t, s, most)
	start(t, s, id, 1, "w1")
	if err := s.EndUnrun(t.Context(), id, 1, job.Canceled, nil); err != nil {
		t.Fatal(err)
	}
	if n := len(get(t, s, id).Result); n > record.MaxInline {
		t.Errorf("the result in the record has %d bytes", n)
	}
	if got := get(t, s, id).Metadata; len(got) != len(most.Metadata) {
		t.Errorf("the record has %d pairs of metadata", len(got))
	}
}

func TestEndByAnotherWorkerOfTheSameEpoch(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	id := create(t, s, spec())
	first := start(t, s, id, 1, "w1")
	// As after a failover to a Redis that had not heard of the start yet.
	ctx := t.Context()
	s.Redis().HSet(ctx, "gb:{default}:job:"+id, "state", "queued")
	s.Redis().HDel(ctx, "gb:{default}:job:"+id, "worker")
	second := start(t, s, id, 1, "w2")
	if err := s.End(ctx, first, record.Ending{Status: job.Failed, Result: []byte("{}")}); !errors.Is(err, record.ErrStale) {
		t.Errorf("end by the worker that lost its start: got %v, want ErrStale", err)
	}
	if err := s.End(ctx, second, record.Ending{Status: job.Succeeded, Result: []byte("{}")}); err != nil {
		t.Error(err)
	}
}
