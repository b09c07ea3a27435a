package worker

import (
	"fmt"
	"sync"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/record"
)

// consumer takes jobs from the queue while it is open. A server of asynq that was stopped
// can't be started again, so each opening has one of its own.
type consumer struct {
	server func() *record.Server
	handle asynq.HandlerFunc

	mu      sync.Mutex
	current *record.Server // nil while it is shut
	forGood bool           // it never opens again
	closing sync.WaitGroup
}

// start takes jobs from now on, unless the intake has ended.
func (i *consumer) start() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.startLocked()
}

// restart serves other queues from now on, if it is open.
func (i *consumer) restart() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.current == nil {
		return nil
	}
	i.stopLocked()
	return i.startLocked()
}

// startLocked and cease are open and shut; the lock is held.
func (i *consumer) startLocked() error {
	if i.forGood || i.current != nil {
		return nil
	}
	server := i.server()
	if err := server.Start(i.handle); err != nil {
		return fmt.Errorf("start taking jobs: %w", err)
	}
	i.current = server
	return nil
}

// stop takes no more jobs once it returns. Those that run go on: asynq gives their tasks
// back to the queue after a while, where whoever takes one finds that its job is taken.
func (i *consumer) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopLocked()
}

func (i *consumer) stopLocked() {
	if i.current == nil {
		return
	}
	i.current.Stop()
	i.closing.Go(i.current.Shutdown)
	i.current = nil
}

// stopForGood takes no more jobs, for good. close has to follow, once no job runs any more.
func (i *consumer) stopForGood() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.forGood = true
	if i.current != nil {
		i.current.Stop()
	}
}

func (i *consumer) close() {
	i.stop()
	i.closing.Wait()
}
