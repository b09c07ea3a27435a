package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// mostInterval is far below the lease of 30 s that asynq takes a task for.
const mostInterval = 10 * time.Second

// retryDelay is the delay before a task is retried after an internal error.
const retryDelay = 2 * time.Second

// ServerConfig is what every Server of Glovebox has in common. interval is how often one without
// work polls, in case a notification was lost.
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

// Server is a server of asynq that is notified of a task when it is enqueued.
type Server struct {
	*asynq.Server
	conn *dequeuer
}

// Server returns one that, without work, waits for config.TaskCheckInterval at most before it polls,
// and for mostInterval if that is less.
//
// slots, which may be nil, has room for as many tasks as there may be in hand, whichever
// server they came from: one is sent to it before a task is asked for, and the handler
// receives it when it is done. So no task leaves its queue that has no slot to go to. With slots,
// config's BaseContext and ErrorHandler are the server's own.
func (c *Client) Server(config asynq.Config, slots chan struct{}) *Server {
	config.TaskCheckInterval = min(config.TaskCheckInterval, mostInterval)
	n := newNotifier(c.rdb, config)
	config.TaskCheckInterval = polled
	conn := &dequeuer{UniversalClient: c.rdb, notifier: n, queues: len(config.Queues), slots: slots}
	if slots != nil {
		config.BaseContext = func() context.Context { return context.WithValue(context.Background(), slotKey{}, new(atomic.Bool)) }
		config.ErrorHandler = asynq.ErrorHandlerFunc(func(ctx context.Context, _ *asynq.Task, _ error) {
			if takesSlot(ctx) {
				<-slots
			}
		})
	}
	return &Server{asynq.NewServerFromRedisClient(conn, config), conn}
}

// slotKey is where the context of each task that asynq has read says whether its slot has gone to somebody.
type slotKey struct{}

// takesSlot gives the caller a task's slot. It returns false where another has it: asynq calls the handler, or, as for a task
// whose time was up before, its error handler, or both, in any order. No look at the task's deadline would tell which.
func takesSlot(ctx context.Context) bool {
	taken, ok := ctx.Value(slotKey{}).(*atomic.Bool)
	return ok && taken.CompareAndSwap(false, true)
}

// Start has the handler called for each task from now on. One that asynq has given back before the handler began is not the handler's any more.
func (s *Server) Start(handler asynq.Handler) error {
	if s.conn.slots == nil {
		return s.Server.Start(handler)
	}
	return s.Server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		if !takesSlot(ctx) {
			return context.Cause(ctx)
		}
		return handler.ProcessTask(ctx, t)
	}))
}

// Stop takes no more tasks once it returns.
func (s *Server) Stop() {
	s.conn.notifier.close()
	s.Server.Stop()
	s.conn.releaseSlot()
}

// Shutdown is Stop, and waits for the tasks under way as asynq does.
func (s *Server) Shutdown() {
	s.Stop()
	s.Server.Shutdown()
}
