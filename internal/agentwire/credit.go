package agentwire

import (
	"errors"
	"sync"
)

// ErrClosed is what a closed [Credit] answers.
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

// Take waits for credit and takes it for one frame of up to most bytes, at least one.
func (c *Credit) Take(most int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.left <= FrameCost && !c.closed {
		c.more.Wait()
	}
	if c.closed {
		return 0, ErrClosed
	}
	n := min(int64(most), c.left-FrameCost)
	c.left -= n + FrameCost
	return int(n), nil
}

// Close makes every Take fail, now and later.
func (c *Credit) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.more.Broadcast()
}
