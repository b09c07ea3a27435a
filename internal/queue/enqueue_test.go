package queue

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/queue/queuetest"
	"github.com/glovebox-run/glovebox/job"
)

// TestEnqueueAll: many tasks go to Redis at once, as one would.
func TestEnqueueAll(t *testing.T) {
	t.Parallel()
	c, ctx := client(t), t.Context()
	var all []Task
	var want []string
	for n := range 20 {
		all = append(all, RunTask("job", n, job.Normal, time.Time{}))
		want = append(want, all[n].id)
	}
	slices.Sort(want)
	if err := c.EnqueueAll(ctx, append(all, RunTask("later", 1, job.Normal, time.Now().Add(time.Hour)), DeliverTask("default", "msg", Turn{Attempt: 1}, false, time.Time{}))); err != nil {
		t.Fatal(err) // a Redis that doesn't know asynq's script
	}
	if got := queuetest.Tasks(t, c.rdb, "normal"); !slices.Equal(got, want) {
		t.Errorf("got tasks %v, want %v", got, want)
	}
	if n := len(queuetest.Tasks(t, c.rdb, Delivery)); n != 1 {
		t.Errorf("got %d deliveries, want 1", n)
	}
	if n := c.rdb.LLen(ctx, jobsKey).Val(); n < 20 {
		t.Errorf("there are %d notifications of 20 tasks", n)
	}
	var trips roundTrips
	c.rdb.AddHook(&trips)
	if err := c.EnqueueAll(ctx, append(all, RunTask("job", 20, job.Normal, time.Time{}))); err != nil {
		t.Error(err) // all but one are there
	}
	took := trips.n.Load()
	if n := len(queuetest.Tasks(t, c.rdb, "normal")); n != 21 || took != 1 {
		t.Errorf("there are %d tasks after %d round trips, want 21 after one", n, took)
	}
	for n := range 21 {
		if q, err := asynq.NewInspectorFromRedisClient(c.rdb).GetTaskInfo("normal", fmt.Sprintf("job.%d", n)); err != nil || q.MaxRetry != neverArchive {
			t.Errorf("task %d: got %+v, %v", n, q, err)
		}
	}
}

// roundTrips counts them.
type roundTrips struct{ n atomic.Int64 }

func (r *roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.n.Add(1)
		return next(ctx, cmd)
	}
}

func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.n.Add(1)
		return next(ctx, cmds)
	}
}
