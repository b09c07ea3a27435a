package record

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// Listener wakes those who wait for a job: for its end, or for a word to its worker, and
// those who follow its events. One subscription serves the whole process.
type Listener struct {
	pubsub  *redis.PubSub
	waiters waiters
	calls   waiters
	running sync.WaitGroup

	followers waiters
	changed   chan struct{} // somebody began or ceased to follow
	closed    chan struct{}
}

// ListenDone wakes on the end of jobs, ListenCancel when a worker is to look at a job's
// record: it was cancelled, taken away or is watched. The
// caller closes the Listener; ctx only bounds the first attempt to subscribe.
func (s *Store) ListenDone(ctx context.Context) *Listener   { return s.listen(ctx, doneChannel) }
func (s *Store) ListenCancel(ctx context.Context) *Listener { return s.listen(ctx, cancelChannel) }

// ListenTurns wakes those who hold a session on this worker: an execution waits, or the session has ended.
func (s *Store) ListenTurns(ctx context.Context, worker string) *Listener {
	return s.listen(ctx, turnChannel+worker)
}

func (s *Store) listen(ctx context.Context, channel string) *Listener {
	l := &Listener{
		pubsub: s.rdb.Subscribe(ctx, channel), waiters: newWaiters(), calls: newWaiters(),
		followers: newWaiters(), changed: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	// The channel pings, so that it notices a peer that is gone, also one that says nothing
	// any more (redisconn), and reconnects and subscribes again for as long as it takes. Whoever
	// waits also looks for itself now and then.
	received := l.pubsub.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(redisconn.HealthCheck))
	l.running.Go(func() {
		for m := range received {
			l.take(m)
		}
	})
	l.running.Go(l.subscribe)
	return l
}

// take wakes whom a message is for.
func (l *Listener) take(m any) {
	switch m := m.(type) {
	case *redis.Message:
		if id, ok := strings.CutPrefix(m.Channel, eventsChannel); ok {
			l.followers.wake(id)
		} else if call, ok := strings.CutPrefix(m.Payload, callPrefix); ok {
			l.calls.wake(call)
		} else {
			l.waiters.wake(m.Payload)
		}
	case *redis.Subscription: // what was published before is lost, so look again
		if id, ok := strings.CutPrefix(m.Channel, eventsChannel); ok {
			l.followers.wake(id)
		} else {
			l.waiters.wakeAll()
		}
	}
}

// subscribe subscribes to the events of the jobs that are followed, and to no others. It
// is one goroutine, so that nobody who follows waits for a Redis that doesn't answer.
func (l *Listener) subscribe() {
	subscribed := map[string]bool{}
	var again <-chan time.Time
	for {
		select {
		case <-l.closed:
			return
		case <-l.changed:
		case <-again:
		}
		again = nil
		followed := l.followers.ids()
		var add, remove []string
		for id := range followed {
			if !subscribed[id] {
				subscribed[id] = true
				add = append(add, eventsChannel+id)
			}
		}
		for id := range subscribed {
			if !followed[id] {
				delete(subscribed, id)
				remove = append(remove, eventsChannel+id)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), redisconn.CallTimeout)
		// What the subscription notes it subscribes to again with each new connection; of
		// one that failed, whether it was noted depends on where.
		if len(add) > 0 && l.pubsub.Subscribe(ctx, add...) != nil {
			for _, channel := range add {
				delete(subscribed, strings.TrimPrefix(channel, eventsChannel))
			}
			again = time.After(subscribeAgain)
		}
		if len(remove) > 0 {
			_ = l.pubsub.Unsubscribe(ctx, remove...)
		}
		cancel()
	}
}

// subscribeAgain is the delay before a subscription that failed is tried again.
const subscribeAgain = time.Second

// Wait returns a channel that gets a value whenever the job may have ended (or its worker
// is to look at it), and a function that gives it back. The record says what happened:
// read it after Wait, then after each wake-up.
func (l *Listener) Wait(id string) (woken <-chan struct{}, stop func()) { return l.waiters.add(id) }

// Follow returns a channel that gets a value whenever the job may have new events since
// Follow, and a function that gives it back.
func (l *Listener) Follow(id string) (woken <-chan struct{}, stop func()) {
	woken, remove := l.followers.add(id)
	signal(l.changed)
	return woken, func() { remove(); signal(l.changed) }
}

// callPrefix is before the name of a cancelled call, in doneChannel: every api listens there anyway.
const callPrefix = "call:"

// CancelCall tells all apis that the client of a call has cancelled it. Nothing keeps that: one that has lost its connection to Redis
// misses it.
func (s *Store) CancelCall(ctx context.Context, name string) error {
	if err := s.rdb.Publish(ctx, doneChannel, callPrefix+name).Err(); err != nil {
		return fmt.Errorf("tell of a cancelled call: %w", err)
	}
	return nil
}

// Call returns a channel that gets a value when the call of that name is cancelled, and for no other reason, and a function that gives
// it back. It is for a Listener of ListenDone.
func (l *Listener) Call(name string) (cancelled <-chan struct{}, stop func()) {
	return l.calls.add(name)
}

// Close ends the subscription.
func (l *Listener) Close() error {
	close(l.closed)
	err := l.pubsub.Close()
	l.running.Wait()
	return err
}
