package gbtest

import (
	"slices"
	"testing"
)

// TestPlaces: as many tests as there are processors go on, then one for each moment in which a processor is idle, and a subtest in its parent's place.
func TestPlaces(t *testing.T) {
	t.Parallel()
	p := places{most: 2} // nobody looks at the processors
	enter := func(test string) { p.enter(test) }
	want := func(tests ...string) {
		t.Helper()
		if !slices.Equal(p.tests, tests) {
			t.Errorf("%v go on, and %d wait, want %v", p.tests, len(p.line), tests)
		}
	}
	enter("A")
	enter("A")
	enter("B")
	enter("C")
	enter("D")
	want("A", "B")
	enter("A/1")
	enter("A/2")
	want("A", "B", "A/1")
	p.leave("A/1")
	want("A", "B", "C") // A only waits for its second subtest, behind C
	p.letIn(false)
	p.letIn(true)
	want("A", "B", "C", "D")
	p.letIn(true)
	want("A", "B", "C", "D", "A/2")
	p.leave("A/2")
	p.leave("A")
	p.leave("B")
	p.leave("C")
	p.leave("D")
	want()

	for range 2 + waiting + 1 {
		enter(string(rune('a' + len(p.tests) + len(p.line))))
		p.letIn(true)
	}
	if len(p.tests) != 2+waiting || len(p.line) != 1 {
		t.Errorf("%d tests go on and %d wait, want %d and the last one", len(p.tests), len(p.line), 2+waiting)
	}
}

// TestIdleTime: since it started, some processor of this machine has had nothing to do, and that is known.
func TestIdleTime(t *testing.T) {
	t.Parallel()
	before := idleTime()
	if before <= 0 || idleTime() < before {
		t.Errorf("got %s, then %s", before, idleTime())
	}
}

func TestAvailableMemory(t *testing.T) {
	t.Parallel()
	if n := availableMB(); n < 16 || n > 64<<20 {
		t.Errorf("got %d MiB", n)
	}
}
