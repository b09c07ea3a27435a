package api

import (
	"net/netip"
	"sync"
	"testing"
	"time"
)

func hashOf(i int) TokenHash { return TokenHash{byte(i), byte(i >> 8)} }

// However many tokens of an address come at once, no more than its burst are looked up, and it
// never has to wait for longer than for one.
func TestFailuresAtOnce(t *testing.T) {
	t.Parallel()
	var f failures
	from := netip.MustParsePrefix("192.0.2.1/32")
	lookups := make(chan lookup, 1000)
	waits := make(chan time.Duration, 1000)
	var all sync.WaitGroup
	for i := range 400 {
		all.Go(func() {
			l, wait := f.enter(t.Context(), from, hashOf(i))
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
	// Tokens that were good once and are wrong all together lock nobody out for longer.
	var wereGood []lookup
	for i := range 400 {
		l := lookup{failures: &f, from: from, token: hashOf(i)}
		l.right()
		wereGood = append(wereGood, l)
	}
	for _, l := range wereGood {
		l.wrong(time.Now())
	}
	if _, wait := f.enter(t.Context(), from, hashOf(1000)); wait <= 0 || wait > failureShare {
		t.Errorf("after all of these: got %s", wait)
	}
}

// Good tokens that a process has not seen yet are let through, however many come at once.
func TestGoodTokensAtOnce(t *testing.T) {
	t.Parallel()
	var f failures
	from := netip.MustParsePrefix("192.0.2.1/32")
	var all sync.WaitGroup
	for i := range 400 {
		all.Go(func() {
			l, wait := f.enter(t.Context(), from, hashOf(i))
			if wait > 0 {
				t.Errorf("a good token has to wait for %s", wait)
				return
			}
			time.Sleep(time.Millisecond) // Redis
			if i%3 == 0 {
				l.unknown() // it was away
			} else {
				l.right()
			}
		})
	}
	all.Wait()
	if whole := f.of[from].whole; whole.After(time.Now()) {
		t.Errorf("it counts as wrong for %s", time.Until(whole))
	}
}
