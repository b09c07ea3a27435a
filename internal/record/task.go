package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/job"
)

// Task types and the queue of deliveries; jobs use one queue per priority.
const (
	RunTask       = "glovebox:run"
	DeliverTask   = "glovebox:deliver"
	DeliveryQueue = "deliveries"
)

// JobQueues are the queues of jobs and their weights: none starves another.
func JobQueues() map[string]int {
	return map[string]int{string(job.High): 6, string(job.Normal): 3, string(job.Low): 1}
}

const (
	// Attempts are counted in the record; a task must never be archived by asynq,
	// for then its TaskID stays taken and no handler ever sees it.
	neverArchive = 1 << 30
	// Time-outs are the sandbox's; asynq's only has to be out of the way.
	taskTimeout = 30 * 24 * time.Hour
)

// ServerConfig is what every asynq server of Glovebox has in common. interval is
// how often an idle worker looks at Redis: half of it is added to the latency.
func ServerConfig(concurrency int, queues map[string]int, interval time.Duration) asynq.Config {
	return asynq.Config{
		Concurrency: concurrency, Queues: queues, TaskCheckInterval: interval,
		DelayedTaskCheckInterval: time.Second,
		// Nothing that asynq sees is a failure that spends a retry.
		IsFailure: func(error) bool { return false },
		RetryDelayFunc: func(n int, err error, _ *asynq.Task) time.Duration {
			if errors.Is(err, asynq.ErrLeaseExpired) {
				return 0
			}
			return min(time.Second<<min(n, 5), 30*time.Second)
		},
	}
}

// Run is the payload of a run task.
type Run struct {
	ID    string `json:"id"`
	Epoch int    `json:"epoch"`
}

// Deliver is the payload of a delivery task.
type Deliver struct {
	Tenant  string `json:"tenant"`
	ID      string `json:"id"`
	Attempt int    `json:"attempt"`
}

// enqueueRun makes sure that there is a task for this epoch of the job, to be taken at at.
func (s *Store) enqueueRun(ctx context.Context, id string, epoch int, priority job.Priority, at time.Time) error {
	if priority == "" {
		priority = job.Normal
	}
	return s.enqueue(ctx, RunTask, Run{id, epoch}, id+"."+strconv.Itoa(epoch), string(priority), at)
}

// EnqueueDelivery makes sure that there is a task for this attempt at the delivery.
func (s *Store) EnqueueDelivery(ctx context.Context, tenant, did string, attempt int, at time.Time) error {
	return s.enqueue(ctx, DeliverTask, Deliver{tenant, did, attempt},
		tenant+"/"+did+"."+strconv.Itoa(attempt), DeliveryQueue, at)
}

func (s *Store) enqueue(ctx context.Context, kind string, payload any, taskID, queue string, at time.Time) error {
	b, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	opts := []asynq.Option{asynq.TaskID(taskID), asynq.Queue(queue), asynq.MaxRetry(neverArchive), asynq.Timeout(taskTimeout)}
	if at.After(s.now()) {
		opts = append(opts, asynq.ProcessAt(at))
	}
	_, err = s.tasks.EnqueueContext(ctx, asynq.NewTask(kind, b), opts...)
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) { // a conflict: the task is there
		return fmt.Errorf("enqueue task %s: %w", taskID, err)
	}
	return nil
}
