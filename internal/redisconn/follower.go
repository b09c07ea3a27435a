package redisconn

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// followInterval is how often a process asks whether another server has become the primary.
const followInterval = time.Second

// follower dials the primary, and closes what leads elsewhere once another server has become that:
// calls, subscriptions and the notifiers' waits then go on there, also where the old primary says
// nothing, or doesn't know yet. go-redis' own client for Sentinels empties its main pool alone, and
// with a Sentinel that hangs it asks no other (docs/adr/0054-sentinel.md).
type follower struct {
	*Sentinels
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu      sync.Mutex
	open    map[net.Conn]string // where each leads
	dialing int
	clients []*redis.SentinelClient // while there is something open, or dialed
	stop    context.CancelFunc      // ends follow
}

// Dial is that of redis.Options, whose address it doesn't need.
func (f *follower) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, f.options.DialTimeout)
	defer cancel()
	clients := f.begin(ctx)
	defer f.end()
	primary, _, err := f.ask(ctx, clients)
	if err != nil {
		return nil, err
	}
	c, err := f.dial(ctx, "tcp", primary)
	if err != nil {
		return nil, fmt.Errorf("reach the primary %q: %w", f.Primary, err)
	}
	return f.track(c, primary), nil
}

// begin keeps clients of the Sentinels for a dial; end follows.
func (f *follower) begin(ctx context.Context) []*redis.SentinelClient {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dialing++
	if f.clients == nil {
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the call that dials
		f.clients, f.open, f.stop = f.Clients(), map[net.Conn]string{}, stop
		go f.follow(ctx, f.clients)
	}
	return f.clients
}

func (f *follower) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dialing--
	f.rest()
}

// rest closes the clients when there is nothing to follow for. The lock is held.
func (f *follower) rest() {
	if f.dialing == 0 && len(f.open) == 0 && f.clients != nil {
		f.stop()
		closeAll(f.clients)
		f.clients = nil
	}
}

func (f *follower) track(c net.Conn, addr string) net.Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[c] = addr
	return notSilent(c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, c)
		f.rest()
	})
}

// follow asks now and then who is the primary. Unless most Sentinels agree, nothing changes: of two that don't, each
// may answer first in turn.
func (f *follower) follow(ctx context.Context, clients []*redis.SentinelClient) {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if primary, agreed, err := f.ask(ctx, clients); err == nil && agreed {
			f.closeOthers(primary)
		}
	}
}

// closeOthers closes what leads to another server. A call that waits there fails at once, and the next one dials anew.
func (f *follower) closeOthers(primary string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c, addr := range f.open {
		if addr != primary {
			if t, ok := c.(*tls.Conn); ok {
				c = t.NetConn() // a farewell that nobody hears would take seconds
			}
			_ = c.Close() // its owner closes it once more, and takes it off the list then
		}
	}
}
