package queue

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// TestOrphans compares what is listed with what asynq's inspector says.
func TestOrphans(t *testing.T) {
	t.Parallel()
	c, ctx := client(t), t.Context()
	ids := make(chan string, 2)
	hold := make(chan struct{})
	server := c.Server(ServerConfig(2, Jobs(), time.Second, slog.New(slog.DiscardHandler)), nil)
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		ids <- id
		<-hold
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	t.Cleanup(func() { close(hold) })
	for range 2 {
		if err := c.Enqueue(ctx, RunTask(job.NewID("default"), 1, job.Normal, time.Time{})); err != nil {
			t.Fatal(err)
		}
	}
	orphan := <-ids
	<-ids
	server.Stop()
	archived := job.NewID("default")
	if err := c.Enqueue(ctx, RunTask(archived, 1, job.Low, time.Time{})); err != nil {
		t.Fatal(err)
	}
	inspector := asynq.NewInspectorFromRedisClient(c.rdb)
	if err := inspector.ArchiveTask("low", archived+".1"); err != nil {
		t.Fatal(err)
	}
	// The server still extends its leases, every 5 s: what it does in between is undone, and looked at again.
	gbtest.Eventually(t, "both list the orphan, and Orphans what is archived", func() bool {
		// As if its holder had died half a minute ago.
		if err := c.rdb.ZAddXX(ctx, key("normal", "lease"), redis.Z{Score: 1, Member: orphan}).Err(); err != nil {
			t.Fatal(err)
		}
		active, err := inspector.ListActiveTasks("normal")
		if err != nil || len(active) != 2 {
			t.Fatalf("%d tasks are active, %v, want 2", len(active), err)
		}
		for _, task := range active {
			if task.IsOrphaned != (task.ID == orphan) {
				t.Logf("asynq says of %s: orphaned is %v", task.ID, task.IsOrphaned)
				return false
			}
		}
		got, err := c.Orphans(ctx, []string{"low", "normal", "high"})
		if err != nil || len(got) != 2 || !got[orphan] || !got[archived+".1"] {
			t.Logf("got %v, %v, want %s and %s.1", got, err, orphan, archived)
			return false
		}
		return true
	})
}
