package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestFitWarm: a worker with little memory gives up what helps least, and keeps preloading as long as
// there is room for that alone.
func TestFitWarm(t *testing.T) {
	t.Parallel()
	const (
		fromSnapshots = "sandboxes preload by themselves, not from snapshots"
		coreOnly      = "only the core's runtimes are preloaded"
		nothing       = "nothing is preloaded"
	)
	// Of two CPUs. Python: 2 × 160 that programs hold, 200 for one idle sandbox; snapshots: 160 for each, and 200
	// for the sandbox in which one is made.
	tests := []struct {
		name      string
		room      int64
		multi     bool
		snapshots bool
		preloads  []string
		dropped   []string
		idleMB    int64
	}{
		{"room for all", 4096, true, true, []string{"multi", "python"}, nil, 2 * (3*podman.IdleMB + 160 + 220)},
		{"just room for Python", 520 + 360, false, true, []string{"python"}, nil, 200},
		{"a megabyte less", 520 + 359, false, false, []string{"python"}, []string{fromSnapshots}, 559},
		{"just room without snapshots", 520, false, false, []string{"python"}, []string{fromSnapshots}, 200},
		{"a megabyte less than that", 519, false, false, nil, []string{fromSnapshots, nothing}, 2 * 3 * podman.IdleMB},
		{"room for both, not for their snapshots", 560, true, false, []string{"multi", "python"}, []string{fromSnapshots}, 200},
		{"not for both", 559, true, false, []string{"python"}, []string{fromSnapshots, coreOnly}, 239},
		{"none", 0, true, false, nil, []string{fromSnapshots, coreOnly, nothing}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := podman.Warm{
				Images:   map[string]job.Limits{"bash": {}, "c": {}, "python": {}},
				OnDemand: map[string]bool{}, Most: 2, Snapshots: true, OnlySnapshots: true,
				Preloads: map[string]podman.Preload{"python": {MemoryMB: 160}},
			}
			if tt.multi {
				w.Images["multi"], w.OnDemand["multi"], w.Preloads["multi"] = job.Limits{}, true, podman.Preload{MemoryMB: 180}
			}
			dropped := fitWarm(&w, 2, tt.room)
			if diff := cmp.Diff(tt.dropped, dropped); diff != "" {
				t.Error(diff)
			}
			if got := slices.Sorted(maps.Keys(w.Preloads)); !slices.Equal(got, tt.preloads) || w.Snapshots != tt.snapshots || w.OnlySnapshots != tt.snapshots {
				t.Errorf("preloaded are %v, from snapshots: %t; want %v, %t", got, w.Snapshots, tt.preloads, tt.snapshots)
			}
			if w.MemoryMB != tt.idleMB {
				t.Errorf("idle sandboxes get %d MiB, want %d", w.MemoryMB, tt.idleMB)
			}
			if n := warmNeeds(w, 2); n.running+w.MemoryMB > max(tt.room, 0) {
				t.Errorf("%d and %d MiB are planned in %d", n.running, w.MemoryMB, tt.room)
			}
		})
	}
}
