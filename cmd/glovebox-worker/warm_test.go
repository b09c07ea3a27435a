package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestFitWarmGivesBack: with any memory, what is kept fits, and nothing was given up that would fit.
func TestFitWarmGivesBack(t *testing.T) {
	t.Parallel()
	onDemand := map[string]bool{"multi": true, "r": true, "octave": true}
	preloads := map[string]podman.Preload{
		"python": {MemoryMB: 190, SavesMS: 600}, "node": {MemoryMB: 110, SavesMS: 250}, "java": {MemoryMB: 80, SavesMS: 400}, "typescript": {MemoryMB: 30, SavesMS: 130},
		"multi": {MemoryMB: 190, SavesMS: 600}, "r": {MemoryMB: 230, SavesMS: 590}, "octave": {MemoryMB: 200, SavesMS: 260},
	}
	for _, some := range [][]string{{"python", "node", "java", "typescript"}, {"python", "node", "java", "typescript", "r", "octave"}, {"node", "typescript", "multi", "r"}} {
		for _, concurrency := range []int{1, 2, 8} {
			for room := int64(0); room < 5000; room += 3 {
				whole := podman.Warm{Images: map[string]job.Limits{"bash": {}}, OnDemand: onDemand, Preloads: map[string]podman.Preload{}, Most: concurrency, Snapshots: true}
				for _, image := range some {
					whole.Images[image], whole.Preloads[image] = job.Limits{}, preloads[image]
				}
				w := whole
				all := fitWarm(&w, concurrency, room)
				if needs := warmNeeds(w, concurrency).least(); len(w.Preloads) > 0 && needs > room {
					t.Errorf("%v of %d: %d MiB are planned in %d", some, concurrency, needs, room)
				}
				for i, g := range all {
					if g.preload && onDemand[g.image] { // idle ones have no room of their own
						continue
					}
					fewer := slices.Clone(all)
					if g.preload {
						fewer[i].preload = false
					} else {
						fewer = slices.Delete(fewer, i, i+1)
					}
					if needs := warmNeeds(without(whole, fewer), concurrency).least(); needs <= room {
						t.Errorf("%v of %d: %v is given up of %v, and would fit: %d MiB in %d", some, concurrency, g, all, needs, room)
					}
				}
			}
		}
	}
}

// TestFitWarm: a worker with little memory gives up as little as makes the rest fit, what helps least first.
func TestFitWarm(t *testing.T) {
	t.Parallel()
	// Of two CPUs, with an idle sandbox of 40. Python alone: 2 × 160 that programs hold, 200 for one idle sandbox; its
	// snapshot: 160, and 200 for the sandbox in which it is made. Python, Node (100) and multi (180, on demand): 2 × 180,
	// 200 + 140 for idle ones; snapshots: 440, and 220.
	const all = 360 + 340 + 440 + 220
	one, three := []string{"python"}, []string{"python", "node", "multi"}
	tests := []struct {
		name      string
		room      int64
		images    []string
		preloads  []string
		snapshots []string
		givenUp   []givenUp
		idleMB    int64
	}{
		{"room for all", 4096, three, three, three, nil, 4096 - 360 - 440 - 220},
		{"just room for all", all, three, three, three, nil, 340},
		{"a megabyte less", all - 1, three, three, []string{"python", "node"}, []givenUp{{"multi", false}}, 539},
		{"for two snapshots", all - 200, three, three, []string{"python", "node"}, []givenUp{{"multi", false}}, 340},
		{"for Python's only", all - 201, three, three, []string{"python"}, []givenUp{{"multi", false}, {"node", false}}, 439},
		{"Node's is not enough", all - 301, three, three, []string{"node"}, []givenUp{{"multi", false}, {"python", false}}, 459},
		{"for none", 700, three, three, nil, []givenUp{{"multi", false}, {"node", false}, {"python", false}}, 340},
		{"not for what is on demand", 699, three, []string{"python", "node"}, nil, []givenUp{{"node", false}, {"python", false}, {"multi", true}}, 379},
		{"not for Node", 659, three, one, nil, []givenUp{{"python", false}, {"multi", true}, {"node", true}}, 339},
		{"not for Python", 519, three, []string{"node"}, nil, []givenUp{{"multi", true}, {"node", false}, {"python", true}}, 319},
		{"nothing", 0, three, nil, nil, []givenUp{{"multi", true}, {"node", true}, {"python", true}}, 0},
		{"what saves least goes first", 1319, []string{"python", "node", "java"}, []string{"python", "node", "java"}, []string{"python", "java"}, []givenUp{{"node", false}}, 559},
		{"just room for Python alone", 520 + 360, one, one, one, nil, 200},
		{"a megabyte less for it", 520 + 359, one, one, nil, []givenUp{{"python", false}}, 559},
		{"just room without its snapshot", 520, one, one, nil, []givenUp{{"python", false}}, 200},
		{"a megabyte less than that", 519, one, nil, nil, []givenUp{{"python", true}}, 519},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			memory := map[string]int64{"python": 160, "node": 100, "multi": 180, "java": 80}
			saves := map[string]int64{"python": 800, "node": 300, "multi": 800, "java": 500}
			w := podman.Warm{
				Images:   map[string]job.Limits{"bash": {}, "c": {}},
				OnDemand: map[string]bool{"multi": true}, Most: 2, Snapshots: true, OnlySnapshots: true,
				Preloads: map[string]podman.Preload{},
			}
			for _, image := range tt.images {
				w.Images[image], w.Preloads[image] = job.Limits{}, podman.Preload{MemoryMB: memory[image], SavesMS: saves[image]}
			}
			got := fitWarm(&w, 2, tt.room)
			if diff := cmp.Diff(tt.givenUp, got, cmp.AllowUnexported(givenUp{})); diff != "" {
				t.Error(diff)
			}
			same := func(what string, want, got []string) {
				if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
					t.Errorf("%s: %s", what, diff)
				}
			}
			same("preloaded", tt.preloads, slices.Collect(maps.Keys(w.Preloads)))
			same("snapshots", tt.snapshots, snapshotsOf(w))
			if some := len(tt.snapshots) > 0; w.Snapshots != some || w.OnlySnapshots != some {
				t.Errorf("snapshots are made: %t, and no sandbox preloads by itself: %t; want %t", w.Snapshots, w.OnlySnapshots, some)
			}
			if w.MemoryMB != tt.idleMB {
				t.Errorf("idle sandboxes get %d MiB, want %d", w.MemoryMB, tt.idleMB)
			}
			if n := warmNeeds(w, 2); n.running+w.MemoryMB > max(tt.room, 0) || n.preloaded > w.MemoryMB {
				t.Errorf("%d and %d MiB are planned in %d, of which the core's idle sandboxes take %d", n.running, w.MemoryMB, tt.room, n.preloaded)
			}
		})
	}
}

// TestFitMoreWarm: an image that comes later gets what there is room for. Images that were there lose room for waiting sandboxes, and nothing else.
func TestFitMoreWarm(t *testing.T) {
	t.Parallel()
	preloads := map[string]podman.Preload{
		"python": {MemoryMB: 190}, "node": {MemoryMB: 110}, "r": {MemoryMB: 230}, "octave": {MemoryMB: 200}, "java": {MemoryMB: 80},
	}
	plan := func(images ...string) podman.Warm {
		w := podman.Warm{Images: map[string]job.Limits{}, OnDemand: map[string]bool{"r": true, "octave": true, "lua": true}, Preloads: map[string]podman.Preload{}, Most: 2, Snapshots: true}
		for _, image := range images {
			w.Images[image] = job.Limits{}
			if preload, ok := preloads[image]; ok {
				w.Preloads[image] = preload
			}
		}
		return w
	}
	// Python and its snapshot: 2 × 190 that programs hold, 190, 230 for the sandbox in which it is made, and 230 for one that waits.
	const python = 380 + 190 + 230 + 230
	tests := []struct {
		name    string
		room    int64
		before  []string
		came    []string
		givenUp []givenUp
		idleMB  int64
	}{
		{"without a preload", python, []string{"bash", "python"}, []string{"lua", "php"}, nil, 230},
		{"all of one of the core", python + 110 + 150, []string{"bash", "python"}, []string{"node"}, nil, 230 + 150},
		{"a megabyte less", python + 110 + 149, []string{"bash", "python"}, []string{"node"}, []givenUp{{"node", false}}, 230 + 110 + 149},
		{"nothing of it", python + 149, []string{"bash", "python"}, []string{"node"}, []givenUp{{"node", true}}, 230 + 149},
		{"all of one on demand", python + 2*10 + 200 + 10 + 240, []string{"python"}, []string{"octave"}, nil, 230 + 240},
		{"one on demand without a snapshot", python + 2*10 + 240, []string{"python"}, []string{"octave"}, []givenUp{{"octave", false}}, 230 + 240},
		{"one on demand without room to wait", python + 2*10 + 239, []string{"python"}, []string{"octave"}, []givenUp{{"octave", true}}, 230 + 2*10 + 239},
		{"beside one on demand that waits", python + 2*10 + 200 + 10 + 240 + 110 + 150, []string{"python", "octave"}, []string{"node"}, nil, 230 + 240 + 150},
		{"a megabyte less beside one on demand", python + 2*10 + 200 + 10 + 240 + 110 + 149, []string{"python", "octave"}, []string{"node"}, []givenUp{{"node", false}}, 230 + 240 + 110 + 149},
		{"the first that preloads", python, []string{"bash"}, []string{"python"}, nil, 230},
		{"several, in the order of their names", python + 110 + 150, []string{"python"}, []string{"node", "java"}, []givenUp{{"node", true}}, python + 110 + 150 - 380 - 270 - 230},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before, w := plan(tt.before...), plan(append(tt.came, tt.before...)...)
			if given := fitWarm(&before, 2, tt.room); len(given) > 0 {
				t.Fatalf("%v is given up before any came", given)
			}
			got := fitMoreWarm(&w, before, 2, tt.room)
			if diff := cmp.Diff(tt.givenUp, got, cmp.AllowUnexported(givenUp{})); diff != "" {
				t.Error(diff)
			}
			for image, preload := range before.Preloads {
				if diff := cmp.Diff(preload, w.Preloads[image]); diff != "" {
					t.Errorf("%s, which was there, has another preload: %s", image, diff)
				}
			}
			if w.MemoryMB != tt.idleMB || len(w.Images) != len(tt.before)+len(tt.came) {
				t.Errorf("%d images wait in %d MiB, want %d", len(w.Images), w.MemoryMB, tt.idleMB)
			}
			if n := warmNeeds(w, 2); n.running+w.MemoryMB != tt.room || n.preloaded > w.MemoryMB {
				t.Errorf("%d and %d MiB are planned in %d, of which the core's idle sandboxes take %d", n.running, w.MemoryMB, tt.room, n.preloaded)
			}
		})
	}
}

// present says which images are in the store, and nothing else.
type present struct {
	worker.Sandboxes
	images []string
}

func (p present) Image(_ context.Context, name string) (string, error) {
	if !slices.Contains(p.images, name) {
		return "", sandbox.ErrNoImage
	}
	return "sha256:0", nil
}

// TestKeepMoreWarm: a runtime that is built later is planned, and seen in the metrics and by doctor, once, whoever looks meanwhile. What jobs have
// of the memory stays as it is.
func TestKeepMoreWarm(t *testing.T) {
	t.Parallel()
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	image := func(name string) string {
		r, ok := set.Lookup(name)
		if !ok {
			t.Fatalf("there is no %s", name)
		}
		return r.Image()
	}
	c := config.Worker{Warm: 2, Concurrency: 2, MemoryMB: 8000, Preload: true, Snapshots: "auto"}
	m, err := newMetrics(t.Context(), c, set.Names())
	if err != nil {
		t.Fatal(err)
	}
	var log gbtest.Buffer
	s := &startup{config: c, set: set, metrics: m, sandboxes: present{images: []string{image("bash")}}, podman: &podman.Sandboxes{}, log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := s.planWarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.warm.reserved != c.MemoryMB/4 || s.warm.plan.MemoryMB != s.warm.reserved || len(s.warm.plan.Images) != 1 {
		t.Errorf("at the start %d MiB are set aside, %d for sandboxes that wait, of %d images", s.warm.reserved, s.warm.plan.MemoryMB, len(s.warm.plan.Images))
	}
	s.observeSnapshots()
	seen := func() string {
		page := httptest.NewRecorder()
		m.snapshots.ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, metrics.SnapshotsPath, http.NoBody))
		families, err := m.registry.Gather()
		if err != nil {
			t.Error(err)
		}
		for _, f := range families {
			if f.GetName() == "glovebox_worker_snapshot_bytes" {
				return page.Body.String() + fmt.Sprint(f.GetMetric())
			}
		}
		return page.Body.String()
	}
	if text := seen(); strings.Contains(text, "python") {
		t.Errorf("seen is %s", text)
	}
	var looking sync.WaitGroup
	for range 4 {
		looking.Go(func() { seen() })
	}
	for range 3 {
		s.keepMoreWarm([]string{image("bash"), image("elixir"), image("erlang"), image("python")})
	}
	looking.Wait()
	python := s.warm.plan.Preloads[image("python")]
	if s.warm.reserved != c.MemoryMB/4 || len(s.warm.plan.Images) != 3 || python.MemoryMB == 0 || !s.warm.plan.Snapshots || s.warm.plan.MemoryMB >= s.warm.reserved-2*python.MemoryMB {
		t.Errorf("planned are %+v", s.warm.plan)
	}
	if text := seen(); strings.Count(text, "python") != 2 {
		t.Errorf("seen is %s", text)
	}
	if text := log.String(); strings.Count(text, "runtime=python") != 1 || strings.Count(text, "may wait from now on") != 2 {
		t.Errorf("it logged %s", text)
	}
}

// TestPlanWarmForOwnImages: a worker without runtimes sets little aside: of images that jobs bring no sandbox waits.
func TestPlanWarmForOwnImages(t *testing.T) {
	t.Parallel()
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	s := &startup{config: config.Worker{Warm: 2, Concurrency: 2, MemoryMB: 8000, Preload: true}, set: set, sandboxes: present{}, log: slog.New(slog.DiscardHandler)}
	if err := s.planWarm(t.Context()); err != nil || s.warm.reserved != 2*podman.IdleMB {
		t.Errorf("got %d MiB, %v", s.warm.reserved, err)
	}
}
