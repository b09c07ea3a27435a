package record_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
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
