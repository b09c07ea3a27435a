package record

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Listener wakes those who wait for a job: for its end, or for its cancellation. One
// subscription serves the whole process.
type Listener struct {
	pubsub  *redis.PubSub
	waiters waiters
	done    chan struct{}
}

// ListenDone wakes on the end of jobs, ListenCancel on requests to cancel them. The
// caller closes the Listener.
func (s *Store) ListenDone(ctx context.Context) *Listener   { return s.listen(ctx, doneChannel) }
func (s *Store) ListenCancel(ctx context.Context) *Listener { return s.listen(ctx, cancelChannel) }

func (s *Store) listen(ctx context.Context, channel string) *Listener {
	l := &Listener{pubsub: s.rdb.Subscribe(ctx, channel), waiters: newWaiters(), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for {
			m, err := l.pubsub.Receive(ctx)
			switch m := m.(type) {
			case *redis.Message:
				l.waiters.wake(m.Payload)
			case *redis.Subscription:
				l.waiters.wakeAll() // what was published while nobody listened is lost: look again
			}
			switch {
			case errors.Is(err, redis.ErrClosed), ctx.Err() != nil:
				return
			case err != nil: // Redis is away; Receive reconnects and subscribes again
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		}
	}()
	return l
}

// Wait returns a channel that gets a value whenever the job may have ended (or been
// cancelled), and a function that gives it back. The record says whether it has:
// read it after Wait, then after each wake-up.
func (l *Listener) Wait(id string) (woken <-chan struct{}, stop func()) { return l.waiters.add(id) }

// Close ends the subscription.
func (l *Listener) Close() error {
	err := l.pubsub.Close()
	<-l.done
	return err
}
