package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) (*record.Store, *gbtest.RedisServer) {
	t.Helper()
	server := gbtest.Redis(t)
	s, err := record.Open(t.Context(), record.Config{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, server
}

func spec() job.Spec {
	return job.Spec{
		Runtime: "python", Source: "print(1)", Metadata: map[string]string{"course": "42"},
		Callback: &job.Callback{URL: "https://example.com/hook"},
	}
}

func create(t *testing.T, s *record.Store, spec job.Spec) string {
	t.Helper()
	id := job.NewID("default")
	if err := s.Create(t.Context(), id, spec, ""); err != nil {
		t.Fatal(err)
	}
	return id
}

func get(t *testing.T, s *record.Store, id string) record.Record {
	t.Helper()
	j, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func start(t *testing.T, s *record.Store, id string, epoch int, worker string) record.Record {
	t.Helper()
	j, err := s.Start(t.Context(), id, epoch, worker)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func pendingTasks(t *testing.T, s *record.Store, queue string) []string {
	t.Helper()
	tasks, err := asynq.NewInspectorFromRedisClient(s.Redis()).ListPendingTasks(queue)
	if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		t.Fatal(err)
	}
	var ids []string
	for _, task := range tasks {
		ids = append(ids, task.ID)
	}
	return ids
}

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

func TestDeliveryAttempts(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	id := create(t, s, spec())
	j := start(t, s, id, 1, "w")
	if err := s.End(t.Context(), j, record.Ending{Status: job.Succeeded, Result: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	did := record.DeliveryID(id, job.EventCompleted, j.Callback)
	d, err := s.GetDelivery(t.Context(), "default", did)
	if err != nil || d.State != record.Pending || d.Attempt != 1 || d.JobID != id {
		t.Fatalf("got %+v %v", d, err)
	}
	next := time.Now().Add(time.Hour)
	for range 2 { // the second time it is recorded already
		if err := s.Attempted(t.Context(), d, record.Outcome{State: record.Pending, Status: 503, Problem: "the endpoint answered 503", Next: next}, record.Pace{Most: 16}); err != nil {
			t.Fatal(err)
		}
	}
	d, err = s.GetDelivery(t.Context(), "default", did)
	if err != nil || d.Attempt != 2 || d.LastStatus != 503 || d.Due.UnixMilli() != next.UnixMilli() {
		t.Fatalf("got %+v %v", d, err)
	}
	if err := s.Attempted(t.Context(), d, record.Outcome{State: record.Delivered, Status: 200}, record.Pace{Most: 16}); err != nil {
		t.Fatal(err)
	}
	if n := s.Redis().ZCard(t.Context(), "gb:{default}:outbox").Val(); n != 0 {
		t.Errorf("%d entries left in the outbox", n)
	}
}

func TestDeliveryIDs(t *testing.T) {
	t.Parallel()
	if a, b := record.DeliveryID("a", "b", "cd"), record.DeliveryID("a", "bc", "d"); a == b {
		t.Error("two endpoints share a message id")
	}
}

func TestOpenHidesThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://:s3cret@127.0.0.1:1/0", "redis://:s3cret@[::/0", "nonsense s3cret"} {
		_, err := record.Open(t.Context(), record.Config{URL: url})
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

func TestNothingAcceptedIsLostInARestart(t *testing.T) {
	t.Parallel()
	s, server := open(t)
	id := create(t, s, spec())
	server.Kill()
	if err := s.Create(t.Context(), job.NewID("default"), spec(), ""); err == nil {
		t.Error("a job was accepted without Redis")
	}
	server.Restart()
	if j := get(t, s, id); j.State != job.Queued {
		t.Errorf("got %+v", j)
	}
}

func TestPublishedRuntimes(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	if err := s.Fleet.PublishRuntimes(t.Context(), []fleet.Runtime{{Name: "python", Version: "3.13"}, {Name: "bash"}}); err != nil {
		t.Fatal(err)
	}
	list, err := s.Fleet.Runtimes(t.Context())
	if err != nil || len(list) != 2 || list[0].Name != "bash" || list[1].Version != "3.13" {
		t.Errorf("got %+v %v", list, err)
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

// TestRedisThatHangs stops Redis without ending it: connections stay and nobody answers.
func TestRedisThatHangs(t *testing.T) {
	t.Parallel()
	s, server := open(t)
	server.Hangs = true
	ofProduction := process(t, server.URL())
	id := create(t, s, spec())
	j := start(t, s, id, 1, "w1")
	server.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { server.Signal(syscall.SIGCONT) })
	for name, call := range map[string]func(context.Context) error{
		"get":    func(ctx context.Context) error { _, err := s.Get(ctx, id); return err },
		"create": func(ctx context.Context) error { return s.Create(ctx, job.NewID("default"), spec(), "") },
		"start":  func(ctx context.Context) error { _, err := s.Start(ctx, id, 1, "w1"); return err },
		"end":    func(ctx context.Context) error { return s.End(ctx, j, record.Ending{Status: job.Failed}) },
		"cancel": func(ctx context.Context) error { _, err := s.Cancel(ctx, id, nil); return err },
		"requeue": func(ctx context.Context) error {
			_, err := s.Requeue(ctx, id, 1, "w1", record.CostAttempt, 0)
			return err
		},
		"beat": func(ctx context.Context) error { return s.Fleet.Beat(ctx, fleet.Worker{ID: "w1"}) },
		"ping": s.Ping,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if err := call(ctx); err == nil {
				t.Error("it succeeded without an answer")
			}
			if took := time.Since(began); took > gbtest.AtOnce { // without its context a minute
				t.Errorf("it took %s, its context had ended after 0.2 s", took)
			}
		})
	}
	t.Run("without a deadline", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		if _, err := ofProduction.Get(t.Context(), id); err == nil {
			t.Error("it succeeded without an answer")
		}
		if took := time.Since(began); took > gbtest.AtOnce {
			t.Errorf("it took %s", took)
		}
	})
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
