package api

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A budget never lends more than it has, nor a tenant more than its share, and everything
// that was taken is there again.
func TestMemoryBudget(t *testing.T) {
	t.Parallel()
	const bytes, share = 1000, 500
	r := newMemoryBudget(bytes, share)
	var all atomic.Int64
	var of [3]atomic.Int64
	var clients sync.WaitGroup
	for i := range 12 {
		tenant := i % len(of)
		clients.Go(func() {
			for range 200 {
				h := &reservation{budget: r, tenant: string(rune('a' + tenant))}
				took := int64(0)
				for range 3 {
					n := rand.Int64N(share / 3)
					if err := h.add(t.Context(), n, time.Minute); err != nil {
						break // three of a tenant can each hold some and wait for more
					}
					took += n
					if sum, own := all.Add(n), of[tenant].Add(n); sum > bytes || own > share {
						t.Errorf("%d bytes are held, %d by one tenant", sum, own)
					}
					if rand.IntN(2) == 0 { // so none waits for ever for another who waits
						break
					}
					all.Add(-n)
					of[tenant].Add(-n)
					h.give(n)
					took -= n
				}
				all.Add(-took)
				of[tenant].Add(-took)
				h.release()
			}
		})
	}
	clients.Wait()
	if r.free != bytes || len(r.of) != 0 || len(r.lines) != 0 {
		t.Errorf("got %d bytes free, held %v, lines %v; want all free", r.free, r.of, r.lines)
	}
}

// TestNothingTaken: an empty body leaves nothing of its tenant in the budget.
func TestNothingTaken(t *testing.T) {
	t.Parallel()
	r := newMemoryBudget(1000, 600)
	h := &reservation{budget: r, tenant: "a"}
	if err := h.add(t.Context(), 0, time.Minute); err != nil {
		t.Fatal(err)
	}
	h.release()
	if r.free != 1000 || len(r.of) != 0 {
		t.Errorf("got %d bytes free, held %v; want all free", r.free, r.of)
	}
}

func TestMemoryIsFull(t *testing.T) {
	t.Parallel()
	r := newMemoryBudget(1000, 600)
	ctx := t.Context()
	first := &reservation{budget: r, tenant: "a"}
	if err := first.add(ctx, 600, 0); err != nil {
		t.Fatal(err)
	}
	if err := (&reservation{budget: r, tenant: "a"}).add(ctx, 1, 0); !errors.Is(err, errShareFull) {
		t.Errorf("beyond the share: got %v", err)
	}
	other := &reservation{budget: r, tenant: "b"}
	if err := other.add(ctx, 401, 0); !errors.Is(err, errMemoryFull) {
		t.Errorf("beyond the budget: got %v", err)
	}
	if err := other.add(ctx, 400, 0); err != nil {
		t.Errorf("what is free: got %v", err)
	}
	gone, leave := context.WithCancel(ctx)
	leave()
	if err := other.add(gone, 100, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves: got %v", err)
	}
	// A large one that waits goes before small ones of its tenant that come later.
	large := make(chan error)
	leaving, giveUp := context.WithCancel(ctx)
	go func() { large <- (&reservation{budget: r, tenant: "b"}).add(leaving, 300, time.Minute) }()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		waiting := len(r.lines["b"])
		r.mu.Unlock()
		if waiting == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it doesn't wait")
		}
	}
	other.give(10)
	if err := other.add(ctx, 1, 0); !errors.Is(err, errShareFull) {
		t.Errorf("a small one behind it: got %v", err)
	}
	giveUp()
	if err := <-large; !errors.Is(err, context.Canceled) {
		t.Errorf("one that leaves the line: got %v", err)
	}
	if err := other.add(ctx, 10, time.Minute); err != nil {
		t.Errorf("when it has left: got %v", err)
	}
	waited := make(chan error)
	go func() { waited <- other.add(ctx, 100, time.Minute) }()
	first.release()
	if err := <-waited; err != nil {
		t.Errorf("who waits while another gives: got %v", err)
	}
}

// However many tenants take what they can, each that comes finds something, and who holds most
// gets no more.
func TestEvenMemory(t *testing.T) {
	t.Parallel()
	const bytes = 1 << 20
	r := newEvenMemoryBudget(bytes)
	takeAll := func(tenant string) (h *reservation) {
		h = &reservation{budget: r, tenant: tenant}
		for n := int64(bytes); n > 0; {
			if h.add(t.Context(), n, 0) != nil {
				n /= 2
			}
		}
		return h
	}
	var first *reservation
	for i := range 8 {
		h := takeAll(string(rune('a' + i)))
		if want := int64(bytes) >> (i + 1); h.held != want {
			t.Errorf("tenant %d takes %d bytes, want %d", i+1, h.held, want)
		}
		if first == nil {
			first = h
		}
	}
	if err := (&reservation{budget: r, tenant: "victim"}).add(t.Context(), 1000, 0); err != nil {
		t.Errorf("one who comes: got %v", err)
	}
	if err := (&reservation{budget: r, tenant: "late"}).add(t.Context(), 10_000, 0); !errors.Is(err, errMemoryFull) {
		t.Errorf("one who comes for more than there is: got %v", err)
	}
	first.give(bytes / 8)
	if err := first.add(t.Context(), bytes/8, 0); !errors.Is(err, errShareFull) {
		t.Errorf("who holds most: got %v", err)
	}
	if err := (&reservation{budget: r, tenant: "b"}).add(t.Context(), 1000, 0); !errors.Is(err, errShareFull) {
		t.Errorf("who holds more than is free: got %v", err)
	}
}
