package podman

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// TestTargets: where there is room for few idle sandboxes, they are of images that are in demand or
// have a preload; what is kept on demand only has none before.
func TestTargets(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		budgetMB int64
		demand   []string
		want     map[string]int
	}{
		{"room for all", 1000, nil, map[string]int{"bash": 1, "php": 1, "python": 1}},
		{"room for two", 2*IdleMB + 100, nil, map[string]int{"bash": 1, "python": 1}},
		{"room for the preload", IdleMB + 100, nil, map[string]int{"python": 1}},
		{"one of the others is in demand", 2*IdleMB + 100, []string{"php"}, map[string]int{"php": 1, "python": 1}},
		{"others in demand, and room for the preload alone", 2*IdleMB + 99, []string{"lua", "multi", "php"}, map[string]int{"python": 1}},
		{"demand for what has none otherwise", 1000, []string{"lua"}, map[string]int{"bash": 1, "lua": 2, "php": 1, "python": 1}},
		{"demand for what has none otherwise and preloads", 1000, []string{"multi"}, map[string]int{"bash": 1, "multi": 2, "php": 1, "python": 1}},
		{"no room", IdleMB - 1, []string{"lua", "multi", "php"}, map[string]int{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := &pool{maxPerImage: 2, budget: tt.budgetMB, images: []*imagePool{
				{plan: plan{image: "bash"}},
				{plan: plan{image: "lua"}, onDemand: true},
				{plan: plan{image: "multi", preload: &Preload{MemoryMB: 100}}, onDemand: true},
				{plan: plan{image: "php"}},
				{plan: plan{image: "python", preload: &Preload{MemoryMB: 100}}},
			}}
			for _, images := range l.images {
				if slices.Contains(tt.demand, images.plan.image) {
					images.lastWanted = time.Now()
				}
			}
			got := map[string]int{}
			for images, n := range l.targets() {
				got[images.plan.image] = n
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
