package direct

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestBoundedMemory: fires of the largest jobs never hold more than is given to all, and give all of it back
// also where a step took it twice.
func TestBoundedMemory(t *testing.T) {
	t.Parallel()
	memory := newBounded(fireMemory)
	var held, most atomic.Int64
	var fires sync.WaitGroup
	for range 8 {
		fires.Go(func() {
			outer := &reservation{Memory: memory}
			defer outer.keep(0)
			inner := &reservation{Memory: outer}
			if err := inner.Take(t.Context(), mostFilled); err != nil {
				t.Error(err)
			}
			if now := held.Add(mostFilled); now > most.Load() {
				most.Store(now)
			}
			held.Add(-mostFilled)
			inner.keep(0)
			if outer.taken != 0 {
				t.Errorf("%d bytes would be given back twice", outer.taken)
			}
		})
	}
	fires.Wait()
	if most.Load() > fireMemory {
		t.Errorf("got %d bytes at once, want %d at most", most.Load(), fireMemory)
	}
	whole := &reservation{Memory: memory}
	if err := whole.Take(t.Context(), fireMemory); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := memory.Take(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it to wait for memory", err)
	}
	if err := memory.Take(t.Context(), fireMemory+1); err == nil {
		t.Error("more than there is was taken")
	}
	whole.keep(0)
}
