package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// event is a frame that was checked, with its message.
type event struct {
	agentwire.Frame
	at      time.Time
	message any // as agentwire.FromAgent returns it; nil for a frame without one
}

// queue holds the events between the goroutine that reads the stream, which never
// waits, and the one that serves the sink, which may. Credit bounds its length.
type queue struct {
	mu     sync.Mutex
	events []event
	err    error // after the last event
	wake   chan struct{}
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) push(e event) {
	q.mu.Lock()
	q.events = append(q.events, e)
	q.mu.Unlock()
	q.signal()
}

// end says that no event will follow, and why.
func (q *queue) end(err error) {
	q.mu.Lock()
	q.err = err
	q.mu.Unlock()
	q.signal()
}

// ended reports whether no event will follow.
func (q *queue) ended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err != nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// errOverdue is what pop returns when nothing came in time.
var errOverdue = errors.New("the sandbox is silent")

// pop waits up to timeout for the next event. It is for one goroutine.
func (q *queue) pop(ctx context.Context, timeout time.Duration) (event, error) {
	var overdue <-chan time.Time
	for {
		if ctx.Err() != nil {
			return event{}, context.Cause(ctx)
		}
		q.mu.Lock()
		if len(q.events) > 0 {
			e := q.events[0]
			q.events[0] = event{}
			q.events = q.events[1:]
			q.mu.Unlock()
			return e, nil
		}
		err := q.err
		q.mu.Unlock()
		if err != nil {
			return event{}, err
		}
		if overdue == nil {
			timer := time.NewTimer(timeout)
			defer timer.Stop()
			overdue = timer.C
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		case <-overdue:
			return event{}, errOverdue
		}
	}
}
