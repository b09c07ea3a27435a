package podman

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
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
		failing  string // of which none could be started
		want     map[string]int
	}{
		{"room for all", 1000, nil, "", map[string]int{"bash": 1, "php": 1, "python": 1}},
		{"room for two", 2*IdleMB + 100, nil, "", map[string]int{"bash": 1, "python": 1}},
		{"room for the preload", IdleMB + 100, nil, "", map[string]int{"python": 1}},
		{"one of the others is in demand", 2*IdleMB + 100, []string{"php"}, "", map[string]int{"php": 1, "python": 1}},
		{"others in demand, and room for the preload alone", 2*IdleMB + 99, []string{"lua", "multi", "php"}, "", map[string]int{"python": 1}},
		{"demand for what has none otherwise", 1000, []string{"lua"}, "", map[string]int{"bash": 1, "lua": 2, "php": 1, "python": 1}},
		{"demand for what has none otherwise and preloads", 1000, []string{"multi"}, "", map[string]int{"bash": 1, "multi": 2, "php": 1, "python": 1}},
		{"one can't be started", 3*IdleMB + 100, []string{"bash"}, "bash", map[string]int{"bash": 1, "php": 1, "python": 1}},
		{"one can't be started, and there is no room for it", 2*IdleMB + 100, []string{"bash"}, "bash", map[string]int{"php": 1, "python": 1}},
		{"no room", IdleMB - 1, []string{"lua", "multi", "php"}, "", map[string]int{}},
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
				if images.plan.image == tt.failing {
					images.backoff = tidyInterval
				}
			}
			got := map[string]int{}
			l.resize()
			for _, images := range l.images {
				if images.wanted > 0 {
					got[images.plan.image] = images.wanted
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTargetsOutage: where no more can be started for a moment, what waits is not too many.
func TestTargetsOutage(t *testing.T) {
	t.Parallel()
	images := &imagePool{plan: plan{image: "python"}, lastWanted: time.Now(), idle: []*instance{{}, {}}, backoff: tidyInterval}
	l := &pool{maxPerImage: 3, budget: 1000, images: []*imagePool{images}}
	if l.resize(); images.wanted != 3 {
		t.Errorf("%d are to wait, want 3", images.wanted)
	}
}

// TestSnapshotDue: a snapshot is made anew when it is old and nobody needs the processors, and however busy they
// are before nothing may go on from it any more. One whose image has changed goes at once.
func TestSnapshotDue(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		age  time.Duration
		busy bool
		want bool
	}{
		{"new", 0, false, false},
		{"not yet old", 54 * time.Minute, false, false},
		{"old", 56 * time.Minute, false, true},
		{"old, and a program has just come", 56 * time.Minute, true, false},
		{"overdue", 91 * time.Minute, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			images := &imagePool{plan: plan{image: "python", preload: &Preload{}}, idle: []*instance{{}}}
			images.snapshot = &snapshot{made: time.Now().Add(-tt.age), renewAfter: 55 * time.Minute}
			l := &pool{sandboxes: &Sandboxes{}, snapshots: true, images: []*imagePool{images}}
			if tt.busy {
				l.lastClaim = time.Now()
			}
			if got := l.nextSnapshot() != nil; got != tt.want {
				t.Errorf("is it made anew: %t, want %t", got, tt.want)
			}
		})
	}
	t.Run("of another image", func(t *testing.T) {
		t.Parallel()
		images := &imagePool{plan: plan{image: "python", preload: &Preload{}}, snapshot: &snapshot{imageID: "a", made: time.Now()}}
		l := &pool{sandboxes: &Sandboxes{}, images: []*imagePool{images}}
		l.tidy(map[string]string{"python": "a"})
		if images.snapshot == nil {
			t.Error("the snapshot is gone, want it kept while the image is the same")
		}
		l.tidy(map[string]string{"python": "b"})
		if images.snapshot != nil {
			t.Error("the snapshot is kept, want it gone with the image")
		}
	})
}

// TestRank: a program gets the sandbox that serves it best, and one that is cheap to replace where others
// serve it as well.
func TestRank(t *testing.T) {
	t.Parallel()
	python := plan{image: "python", preload: &Preload{Command: []string{"python3", "main.py"}, Words: []string{"numpy", "pandas"}, SnapshotWords: []string{"sympy"}}}
	sandboxes := map[string]*instance{
		"plain":      {container: container{plan: python}},
		"preloading": {container: container{plan: python}, preload: preloadRunning},
		"imported":   {container: container{plan: python}, preload: preloadReady},
		"restored":   {container: container{plan: python}, preload: preloadReady, snapshot: &snapshot{}},
		"failed":     {container: container{plan: python}, preload: preloadFailed},
	}
	program := func(source string, command ...string) sandbox.Program {
		return sandbox.Program{Command: command, Files: []sandbox.File{{Name: "main.py", Content: []byte(source)}}}
	}
	far := strings.Repeat("#", maxWordsIn) + "import numpy"
	tests := []struct {
		name    string
		program sandbox.Program
		pays    bool
		want    []string // the best first
	}{
		{"imports", program("import numpy", "python3", "main.py"), true, []string{"imported", "restored", "failed plain", "preloading"}},
		{"imports, with arguments", program("import pandas as pd", "python3", "main.py", "-v"), true, []string{"imported", "restored", "failed plain", "preloading"}},
		{"prints", program("print(1)", "python3", "main.py"), false, []string{"imported", "failed plain", "restored", "preloading"}},
		{"imports far below", program(far, "python3", "main.py"), false, []string{"imported", "failed plain", "restored", "preloading"}},
		{"of another command", program("import numpy", "python3", "-O", "main.py"), false, []string{"failed plain", "preloading", "imported restored"}},
		{"imports what only snapshots have", program("import sympy, numpy", "python3", "main.py"), true, []string{"restored", "imported", "failed plain", "preloading"}},
		{"a session", sandbox.Program{Turns: struct{ sandbox.Turns }{}, Interpreter: &sandbox.File{Name: "main.py"}}, true, []string{"imported", "restored", "failed plain", "preloading"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := python.pays(tt.program); got != tt.pays {
				t.Errorf("it gains by a preloaded process: %t, want %t", got, tt.pays)
			}
			byRank := map[int][]string{}
			for name, w := range sandboxes {
				byRank[w.rank(tt.program)] = append(byRank[w.rank(tt.program)], name)
			}
			var got []string
			for _, rank := range slices.Backward(slices.Sorted(maps.Keys(byRank))) {
				slices.Sort(byRank[rank])
				got = append(got, strings.Join(byRank[rank], " "))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRefillFrom: under load as many of those that wait go on from the snapshot as recent programs gained by
// it; and where none preloads by itself, all when nobody needs the processors.
func TestRefillFrom(t *testing.T) {
	t.Parallel()
	s := &snapshot{}
	tests := []struct {
		name            string
		quiet, only     bool
		paid            string // of the recent programs, the oldest first: n, y, or s, which need the snapshot
		plain, restored int
		want            bool
	}{
		{"quiet", true, false, "nnnn", 3, 0, false},
		{"quiet, and none preloads by itself", true, true, "nnnn", 3, 0, true},
		{"quiet, and half need the snapshot", true, false, "nnsnsss", 0, 3, true},
		{"quiet, and few need the snapshot", true, false, "nnns", 1, 0, false},
		{"busy, and none preloads by itself", false, true, "nnnn", 3, 0, false},
		{"none gained", false, false, "nnnn", 3, 0, false},
		{"all gained", false, false, "yyyyyyyyyyyyyyyyyyyy", 0, 3, true},
		{"every second one, and half wait restored", false, false, "ynynynynynynynynynyn", 1, 1, false},
		{"every second one, and none waits restored", false, false, "ynynynynynynynynynyn", 2, 0, true},
		{"one has just gained", false, false, "nnnnnnnny", 0, 0, false},
		{"four have", false, false, "nnnnnnnnyyyy", 0, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			images := &imagePool{snapshot: s}
			for _, paid := range tt.paid {
				images.noteDemand(paid != 'n', paid == 's')
			}
			for range tt.plain {
				images.idle = append(images.idle, &instance{})
			}
			for range tt.restored {
				images.idle = append(images.idle, &instance{snapshot: s, preload: preloadReady})
			}
			l := &pool{sandboxes: &Sandboxes{}, onlySnapshots: tt.only, images: []*imagePool{images}}
			if !tt.quiet {
				l.lastClaim = time.Now()
			}
			if got := l.refillFrom(images) != nil; got != tt.want {
				t.Errorf("the next one goes on from the snapshot: %t, want %t (share of programs that gained %.2f)", got, tt.want, images.paying)
			}
		})
	}
}

// TestRefillsInTurn: a flood of programs of one image, each of which takes what waits, keeps no other image without a
// sandbox. Where all have one, the image that is wanted most is refilled.
func TestRefillsInTurn(t *testing.T) {
	t.Parallel()
	flood, other := &imagePool{plan: plan{image: "bash"}}, &imagePool{plan: plan{image: "php"}}
	l := &pool{sandboxes: &Sandboxes{}, maxPerImage: 2, budget: 1000, images: []*imagePool{flood, other}}
	now := time.Now()
	flood.lastWanted, other.lastWanted = now, now.Add(-time.Second)
	other.arrivals.Note(now)
	for range 1000 {
		flood.arrivals.Note(now)
	}
	flood.refilled, other.refilled = now, now.Add(-time.Second)
	if next, wait := l.nextRefill(); next != other || wait != 0 {
		t.Errorf("next is %q in %s, want php now", next.plan.image, wait)
	}
	other.refilled = now.Add(time.Second)
	if next, wait := l.nextRefill(); next != flood || wait != 0 {
		t.Errorf("next is %q in %s, want bash now, as it is its turn", next.plan.image, wait)
	}
	flood.idle, other.idle = []*instance{{}}, []*instance{{}}
	if next, _ := l.nextRefill(); next != flood {
		t.Errorf("next is %q, want bash, of which more are wanted", next.plan.image)
	}
}

// TestPoolAdds: images that come later have their place among the others, which stay as they are; none comes to a pool that is closed.
func TestPoolAdds(t *testing.T) {
	t.Parallel()
	l := &pool{sandboxes: &Sandboxes{}, woken: make(chan struct{}, 1)}
	l.sandboxes.pool = l
	warm := func(mb int64, images ...string) Warm {
		w := Warm{Images: map[string]job.Limits{}, MemoryMB: mb}
		for _, image := range images {
			w.Images[image] = job.Limits{}
		}
		return w
	}
	l.add(warm(100, "c", "a"))
	before := slices.Clone(l.images)
	for range 2 {
		l.sandboxes.KeepMoreWarm(warm(90, "b", "c", "a"))
		if len(l.images) != 3 || l.images[0] != before[0] || l.images[2] != before[1] || l.images[1].plan.image != "b" || l.budget != 90 {
			t.Fatalf("it has %d images in %d MiB", len(l.images), l.budget)
		}
		select {
		case <-l.woken:
		default:
			t.Error("nobody is woken to start what is wanted now")
		}
	}
	l.close()
	l.sandboxes.KeepMoreWarm(warm(90, "b"))
	if len(l.images) > 0 {
		t.Error("an image came to a pool that is closed")
	}
}
