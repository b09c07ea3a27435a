package worker

import (
	"fmt"
	"sync"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/queue"
)

// intake takes jobs from the queue while it is open. A server of asynq that was stopped
// can't be started again, so each opening has one of its own.
type intake struct {
	server func() *queue.Server
	handle asynq.HandlerFunc

	mu      sync.Mutex
	current *queue.Server // nil while it is shut
	ended   bool          // it never opens again
	closing sync.WaitGroup
}

// open takes jobs from now on, unless the intake has ended.
func (i *intake) open() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.begin()
}

// reopen serves other queues from now on, if it is open.
func (i *intake) reopen() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.current == nil {
		return nil
	}
	i.cease()
	return i.begin()
}

// begin and cease are open and shut; the lock is held.
func (i *intake) begin() error {
	if i.ended || i.current != nil {
		return nil
	}
	server := i.server()
	if err := server.Start(i.handle); err != nil {
		return fmt.Errorf("start taking jobs: %w", err)
	}
	i.current = server
	return nil
}

// shut takes no more jobs once it returns. Those that run go on: asynq gives their tasks
// back to the queue after a while, where whoever takes one finds that its job is taken.
func (i *intake) shut() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cease()
}

func (i *intake) cease() {
	if i.current == nil {
		return
	}
	i.current.Stop()
	i.closing.Go(i.current.Shutdown)
	i.current = nil
}

// end takes no more jobs, for good. close has to follow, once no job runs any more.
func (i *intake) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	if i.current != nil {
		i.current.Stop()
	}
}

func (i *intake) close() {
	i.shut()
	i.closing.Wait()
}
