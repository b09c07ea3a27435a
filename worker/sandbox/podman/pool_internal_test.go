package podman

import (
	"strings"
	"testing"
)

// TestEndIsMonotonic: how long a result has the processors to itself doesn't depend on the time of
// day: a clock that is set back by an hour must not stop the pool for one.
func TestEndIsMonotonic(t *testing.T) {
	t.Parallel()
	p := &Sandboxes{}
	l := &pool{sandboxes: p}
	if wait := l.refillDelay(); wait != 0 {
		t.Errorf("before any program: it waits for %s", wait)
	}
	p.programs.Add(1)
	p.programEnded()
	if ended := p.lastEnd.Load(); !strings.Contains(ended.String(), " m=") {
		t.Errorf("the last end is %s, which the clock can pass twice", ended)
	}
	if wait := l.refillDelay(); wait > resultTime {
		t.Errorf("it waits for %s, want %s at most", wait, resultTime)
	}
}
