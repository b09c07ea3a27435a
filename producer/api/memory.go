package api

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"
)

// The answers where no memory is left, of all or of a tenant's share.
var (
	errMemoryFull = errors.New("this api process holds as much of bodies and answers as it may; another may answer")
	errShareFull  = errors.New("the tenant sends, or is sent, as much here already as it may at once")
)

// memoryBudget is memory that requests share: so many bytes, of which a tenant gets a share. What
// a body or an answer takes is taken before it is read, so that however many are sent at
// once, and however slowly, no more than that is ever held.
type memoryBudget struct {
	share int64
	// even leaves as much free as a tenant holds: one alone gets a half, the next a quarter,
	// and each that comes something. Those who hold more get no more until it is even.
	even bool

	mu    sync.Mutex
	free  int64
	of    map[string]int64
	lines map[string][]*turn // of those who wait: a tenant's take turns, so that small ones don't keep a large one waiting
	freed chan struct{}      // closed when some is given back, or a line moves
}

// turn is a place in a line.
type turn struct{ _ byte }

// newMemoryBudget returns a budget whose tenants get a share of it each.
func newMemoryBudget(bytes, share int64) *memoryBudget {
	return &memoryBudget{share: share, free: bytes, of: map[string]int64{}, lines: map[string][]*turn{}, freed: make(chan struct{})}
}

// newEvenMemoryBudget returns a budget of which tenants, however many work together, leave something to
// each that comes.
func newEvenMemoryBudget(bytes int64) *memoryBudget {
	b := newMemoryBudget(bytes, bytes)
	b.even = true
	return b
}

// take waits for so many bytes, for at most so long.
func (b *memoryBudget) take(ctx context.Context, tenant string, n int64, patience time.Duration) error {
	mine := &turn{}
	freed, err := b.try(tenant, n, mine)
	if err == nil {
		return nil
	}
	defer b.leave(tenant, mine)
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case <-freed:
		case <-late.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		if freed, err = b.try(tenant, n, mine); err == nil {
			return nil
		}
	}
}

// try takes so many bytes when it is mine's turn, or returns what is closed when it may be;
// then mine has a place in the line.
func (b *memoryBudget) try(tenant string, n int64, mine *turn) (freed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := b.lines[tenant]
	switch {
	case tenant == "" && len(line) > 0 && line[0] != mine: // who stands in a line of everybody's is not to blame for it
		err = errMemoryFull
	case len(line) > 0 && line[0] != mine, b.of[tenant]+n > b.share, b.even && b.of[tenant] > 0 && b.of[tenant]+n > b.free-n:
		err = errShareFull
	case n > b.free, b.even && n > b.free-n:
		err = errMemoryFull
	default:
		if n > 0 { // else nobody would give it back, and the entry stayed
			b.free -= n
			b.of[tenant] += n
		}
		return nil, nil //nolint:nilnil // there is nothing to wait for
	}
	if !slices.Contains(line, mine) {
		b.lines[tenant] = append(line, mine)
	}
	return b.freed, err
}

// leave gives up a place in the line.
func (b *memoryBudget) leave(tenant string, mine *turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines[tenant] = slices.DeleteFunc(b.lines[tenant], func(t *turn) bool { return t == mine })
	if len(b.lines[tenant]) == 0 {
		delete(b.lines, tenant)
	}
	b.wake()
}

// wake makes those who wait look again.
func (b *memoryBudget) wake() {
	close(b.freed)
	b.freed = make(chan struct{})
}

func (b *memoryBudget) give(tenant string, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	if b.of[tenant] -= n; b.of[tenant] == 0 {
		delete(b.of, tenant)
	}
	if len(b.lines) > 0 { // else nobody waits
		b.wake()
	}
}

// reservation is what one request holds of a budget. Safe for concurrent use.
type reservation struct {
	budget *memoryBudget
	tenant string

	mu   sync.Mutex
	held int64
}

// add waits for n bytes more, for at most so long.
func (r *reservation) add(ctx context.Context, n int64, patience time.Duration) error {
	if err := r.budget.take(ctx, r.tenant, n, patience); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held += n
	return nil
}

// Take is [direct.Memory.Take]: what an answer takes is a part of the budget.
func (r *reservation) Take(ctx context.Context, n int64) error { return r.add(ctx, n, bodyPatience) }

// Give is [direct.Memory.Give].
func (r *reservation) Give(n int64) { r.give(n) }

// give gives n bytes back, or what is left of them.
func (r *reservation) give(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(n, r.held)
	r.held -= n
	r.budget.give(r.tenant, n)
}

// holds is how much it holds, in bytes.
func (r *reservation) holds() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// release gives everything back.
func (r *reservation) release() { r.give(math.MaxInt64) }
