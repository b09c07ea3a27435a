package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/autoscale"
)

// TestWantedIsForgotten: a number that nobody has decided anew is not there any more.
func TestWantedIsForgotten(t *testing.T) {
	t.Parallel()
	r := NewRegistry("v1")
	m := NewAutoscale(r)
	clock := time.Now()
	m.now = func() time.Time { return clock }
	for _, step := range []struct {
		what  string
		then  func()
		there bool
	}{
		{"nothing is decided", func() {}, false},
		{"seven are wanted", func() { m.Decided(autoscale.Decision{Pool: "common", At: clock, Wanted: 7, Needed: 3}) }, true},
		{"and another number of a pool", func() { m.Decided(autoscale.Decision{Pool: "pool=exams,zone=a", At: clock, Wanted: 2, Needed: 1}) }, true},
		{"two minutes later", func() { clock = clock.Add(wantedFor) }, true},
		{"and one second", func() { clock = clock.Add(time.Second) }, false},
	} {
		step.then()
		text := scrape(t, r)
		if got := strings.Contains(text, "\nglovebox_workers_wanted{pool=\"common\"} 7\n") && strings.Contains(text, "\nglovebox_workers_needed{pool=\"common\"} 3\n"); got != step.there {
			t.Errorf("%s: got the metrics %v, want %v, in:\n%s", step.what, got, step.there, text)
		}
	}
}
