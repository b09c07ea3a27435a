package api

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"
)

// What a room answers where there is no place left, in it or in a tenant's share of it.
var (
	errRoomFull  = errors.New("this api process holds as much of bodies and answers as it may; another may answer")
	errShareFull = errors.New("the tenant sends, or is sent, as much here already as it may at once")
)

// room is memory that requests share: so many bytes, of which a tenant gets a share. What
// a body or an answer takes is taken before it is read, so that however many are sent at
// once, and however slowly, no more than that is ever held.
type room struct {
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

// newRoom returns a room whose tenants get a share of it each.
func newRoom(bytes, share int64) *room {
	return &room{share: share, free: bytes, of: map[string]int64{}, lines: map[string][]*turn{}, freed: make(chan struct{})}
}

// newEvenRoom returns a room of which tenants, however many work together, leave something to
// each that comes.
func newEvenRoom(bytes int64) *room {
	r := newRoom(bytes, bytes)
	r.even = true
	return r
}

// take waits for so many bytes, for at most so long.
func (r *room) take(ctx context.Context, tenant string, n int64, patience time.Duration) error {
	mine := &turn{}
	freed, err := r.try(tenant, n, mine)
	if err == nil {
		return nil
	}
	defer r.leave(tenant, mine)
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
		if freed, err = r.try(tenant, n, mine); err == nil {
			return nil
		}
	}
}

// try takes so many bytes when it is mine's turn, or returns what is closed when it may be;
// then mine has a place in the line.
func (r *room) try(tenant string, n int64, mine *turn) (freed <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := r.lines[tenant]
	switch {
	case tenant == "" && len(line) > 0 && line[0] != mine: // who stands in a line of everybody's is not to blame for it
		err = errRoomFull
	case len(line) > 0 && line[0] != mine, r.of[tenant]+n > r.share, r.even && r.of[tenant] > 0 && r.of[tenant]+n > r.free-n:
		err = errShareFull
	case n > r.free, r.even && n > r.free-n:
		err = errRoomFull
	default:
		r.free -= n
		r.of[tenant] += n
		return nil, nil //nolint:nilnil // there is nothing to wait for
	}
	if !slices.Contains(line, mine) {
		r.lines[tenant] = append(line, mine)
	}
	return r.freed, err
}

// leave gives up a place in the line.
func (r *room) leave(tenant string, mine *turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines[tenant] = slices.DeleteFunc(r.lines[tenant], func(t *turn) bool { return t == mine })
	if len(r.lines[tenant]) == 0 {
		delete(r.lines, tenant)
	}
	r.wake()
}

// wake makes those who wait look again.
func (r *room) wake() {
	close(r.freed)
	r.freed = make(chan struct{})
}

func (r *room) give(tenant string, n int64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += n
	if r.of[tenant] -= n; r.of[tenant] == 0 {
		delete(r.of, tenant)
	}
	if len(r.lines) > 0 { // else nobody waits
		r.wake()
	}
}

// holding is what one request holds of a room. Safe for concurrent use.
type holding struct {
	room   *room
	tenant string

	mu   sync.Mutex
	held int64
}

// add waits for n bytes more, for at most so long.
func (h *holding) add(ctx context.Context, n int64, patience time.Duration) error {
	if err := h.room.take(ctx, h.tenant, n, patience); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held += n
	return nil
}

// Take is [direct.Room]'s, of which what an answer takes is a part.
func (h *holding) Take(ctx context.Context, n int64) error { return h.add(ctx, n, bodyPatience) }

// Give is [direct.Room]'s.
func (h *holding) Give(n int64) { h.give(n) }

// give gives n bytes back, or what is left of them.
func (h *holding) give(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = min(n, h.held)
	h.held -= n
	h.room.give(h.tenant, n)
}

// release gives everything back.
func (h *holding) release() { h.give(math.MaxInt64) }
