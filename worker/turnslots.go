package worker

import (
	"slices"
	"sync"
)

// turnSlots are how many executions of sessions run at once. Where several tenants have sessions, none has all slots. The one that has waited
// longest is the first, of those that may have one. Safe for concurrent use.
type turnSlots struct {
	mu       sync.Mutex
	free     int
	most     int
	sessions map[string]int // by tenant
	used     map[string]int // by tenant
	waiting  []*slotWaiter
}

type slotWaiter struct {
	tenant string
	given  chan struct{} // closed
}

func newTurnSlots(n int) *turnSlots {
	return &turnSlots{free: n, most: n, sessions: map[string]int{}, used: map[string]int{}}
}

// enter counts a session of the tenant, until leave is called.
func (s *turnSlots) enter(tenant string) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[tenant]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		drop(s.sessions, tenant)
		s.giveAll()
	}
}

// drop takes one off a count.
func drop(counts map[string]int, tenant string) {
	if counts[tenant]--; counts[tenant] == 0 {
		delete(counts, tenant)
	}
}

// try takes a slot if there is one for the tenant.
func (s *turnSlots) try(tenant string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(tenant)
}

func (s *turnSlots) take(tenant string) bool {
	others := len(s.sessions) > 1
	if s.free == 0 || others && s.most > 1 && s.used[tenant] >= s.most-1 {
		return false
	}
	s.free--
	s.used[tenant]++
	return true
}

// wait waits for a slot: given is closed once the tenant has it. stop gives it up, whether it was given or not.
func (s *turnSlots) wait(tenant string) (given <-chan struct{}, stop func()) {
	w := &slotWaiter{tenant, make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, w)
	s.giveAll()
	return w.given, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := slices.Index(s.waiting, w); i >= 0 {
			s.waiting = slices.Delete(s.waiting, i, i+1)
			return
		}
		s.put(tenant)
	}
}

// give gives back a slot of the tenant's.
func (s *turnSlots) give(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(tenant)
}

func (s *turnSlots) put(tenant string) {
	s.free++
	drop(s.used, tenant)
	s.giveAll()
}

// giveAll gives slots to those who wait for one and may have it, the first ones first.
func (s *turnSlots) giveAll() {
	s.waiting = slices.DeleteFunc(s.waiting, func(w *slotWaiter) bool {
		given := s.take(w.tenant)
		if given {
			close(w.given)
		}
		return given
	})
}
