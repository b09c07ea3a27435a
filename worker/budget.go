package worker

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// budget is memory, MiB, that is given in the order in which it is asked for. Safe for concurrent use.
type budget struct {
	memory *semaphore.Weighted
	// onShort is called where somebody begins to wait. Defaults to nil.
	onShort func()

	mu     sync.Mutex
	free   int64
	wanted int64 // by those who wait
}

func newBudget(mb int64) *budget { return &budget{memory: semaphore.NewWeighted(mb), free: mb} }

// acquire waits for so much.
func (b *budget) acquire(ctx context.Context, mb int64) error {
	if b.tryAcquire(mb) {
		return nil
	}
	b.note(0, mb)
	if b.onShort != nil {
		b.onShort()
	}
	err := b.memory.Acquire(ctx, mb)
	if err != nil {
		b.note(0, -mb)
		return err
	}
	b.note(-mb, -mb) // at once: else it would look as if there was more than there is, or less
	return nil
}

// tryAcquire takes so much if it is free, and nobody waits.
func (b *budget) tryAcquire(mb int64) bool {
	b.mu.Lock() // or it would look free for a moment to one who begins to wait
	defer b.mu.Unlock()
	if !b.memory.TryAcquire(mb) {
		return false
	}
	b.free -= mb
	return true
}

func (b *budget) release(mb int64) {
	b.note(mb, 0)
	b.memory.Release(mb)
}

func (b *budget) note(free, wanted int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += free
	b.wanted += wanted
}

// missing is how much is to be released before all have what they wait for; 0 or less where nobody waits for long.
func (b *budget) missing() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wanted == 0 {
		return 0
	}
	return b.wanted - b.free
}
