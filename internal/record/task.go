package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/job"
)

// Task types and the queues of deliveries; jobs use one queue per priority.
const (
	RunTask       = "glovebox:run"
	DeliverTask   = "glovebox:deliver"
	DeliveryQueue = "deliveries"
	// DeliveryBacklogQueue has the deliveries of tenants that had many pending when these
	// were made. So a tenant with thousands stands in the way of its own, not of others'.
	DeliveryBacklogQueue = "deliveries:backlog"
	// deliveriesInLine is how many of a tenant's may be pending for the next to be none of
	// its backlog: the places at four endpoints.
	deliveriesInLine = 16
)

// DeliveryQueues are the queues of deliveries and their weights.
func DeliveryQueues() map[string]int {
	return map[string]int{DeliveryQueue: 9, DeliveryBacklogQueue: 1}
}

func deliveryQueue(backlog bool) string {
	if backlog {
		return DeliveryBacklogQueue
	}
	return DeliveryQueue
}

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
	// retryDelay is after what a task comes back that met a fault of ours.
	retryDelay = 2 * time.Second
)

// ServerConfig is what every Server of Glovebox has in common. interval is after what
// time one without work looks at Redis although no bell was rung.
func ServerConfig(concurrency int, queues map[string]int, interval time.Duration, log *slog.Logger) asynq.Config {
	return asynq.Config{
		Logger: asynqLog{log}, LogLevel: asynq.WarnLevel,
		Concurrency: concurrency, Queues: queues, TaskCheckInterval: interval,
		DelayedTaskCheckInterval: 2 * time.Second,
		// Nothing that asynq sees is a failure that spends a retry.
		IsFailure: func(error) bool { return false },
		// As nothing is a failure, asynq counts no retries that the delay could grow with.
		RetryDelayFunc: func(_ int, err error, _ *asynq.Task) time.Duration {
			if errors.Is(err, asynq.ErrLeaseExpired) {
				return 0
			}
			return retryDelay
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

// task is one to enqueue.
type task struct {
	kind, id, queue string
	payload         any
	at              time.Time // not before; zero for at once
}

func runTask(id string, epoch int, priority job.Priority, at time.Time) task {
	return task{RunTask, id + "." + strconv.Itoa(epoch), string(orNormal(priority)), Run{id, epoch}, at}
}

func deliverTask(tenant, did string, attempt int, backlog bool, at time.Time) task {
	return task{DeliverTask, tenant + "/" + did + "." + strconv.Itoa(attempt), deliveryQueue(backlog), Deliver{tenant, did, attempt}, at}
}

// enqueueRun makes sure that there is a task for this epoch of the job, to be taken at at.
func (s *Store) enqueueRun(ctx context.Context, id string, epoch int, priority job.Priority, at time.Time) error {
	return s.enqueue(ctx, runTask(id, epoch, priority, at))
}

// EnqueueDelivery makes sure that there is a task for this attempt at the delivery. backlog
// is what the delivery's record says: a delivery stays in one queue, where one attempt has one task.
func (s *Store) EnqueueDelivery(ctx context.Context, tenant, did string, attempt int, backlog bool, at time.Time) error {
	return s.enqueue(ctx, deliverTask(tenant, did, attempt, backlog, at))
}

// enqueue makes sure that there is this task.
func (s *Store) enqueue(ctx context.Context, t task) error {
	b, err := json.Marshal(t.payload)
	if err != nil {
		return err
	}
	opts := []asynq.Option{asynq.TaskID(t.id), asynq.Queue(t.queue), asynq.MaxRetry(neverArchive), asynq.Timeout(taskTimeout)}
	if t.at.After(s.now()) {
		// asynq drops what is below a second, and would come too early.
		opts = append(opts, asynq.ProcessAt(t.at.Add(time.Second-1).Truncate(time.Second)))
	}
	_, err = s.tasks.EnqueueContext(ctx, asynq.NewTask(t.kind, b), opts...)
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		return fmt.Errorf("enqueue task %s: %w", t.id, err)
	}
	return nil
}
