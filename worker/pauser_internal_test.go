package worker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// chosen says which of the spells are.
func chosen(spells ...*idleSpell) (which []int) {
	synctest.Wait()
	for i, s := range spells {
		select {
		case <-s.chosen:
			which = append(which, i)
		default:
		}
	}
	return which
}

// TestPauser: the session that was idle for longest is paused first, no more of them than memory is missing, none that was idle for a moment only, and
// each after its time.
func TestPauser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		missing := int64(0)
		p := &pauser{after: time.Minute, missing: func() int64 { return missing }}
		var s []*idleSpell
		for range 5 {
			s = append(s, p.begin(100, time.Time{}))
			time.Sleep(time.Second)
		}
		refused := p.begin(100, time.Now().Add(2*time.Minute)) // it could not be paused
		want := func(when string, now ...int) {
			t.Helper()
			if got := chosen(s...); !slices.Equal(got, now) {
				t.Errorf("%s: got %v, want %v", when, got, now)
			}
		}
		want("nothing is missing")
		missing = 150
		p.memoryShort() // 0 alone is idle for long enough
		want("150 MiB are missing", 0)
		time.Sleep(leastIdle)
		want("so much is missing still", 0, 1)
		s[1].end() // an execution has come
		want("one is not paused after all", 0, 1, 2)
		missing = 0
		s[0].end()
		s[2].end()
		want("all have what they want", 0, 1, 2)
		time.Sleep(53 * time.Second)
		want("one was idle for a minute", 0, 1, 2, 3)
		time.Sleep(time.Second)
		want("and another", 0, 1, 2, 3, 4)
		s = append(s, p.begin(100, time.Time{}))
		time.Sleep(time.Minute)
		want("as many are paused as may at once", 0, 1, 2, 3, 4)
		s[3].end()
		s[3].end()
		want("one is paused", 0, 1, 2, 3, 4, 5)
		if got := chosen(refused); len(got) > 0 {
			t.Error("what could not be paused is tried again too soon")
		}
		s[4].end()
		s[5].end()
		time.Sleep(time.Minute)
		if got := chosen(refused); len(got) == 0 {
			t.Error("what could not be paused is not tried again")
		}
		refused.end()
		if p.pausing != 0 || p.freeing != 0 || len(p.idle) != 0 {
			t.Errorf("got %+v", p)
		}
		if never := (&pauser{}).begin(100, time.Time{}); never != nil {
			t.Error("without a time none is paused")
		}
	})
}

// TestBudget: what is missing is what those who wait want beyond what is free, whoever has just got some.
func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, shorts := newBudget(1000), 0
		b.onShort = func() { shorts++ }
		if !b.tryAcquire(700) || b.missing() != 0 {
			t.Fatal("700 of 1000 are free")
		}
		got := make(chan error, 2)
		for _, mb := range []int64{500, 400} {
			go func() { got <- b.acquire(t.Context(), mb) }()
			synctest.Wait()
		}
		if m := b.missing(); m != 600 || shorts != 2 {
			t.Errorf("got %d missing, told %d times, want 600 and 2", m, shorts)
		}
		if b.tryAcquire(100) {
			t.Error("somebody passes those who wait")
		}
		b.release(300)
		synctest.Wait()
		if m := b.missing(); m != 300 || len(got) != 1 {
			t.Errorf("got %d missing, %d who have some, want 300 and 1", m, len(got))
		}
		b.release(400)
		synctest.Wait()
		if m := b.missing(); m != 0 || b.free != 100 || len(got) != 2 {
			t.Errorf("got %d missing, %d free", m, b.free)
		}
	})
}
