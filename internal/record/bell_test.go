package record

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

func store(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{URL: gbtest.Redis(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// serve runs a server of the queues, and returns what it takes.
func serve(t *testing.T, s *Store, queues map[string]int, interval time.Duration) (*Server, <-chan string) {
	t.Helper()
	srv, took := s.Server(ServerConfig(4, queues, interval, slog.New(slog.DiscardHandler)), nil), make(chan string, 100)
	err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		took <- id
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	return srv, took
}

func within(t *testing.T, took <-chan string, want string, patience time.Duration) {
	t.Helper()
	select {
	case got := <-took:
		if got != want {
			t.Errorf("took %s, want %s", got, want)
		}
	case <-time.After(patience):
		t.Errorf("%s was not taken within %s", want, patience)
	}
}

// TestBell: a server hears of tasks in each of its queues long before it would look.
func TestBell(t *testing.T) {
	t.Parallel()
	s := store(t)
	_, jobs := serve(t, s, JobQueues(), mostInterval)
	_, deliveries := serve(t, s, map[string]int{DeliveryQueue: 1}, mostInterval)
	for n := range 3 {
		for _, priority := range []job.Priority{job.High, job.Normal, job.Low} {
			task := runTask(DeliveryQueue+string(priority), n, priority, time.Time{}) // a tenant may be called so
			if err := s.enqueue(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			within(t, jobs, task.id, 5*time.Second)
		}
		task := deliverTask("t", "d", n, false, time.Time{})
		if err := s.enqueue(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		within(t, deliveries, task.id, 5*time.Second)
	}
}

// TestBellUnheard: a task whose bell nobody heard is found all the same, and a bell that
// nobody hears keeps no more than bellMost.
func TestBellUnheard(t *testing.T) {
	t.Parallel()
	s := store(t)
	plain := asynq.NewClientFromRedisClient(s.rdb)
	_, took := serve(t, s, JobQueues(), 100*time.Millisecond)
	if _, err := plain.EnqueueContext(t.Context(), asynq.NewTask(RunTask, nil), asynq.TaskID("unheard"), asynq.Queue(string(job.Low))); err != nil {
		t.Fatal(err)
	}
	within(t, took, "unheard", 5*time.Second)

	for n := range 2 * bellMost {
		if err := s.EnqueueDelivery(t.Context(), "t", "d", n, false, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.rdb.LLen(t.Context(), deliveriesBell).Val(); n != bellMost {
		t.Errorf("the bell keeps %d, want %d", n, bellMost)
	}
}

// TestBellIdle: a server without work asks Redis no more often than its interval says.
func TestBellIdle(t *testing.T) {
	t.Parallel()
	s := store(t)
	serve(t, s, JobQueues(), 200*time.Millisecond)
	asked := func() (n int64) {
		for line := range strings.Lines(s.rdb.Info(t.Context(), "commandstats").Val()) {
			if calls, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
				for _, digit := range calls[:strings.IndexByte(calls, ',')] {
					n = 10*n + int64(digit-'0')
				}
			}
		}
		return n
	}
	for asked() == 0 { // the scripts are loaded
		time.Sleep(10 * time.Millisecond)
	}
	before := asked()
	time.Sleep(2 * time.Second)
	if n := asked() - before; n < 3 || n > 11*3+10 { // asynq's own chores are some, too
		t.Errorf("it ran %d scripts in 2 s, want about 30", n)
	}
}

// TestBellStops: nobody has to wait for a server that waits for work.
func TestBellStops(t *testing.T) {
	t.Parallel()
	s := store(t)
	srv, _ := serve(t, s, JobQueues(), mostInterval)
	time.Sleep(50 * time.Millisecond) // it waits, most likely; if not, it ends all the more
	done := make(chan struct{})
	go func() { srv.Stop(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("it did not stop within a minute")
	}
}
