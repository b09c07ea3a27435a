package worker

import (
	"fmt"
	"sync"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/queue"
)

// consumer takes jobs from the queue while it is started. A server of asynq that was stopped
// can't be started again, so each start makes a new one.
type consumer struct {
	server func() *queue.Server
	handle asynq.HandlerFunc

	mu      sync.Mutex
	current *queue.Server // nil while it is stopped
	forGood bool          // it never starts again
	closing sync.WaitGroup
}

// start takes jobs from now on, unless the consumer was stopped for good.
func (c *consumer) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.startLocked()
}

// restart serves the queues that it is to serve by now, if it is started.
func (c *consumer) restart() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return nil
	}
	c.stopLocked()
	return c.startLocked()
}

// startLocked is start; the lock is held.
func (c *consumer) startLocked() error {
	if c.forGood || c.current != nil {
		return nil
	}
	server := c.server()
	if err := server.Start(c.handle); err != nil {
		return fmt.Errorf("start taking jobs: %w", err)
	}
	c.current = server
	return nil
}

// stop takes no more jobs once it returns. Jobs that run go on: asynq gives their tasks back to
// the queue after a while, and a worker that takes one finds that its job is taken.
func (c *consumer) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopLocked()
}

// stopLocked is stop; the lock is held.
func (c *consumer) stopLocked() {
	if c.current == nil {
		return
	}
	c.current.Stop()
	c.closing.Go(c.current.Shutdown)
	c.current = nil
}

// stopForGood takes no more jobs, now or later. close has to follow, once no job runs any more.
func (c *consumer) stopForGood() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forGood = true
	if c.current != nil {
		c.current.Stop()
	}
}

func (c *consumer) close() {
	c.stop()
	c.closing.Wait()
}
