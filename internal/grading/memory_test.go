package grading

import (
	"fmt"
	"math/rand"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// TestMemory holds checkers to what workers reserve for them.
func TestMemory(t *testing.T) { //nolint:paralleltest // it measures the process
	document := func(piece string) string { return "[" + strings.Repeat(piece, MaxJSON/len(piece)-2) + "0]" }
	var lines strings.Builder
	for range MaxLines {
		fmt.Fprintf(&lines, "%x\n", rand.Int31()) //nolint:gosec // not a secret
	}
	pattern := strings.Repeat("x{1000}", 60)
	for _, c := range []struct{ name, kind, answer, output string }{
		{"numbers", job.CheckJSON, document("0,"), document("0,")},
		{"objects", job.CheckJSON, document(`{"":0},`), document(`{"":0},`)},
		{"nested", job.CheckJSON, document(strings.Repeat("[", 500) + strings.Repeat("]", 500) + ","), document(`[[[]]],`)},
		{"lines", job.CheckUnorderedLines, lines.String(), lines.String()},
		{"a long line", job.CheckUnorderedLines, strings.Repeat("x", MaxDocument), strings.Repeat("x", MaxDocument)},
		{"a pattern", job.CheckRegex, pattern, strings.Repeat("x", 1<<10)},
		{"a long output", job.CheckRegex, "x*", strings.Repeat("x", MaxMatch)},
		{"tokens", job.CheckDefault, lines.String(), lines.String()},
	} {
		if testing.Short() && (c.name == "numbers" || c.name == "lines") {
			continue // of their kinds, "objects" and "a long line" take more
		}
		t.Run(c.name, func(t *testing.T) {
			checker, err := NewChecker(job.Checker{Kind: c.kind})
			if err != nil {
				t.Fatal(err)
			}
			most := MemoryMB(job.Checker{Kind: c.kind})
			peak := peakOf(t, checker, c.answer, c.output)
			for n := 1; n < 3 && peak > most<<20; n++ { // what is garbage already is of chance
				peak = min(peak, peakOf(t, checker, c.answer, c.output))
			}
			if peak > most<<20 {
				t.Errorf("took %d MiB, more than %d", peak>>20, most)
			} else {
				t.Logf("took %.1f MiB of %d", float64(peak)/(1<<20), most)
			}
		})
	}
}

// peakOf is how far the heap grows while a checker works.
func peakOf(t *testing.T, checker *Checker, answer, output string) int64 {
	t.Helper()
	runtime.GC()
	heap := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse) //nolint:gosec // no heap is that large
	}
	before, peak := heap(), int64(0)
	done := make(chan error, 1)
	go func() {
		_, _, err := checker.Check(strings.NewReader(answer), strings.NewReader(output))
		done <- err
	}()
	for checked := false; !checked; {
		select {
		case err := <-done:
			if checked = true; err != nil {
				t.Fatal(err)
			}
		case <-time.After(5 * time.Millisecond):
		}
		peak = max(peak, heap()-before)
	}
	return peak
}
