package worker

import "testing"

// TestTurnSlots: who waits longest is the first, but of several tenants none has all slots.
func TestTurnSlots(t *testing.T) {
	t.Parallel()
	s := newTurnSlots(2)
	has := func(given <-chan struct{}) bool {
		select {
		case <-given:
			return true
		default:
			return false
		}
	}
	leaveA := s.enter("a")
	s.enter("a")
	for range 2 {
		if !s.try("a") {
			t.Fatal("a tenant that is alone has all slots")
		}
	}
	if s.try("a") {
		t.Fatal("there is no slot more")
	}
	leaveB := s.enter("b")
	a, stopA := s.wait("a")
	b, stopB := s.wait("b")
	s.give("a")
	if has(a) || !has(b) {
		t.Error("the slot of a tenant that had all goes to the other")
	}
	if s.try("b") || s.try("c") {
		t.Error("there is no slot more")
	}
	stopB() // which it was given
	if has(a) {
		t.Error("the last slot is kept for the other tenant")
	}
	leaveB()
	if !has(a) {
		t.Error("a tenant that is alone again has all slots")
	}
	next, stopNext := s.wait("a")
	stopNext()
	stopA()
	leaveA()
	if has(next) || s.free != 1 || s.used["a"] != 1 || len(s.waiting) != 0 || len(s.sessions) != 1 {
		t.Errorf("got %+v", s)
	}
	one := newTurnSlots(1)
	one.enter("a")
	one.enter("b")
	if !one.try("a") {
		t.Error("a single slot is for any tenant")
	}
}
