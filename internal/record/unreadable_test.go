package record

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/queue/queuetest"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// roles are an api's store and a worker's, each as its user in Redis, and the client of an operator.
type roles struct {
	server      *gbtest.RedisServer
	api, worker *Store
	admin       *redis.Client
}

func openRoles(t *testing.T) roles {
	t.Helper()
	server := gbtest.Redis(t)
	o, err := redis.ParseURL(server.Admin())
	if err != nil {
		t.Fatal(err)
	}
	r := roles{server: server, admin: redis.NewClient(o)}
	t.Cleanup(func() { r.admin.Close() })
	r.api, r.worker = r.open(t, server.API()), r.open(t, server.Worker())
	return r
}

func (r roles) open(t *testing.T, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{URL: url, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// must sends a command as the worker's user.
func (r roles) must(t *testing.T, command ...any) {
	t.Helper()
	if err := r.worker.rdb.Do(t.Context(), command...).Err(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

// TestDeputyDeletesWhatIsLent: a worker names in lent what only the api could delete.
func TestDeputyDeletesWhatIsLent(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx, names := t.Context(), []string{"tenant", "secrets", "webhook"}
	if _, err := r.api.CreateTenant(ctx, "acme", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	r.admin.HSet(ctx, "gb:{acme}:secrets", "API", "{}")
	r.admin.HSet(ctx, "gb:{acme}:webhook", "generation", 3)
	for i, name := range names {
		r.must(t, "ZADD", "gb:{acme}:lent", i, name)
		r.must(t, "HSET", "gb:{acme}:lent:bytes", name, 1)
	}
	r.must(t, "ZADD", "gb:{acme}:lent", 9, "jobs") // of which no bytes are counted
	r.must(t, "ZADD", "gb:{acme}:garbage", 1, job.NewID("acme"))
	w, _ := sweepingOver(r.api)
	if err := w.sweepGarbage(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if r.admin.Exists(ctx, script.Key("acme", name)).Val() == 0 {
			t.Errorf("%s is gone", name)
		}
	}
	if left := r.admin.ZRange(ctx, lentKey("acme"), 0, -1).Val(); len(left) > 0 {
		t.Errorf("%v is still lent, in the way of what is", left)
	}
}

// TestDeputyDeletesWhatATaskNames: asynq deletes the key that a task names as its lock.
func TestDeputyDeletesWhatATaskNames(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx, task := t.Context(), "acme/msg_x.1"
	r.admin.Set(ctx, "gb:{acme}:idem:x", task, time.Hour)
	if err := r.worker.Queue.Enqueue(ctx, queue.DeliverTask("acme", "msg_x", queue.Turn{Attempt: 1}, false, time.Time{})); err != nil {
		t.Fatal(err)
	}
	message := r.admin.HGet(ctx, "asynq:{deliveries}:t:"+task, "msg").Val()
	const lock = "gb:{acme}:idem:x"
	r.must(t, "HSET", "asynq:{deliveries}:t:"+task, "msg", message+"\x52"+string(rune(len(lock)))+lock) // field 10, a string
	srv, took := serve(t, r.api, queue.Deliveries(), time.Second)
	queuetest.Within(t, took, task, gbtest.AtOnce)
	srv.Shutdown()
	if r.admin.Exists(ctx, lock).Val() == 0 {
		t.Error("the idempotency key is gone")
	}
}

// TestForeignEntries: what a tenant's sets name of another tenant's is not touched.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	id := job.NewID("zed")
	if err := r.api.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	b, _, err := r.api.OpenBatch(ctx, "zed", job.BatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.must(t, "ZADD", "gb:{acme}:deadline", 1, id)
	r.must(t, "ZADD", "gb:{acme}:garbage", 1, id, 1, b.ID)
	r.must(t, "ZADD", "gb:{acme}:batchwork", 1, b.ID)
	r.must(t, "HSET", "gb:{acme}:running", id, "1 dead")
	r.must(t, "HSET", "gb:{acme}:delivery:msg_x", "state", "pending", "job", id, "url", "https://evil.example", "attempt", 1)
	w, deleted := sweepingOver(r.api)
	for range 2 {
		for _, p := range w.passes() {
			if err := p.step(ctx, "acme"); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
		w.forward(lostAfter)
	}
	if j, err := r.api.Get(ctx, id); err != nil || j.State != job.Queued {
		t.Errorf("the job is %s, %v", j.State, err)
	}
	if b, err = r.api.GetBatch(ctx, b.ID); err != nil || b.CancelRequested {
		t.Errorf("the batch's cancellation is %t, %v", b.CancelRequested, err)
	}
	deleted.Range(func(what, _ any) bool { t.Errorf("objects of %s were deleted", what); return true })
	if _, err := r.api.GetDelivery(ctx, "acme", "msg_x"); !errors.Is(err, ErrNoDelivery) {
		t.Errorf("a delivery of another's job: got %v", err)
	}
	for _, k := range []string{"deadline", "garbage", "batchwork", "running"} {
		if r.admin.Exists(ctx, script.Key("acme", k)).Val() > 0 {
			t.Errorf("%s still names what is another's", k)
		}
	}
}

// TestUnknownPriorityHoldsUpNobody: asynq refuses the queue before anything is sent.
func TestUnknownPriorityHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for _, priority := range []string{" ", "x", ""} {
		t.Run(fmt.Sprintf("%q", priority), func(t *testing.T) {
			t.Parallel()
			w, _ := sweeping(t)
			s, ctx := w.Records, t.Context()
			bad, good := s.mustCreate(t, "bbb", ""), []string{s.mustCreate(t, "bbb", ""), s.mustCreate(t, "zzz", "")}
			s.rdb.HSet(ctx, jobKey("bbb", bad), "priority", priority)
			if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks("normal"); err != nil {
				t.Fatal(err)
			}
			w.forward(time.Minute)
			if err := w.sweepOpen(ctx, "bbb", "zzz"); (err == nil) != (priority == "") {
				t.Errorf("got %v", err)
			}
			got := tasks(t, s, "normal")
			for _, id := range good {
				if !slices.Contains(got, id+".1") {
					t.Errorf("job %s has no task", id)
				}
			}
		})
	}
}

// TestEnqueueRefusedQueue: of a round trip, what asynq refuses holds up nothing else.
func TestEnqueueRefusedQueue(t *testing.T) {
	t.Parallel()
	s := store(t)
	good := queue.RunTask(job.NewID("default"), 1, job.Normal, time.Time{})
	err := s.Queue.EnqueueAll(t.Context(), []queue.Task{queue.RunTask("a", 1, " ", time.Time{}), queue.RunTask("b", 1, " ", time.Time{}), good})
	if err == nil || !strings.Contains(err.Error(), "a.1") {
		t.Errorf("got %v, want the first that was refused named", err)
	}
	if got := tasks(t, s, "normal"); !slices.Equal(got, []string{good.ID()}) {
		t.Errorf("got tasks %v, want %s", got, good.ID())
	}
}

// TestRequeueWithoutPriority: the reaper's process lives on.
func TestRequeueWithoutPriority(t *testing.T) {
	t.Parallel()
	s := store(t)
	j := s.begun(t)
	s.rdb.HDel(t.Context(), jobKey("default", j.ID), "priority")
	if got, err := s.Requeue(t.Context(), j.ID, 1, "w", CostAttempt, 0); err != nil || got != RequeueOK {
		t.Errorf("got %s, %v", got, err)
	}
}
