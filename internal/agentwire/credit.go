package agentwire

import (
	"errors"
	"sync"
)

// ErrClosed is what Take of a closed [Credit] fails with.
var ErrClosed = errors.New("credit is closed")

// FrameCost is what a bulk frame costs beside its payload, so that credit bounds the
// memory of a receiver of many small frames too.
const FrameCost = 64

// Credit is how many bulk bytes the agent may still send.
type Credit struct {
	mu     sync.Mutex
	more   sync.Cond
	left   int64
	closed bool
}

// NewCredit returns an empty Credit.
func NewCredit() *Credit {
	c := &Credit{}
	c.more.L = &c.mu
	return c
}

// Grant adds n bytes. It fails when more than 1 GiB would be outstanding.
func (c *Credit) Grant(n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n <= 0 || c.left+n > maxGrant {
		return violation("a grant of %d bytes", n)
	}
	c.left += n
	c.more.Broadcast()
	return nil
}

// Take waits for credit and takes it for up to most bytes, sent in as few frames as they need. It
// returns for how many, at least one.
func (c *Credit) Take(most int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.left <= FrameCost && !c.closed {
		c.more.Wait()
	}
	if c.closed {
		return 0, ErrClosed
	}
	n := int64(most)
	if cost(n) > c.left {
		n = c.left / (MaxPayload + FrameCost) * MaxPayload
		if rest := c.left - cost(n); rest > FrameCost {
			n += rest - FrameCost
		}
	}
	c.left -= cost(n)
	return int(n), nil
}

// cost is what n bulk bytes cost in as few frames as they need.
func cost(n int64) int64 { return n + (n+MaxPayload-1)/MaxPayload*FrameCost }

// None reports whether Take would wait.
func (c *Credit) None() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left <= FrameCost && !c.closed
}

// Close makes every Take fail, now and later.
func (c *Credit) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.more.Broadcast()
}
