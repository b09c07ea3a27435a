package queue

import (
	"errors"
	"log/slog"
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
// receives it when it is done. So no task leaves its queue that has no slot to go to.
func (c *Client) Server(config asynq.Config, slots chan struct{}) *Server {
	config.TaskCheckInterval = min(config.TaskCheckInterval, mostInterval)
	n := newNotifier(c.rdb, config)
	config.TaskCheckInterval = polled
	conn := &dequeuer{UniversalClient: c.rdb, notifier: n, queues: len(config.Queues), slots: slots}
	return &Server{asynq.NewServerFromRedisClient(conn, config), conn}
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
