package api

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// However many tokens of an address come at once, no more than its burst are looked up, and it
// never has to wait for longer than for one.
func TestFailuresAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := failures{share: failureShare}
		from := netip.MustParsePrefix("192.0.2.1/32")
		lookups := make(chan lookup, 1000)
		waits := make(chan time.Duration, 1000)
		var all sync.WaitGroup
		for range 400 {
			all.Go(func() {
				l, wait := f.enter(t.Context(), from)
				if wait > 0 {
					waits <- wait
					return
				}
				lookups <- l
			})
		}
		last := 0
		for range failureBurst { // the others wait for these
			if l := <-lookups; l.wrong(time.Now()) {
				last++
			}
		}
		all.Wait()
		if len(lookups) > 1 || len(waits) < 379 || last != 1 {
			t.Errorf("got %d more looked up, %d that wait, %d last ones", len(lookups), len(waits), last)
		}
		for range len(waits) {
			if wait := <-waits; wait > failureShare {
				t.Fatalf("one has to wait for %s", wait)
			}
		}
	})
}

// Good tokens that a process has not seen yet are let through, however many come at once.
func TestGoodTokensAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := failures{share: failureShare}
		from := netip.MustParsePrefix("192.0.2.1/32")
		var all sync.WaitGroup
		for range 400 {
			all.Go(func() {
				l, wait := f.enter(t.Context(), from)
				if wait > 0 {
					t.Errorf("a good token has to wait for %s", wait)
					return
				}
				time.Sleep(time.Millisecond) // Redis
				l.notWrong()
			})
		}
		all.Wait()
		if whole := f.of[from].whole; whole.After(time.Now()) {
			t.Errorf("it counts as wrong for %s", time.Until(whole))
		}
	})
}
