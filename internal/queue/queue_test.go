package queue

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue/queuetest"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

func client(tb testing.TB) *Client {
	tb.Helper()
	return open(tb, gbtest.Redis(tb).URL())
}

func open(tb testing.TB, url string) *Client {
	tb.Helper()
	rdb, err := redisconn.Open(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { rdb.Close() })
	return New(rdb, time.Now, slog.New(slog.DiscardHandler))
}

// serve runs a server of the queues, and returns what it takes.
func serve(t *testing.T, c *Client, queues map[string]int, interval time.Duration) (*Server, <-chan string) {
	t.Helper()
	srv := c.Server(ServerConfig(4, queues, interval, slog.New(slog.DiscardHandler)), nil)
	return srv, queuetest.Serve(t, srv)
}

// TestNotifier: a server is notified of tasks in each of its queues long before it would poll.
func TestNotifier(t *testing.T) {
	t.Parallel()
	c := client(t)
	_, jobs := serve(t, c, Jobs(), mostInterval)
	_, deliveries := serve(t, c, map[string]int{Delivery: 1}, mostInterval)
	late := map[string]int{} // of each kind, how many took as if they had been found by a poll
	within := func(kind string, took <-chan string, id string) {
		t.Helper()
		began := time.Now()
		queuetest.Within(t, took, id, gbtest.AtOnce)
		if time.Since(began) > mostInterval/2 {
			late[kind]++
		}
	}
	for n := range 3 {
		for _, priority := range []job.Priority{job.High, job.Normal, job.Low} {
			task := RunTask(Delivery+string(priority), n, priority, time.Time{}) // a tenant may be called so
			if err := c.Enqueue(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			within(string(priority), jobs, task.id)
		}
		task := DeliverTask("t", "d", Turn{Attempt: n}, false, time.Time{})
		if err := c.Enqueue(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		within(Delivery, deliveries, task.id)
	}
	for kind, n := range late {
		if n == 3 { // the machine does not stand still each time
			t.Errorf("all tasks of kind %s waited for a poll", kind)
		}
	}
}

// TestLostNotification: a task of which no server was notified is found all the same, and no more than
// mostPending notifications wait.
func TestLostNotification(t *testing.T) {
	t.Parallel()
	c := client(t)
	plain := asynq.NewClientFromRedisClient(c.rdb)
	_, took := serve(t, c, Jobs(), 100*time.Millisecond)
	if _, err := plain.EnqueueContext(t.Context(), asynq.NewTask(TypeRun, nil), asynq.TaskID("lost"), asynq.Queue(string(job.Low))); err != nil {
		t.Fatal(err)
	}
	queuetest.Within(t, took, "lost", gbtest.AtOnce)

	for n := range 2 * mostPending {
		if err := c.Enqueue(t.Context(), DeliverTask("t", "d", Turn{Attempt: n}, false, time.Time{})); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.rdb.LLen(t.Context(), deliveriesKey).Val(); n != mostPending {
		t.Errorf("%d notifications wait, want %d", n, mostPending)
	}
}

// TestIdleServer: a server without work asks Redis no more often than its interval says.
func TestIdleServer(t *testing.T) {
	t.Parallel()
	c := client(t)
	serve(t, c, Jobs(), 200*time.Millisecond)
	asked := func() (n int64) {
		for line := range strings.Lines(c.rdb.Info(t.Context(), "commandstats").Val()) {
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
	began, before, n := time.Now(), asked(), int64(0)
	gbtest.Eventually(t, "it asks on, for two seconds", func() bool {
		n = asked() - before
		return n >= 3 && time.Since(began) >= 2*time.Second
	})
	passed := time.Since(began)
	if most := 3*(int64(passed/(200*time.Millisecond))+1) + 5*(int64(passed/time.Second)+1); n > most { // asynq's own chores are some, too
		t.Errorf("it ran %d scripts in %s, want three each 200 ms at most", n, passed)
	}
}

// TestRefusedServer: a server that Redis refuses to answer, as it is full, say, asks it again once a second, stops at once, and has
// tasks when Redis has room again.
func TestRefusedServer(t *testing.T) {
	t.Parallel()
	c := client(t)
	_, took := serve(t, c, Jobs(), 200*time.Millisecond)
	other, _ := serve(t, c, Jobs(), 200*time.Millisecond)
	memory := func(most string) {
		t.Helper()
		if err := c.rdb.ConfigSet(t.Context(), "maxmemory", most).Err(); err != nil {
			t.Fatal(err)
		}
	}
	refusals := func() (n int64) {
		for line := range strings.Lines(c.rdb.Info(t.Context(), "errorstats").Val()) {
			if count, ok := strings.CutPrefix(strings.TrimSpace(line), "errorstat_OOM:count="); ok {
				n, _ = strconv.ParseInt(count, 10, 64)
			}
		}
		return n
	}
	memory("1")
	gbtest.Eventually(t, "it is refused", func() bool { return refusals() > 0 })
	began, before := time.Now(), refusals()
	gbtest.Eventually(t, "it is refused again and again", func() bool { return refusals() > before && time.Since(began) >= 2*time.Second })
	if n, passed := refusals()-before, time.Since(began); n > 40*(int64(passed/time.Second)+1) { // asynq's own chores are some of two servers, too
		t.Errorf("it asked %d times in %s", n, passed)
	}
	stopping := time.Now()
	other.Stop()
	if took := time.Since(stopping); took > time.Minute {
		t.Errorf("it stopped after %s", took)
	}
	memory("0")
	task := RunTask("t", 1, job.Normal, time.Time{})
	if err := c.Enqueue(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	queuetest.Within(t, took, task.id, gbtest.Patience)
}

// TestStopWhileIdle: nobody has to wait for a server that waits for work.
func TestStopWhileIdle(t *testing.T) {
	t.Parallel()
	c := client(t)
	srv, _ := serve(t, c, Jobs(), mostInterval)
	time.Sleep(50 * time.Millisecond) // it waits, most likely; if not, it ends all the more
	done := make(chan struct{})
	go func() { srv.Stop(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("it did not stop within a minute")
	}
}

// TestNoTaskWithoutASlot: a server takes no task out of a queue while there is no slot
// for it, also of one that serves beside it, and stops without one.
func TestNoTaskWithoutASlot(t *testing.T) {
	t.Parallel()
	c := client(t)
	slots, goOn, took := make(chan struct{}, 1), make(chan struct{}), make(chan string, 10)
	begin := func() *Server {
		srv := c.Server(ServerConfig(1, Jobs(), 20*time.Millisecond, slog.New(slog.DiscardHandler)), slots)
		if err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			defer func() { <-slots }()
			id, _ := asynq.GetTaskID(ctx)
			took <- id
			<-goOn
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		return srv
	}
	var ids []string
	for range 3 {
		ids = append(ids, job.NewID("default"))
		if err := c.Enqueue(t.Context(), RunTask(ids[len(ids)-1], 1, job.Normal, time.Time{})); err != nil {
			t.Fatal(err)
		}
	}
	first := begin()
	queuetest.Within(t, took, ids[0]+".1", gbtest.AtOnce)
	first.Stop() // a pause: what it has in hand goes on
	second := begin()
	time.Sleep(200 * time.Millisecond) // it would have looked ten times
	if n := c.rdb.LLen(t.Context(), "asynq:{normal}:pending").Val(); n != 2 {
		t.Errorf("%d tasks are in the queue, want the 2 that have no slot", n)
	}
	goOn <- struct{}{}
	queuetest.Within(t, took, ids[1]+".1", gbtest.AtOnce)
	second.Stop()
	close(goOn)
	first.Shutdown()
	second.Shutdown()
	if len(slots) != 0 {
		t.Error("a slot is taken although nothing is in hand")
	}
	third := begin() // the queue has one task more, then none
	queuetest.Within(t, took, ids[2]+".1", gbtest.AtOnce)
	third.Shutdown()
	if len(slots) != 0 {
		t.Error("a server that stops without a task keeps its slot")
	}
}

// TestNoSlotForPoison: what asynq takes and calls no handler for takes no slot away, whoever wrote it.
func TestNoSlotForPoison(t *testing.T) {
	t.Parallel()
	push := func(t *testing.T, c *Client, id, msg string) {
		t.Helper()
		pipe := c.rdb.TxPipeline()
		pipe.SAdd(t.Context(), "asynq:queues", string(job.Normal))
		pipe.HSet(t.Context(), key(string(job.Normal), "t:"+id), "msg", msg, "state", "pending")
		pipe.LPush(t.Context(), key(string(job.Normal), "pending"), id)
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for name, poison := range map[string]func(*testing.T, *Client){
		"no message": func(t *testing.T, c *Client) { t.Helper(); push(t, c, "garbage", "\xff\xff") },
		"no UTF-8":   func(t *testing.T, c *Client) { t.Helper(); push(t, c, "garbage", "\x0a\x01\xff") }, // the type
		"its deadline has passed": func(t *testing.T, c *Client) {
			t.Helper()
			task := asynq.NewTask(TypeRun, []byte("{}"))
			if _, err := asynq.NewClientFromRedisClient(c.rdb).EnqueueContext(t.Context(), task, asynq.Queue(string(job.Normal)), asynq.Deadline(time.Now().Add(-time.Hour))); err != nil {
				t.Fatal(err)
			}
		},
		"its time-out is none": func(t *testing.T, c *Client) {
			t.Helper()
			push(t, c, "negative", "\x1a\x08negative\x22\x06normal\x40\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
		}, // -1 s
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t)
			poison(t, c)
			id := job.NewID("default")
			if err := c.Enqueue(t.Context(), RunTask(id, 1, job.Normal, time.Time{})); err != nil {
				t.Fatal(err)
			}
			slots, took := make(chan struct{}, 1), make(chan string, 10)
			srv := c.Server(ServerConfig(1, Jobs(), 20*time.Millisecond, slog.New(slog.DiscardHandler)), slots)
			if err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
				defer func() { <-slots }()
				id, _ := asynq.GetTaskID(ctx)
				took <- id
				return errors.New("it comes back") // asynq's error handler gives back no slot that was the handler's
			})); err != nil {
				t.Fatal(err)
			}
			queuetest.Within(t, took, id+".1", gbtest.AtOnce)
			srv.Shutdown()
			if len(slots) != 0 {
				t.Error("a slot is taken although nothing is in hand")
			}
		})
	}
}
