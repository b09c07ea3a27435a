package gbtest

import (
	"testing"
	"time"
)

// AtOnce is what anything may take that is to happen at once, on the busiest machine. What a test
// tells it from takes at least twice as long, or for ever; how fast it is, a benchmark says.
const AtOnce = 30 * time.Second

// Eventually waits until ok answers true. It fails the test after Patience, with what was
// to be.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(Patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not so after %s: %s", Patience, what)
		}
	}
}
