package gbtest

import (
	"testing"
	"time"
)

// AtOnce is what anything may take that is to happen at once, on the busiest machine. What a test
// tells it from takes at least twice as long, or for ever; how fast it is, a benchmark says.
const AtOnce = 30 * time.Second

// Best measures up to so many times, until it takes no more than most, and returns the least that it took: the machine
// may have been busy, or have stood still, in the others.
func Best(tries int, most time.Duration, measure func() time.Duration) time.Duration {
	best := measure()
	for n := 1; n < tries && best > most; n++ {
		best = min(best, measure())
	}
	return best
}

// Eventually waits until ok answers true. It fails the test after Patience, with what was
// to be.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for began := time.Now(); !ok(); Pause(began) {
		if time.Since(began) > Patience {
			tb.Fatalf("not so after %s: %s", Patience, what)
		}
	}
}

// Pause sleeps between two looks for something that was first looked for at began: for a tenth of the time since, from 10 to
// 250 ms. Many tests wait at once, and the processors are what each of them waits for.
func Pause(began time.Time) {
	time.Sleep(min(max(time.Since(began)/10, 10*time.Millisecond), 250*time.Millisecond))
}
