package record

import (
	"context"
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
// caller closes the Listener; ctx only bounds the first attempt to subscribe.
func (s *Store) ListenDone(ctx context.Context) *Listener   { return s.listen(ctx, doneChannel) }
func (s *Store) ListenCancel(ctx context.Context) *Listener { return s.listen(ctx, cancelChannel) }

func (s *Store) listen(ctx context.Context, channel string) *Listener {
	l := &Listener{pubsub: s.rdb.Subscribe(ctx, channel), waiters: newWaiters(), done: make(chan struct{})}
	// The channel pings, so that it notices a peer that is gone, and reconnects and
	// subscribes again for as long as it takes. It does not wait for the answer: a
	// network that swallows everything is found by TCP, after minutes, which is why who
	// waits also looks for itself now and then.
	received := l.pubsub.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(healthCheck))
	go func() {
		defer close(l.done)
		for m := range received {
			if message, ok := m.(*redis.Message); ok {
				l.waiters.wake(message.Payload)
			} else {
				l.waiters.wakeAll() // subscribed: what was published before is lost, so look again
			}
		}
	}()
	return l
}

// healthCheck is how long the connection may be silent before it is pinged.
const healthCheck = 3 * time.Second

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
