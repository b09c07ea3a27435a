package direct

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestSharedMemory: a tenant that waits for its share keeps no other waiting, nor who needs nothing, and tenants that have all they want are
// forgotten.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	memory := newShared(100, 50)
	ctx, cancel := context.WithCancel(t.Context())
	take := func(tenant string, bytes int64) {
		t.Helper()
		if err := memory.Take(t.Context(), tenant, bytes); err != nil {
			t.Fatal(err)
		}
	}
	take("greedy", 50)
	var waiting sync.WaitGroup
	for range 3 {
		waiting.Go(func() {
			if err := memory.Take(ctx, "greedy", 40); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want it to wait for its share", err)
			}
		})
	}
	gbtest.Eventually(t, "all wait", func() bool {
		memory.mu.Lock()
		defer memory.mu.Unlock()
		return memory.of["greedy"].users == 4
	})
	take("greedy", 0)
	take("other", 50)
	cancel()
	waiting.Wait()
	if err := memory.Take(ctx, "third", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it to wait for what all have", err)
	}
	if err := memory.Take(t.Context(), "third", 51); err == nil {
		t.Error("more than a share was taken")
	}
	memory.Give("greedy", 50)
	memory.Give("other", 50)
	memory.Give("other", 0)
	take("third", 50)
	take("fourth", 50)
	memory.Give("third", 50)
	memory.Give("fourth", 50)
	if len(memory.of) > 0 {
		t.Errorf("got %v, want no tenant to be left", memory.of)
	}
}

// TestMakeRoom: what was kept of steps is forgotten where that is much, unless all that is to be read is among it.
func TestMakeRoom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		weight int64
		reads  []string
		want   int
	}{
		{mostIdle / 2, []string{"c"}, 2},
		{mostIdle, []string{"a", "b"}, 2},
		{mostIdle, []string{"b"}, 1},
		{mostIdle, []string{"b", "c"}, 0},
		{mostIdle, nil, 0},
	} {
		l := &liveRun{needs: map[string]keptNeed{"a": {weight: c.weight}, "b": {weight: c.weight}}, kept: 2 * c.weight}
		if l.makeRoom(c.reads); len(l.needs) != c.want || l.kept != int64(c.want)*c.weight {
			t.Errorf("%+v: got %d steps with %d bytes kept", c, len(l.needs), l.kept)
		}
	}
}

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
			if err := inner.Take(t.Context(), mostTaken); err != nil {
				t.Error(err)
			}
			if now := held.Add(mostTaken); now > most.Load() {
				most.Store(now)
			}
			held.Add(-mostTaken)
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
