// Package queuetest looks at queues for tests. It imports no package that has them, so that the tests
// of each can use it.
package queuetest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Server is a server of queues: *queue.Server, say.
type Server interface {
	Start(handler asynq.Handler) error
	Shutdown()
}

// Serve starts the server, and returns the ids of the tasks that it takes. It ends with the test.
func Serve(t *testing.T, srv Server) <-chan string {
	t.Helper()
	took := make(chan string, 100)
	err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		took <- id
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	return took
}

// Within fails the test unless the next task that a server takes is that one, and soon.
func Within(t *testing.T, took <-chan string, want string, patience time.Duration) {
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

// Tasks are the ids of the tasks that are pending in a queue, sorted. There are 30 at most, a page of
// asynq's inspector.
func Tasks(t *testing.T, rdb redis.UniversalClient, queue string) []string {
	t.Helper()
	infos, err := asynq.NewInspectorFromRedisClient(rdb).ListPendingTasks(queue)
	if err != nil && !strings.Contains(err.Error(), "not found") {
		t.Fatal(err)
	}
	var ids []string
	for _, i := range infos {
		ids = append(ids, i.ID)
	}
	slices.Sort(ids)
	return ids
}
