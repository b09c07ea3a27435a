package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// planWarm decides which sandboxes are kept started: some of every runtime that has its image. A
// quarter of the memory is for them, for what preloaded jobs hold, and for snapshots.
func (s *startup) planWarm(ctx context.Context) error {
	c := s.config
	w := podman.Warm{Images: map[string]job.Limits{}, OnDemand: map[string]bool{}, Preloads: map[string]podman.Preload{}, MaxMemoryMB: c.MemoryMB, Most: c.Warm, Snapshots: c.Snapshots != "never", OnlySnapshots: c.Snapshots == "always"}
	if c.Warm == 0 {
		return nil
	}
	names := map[string]string{} // of runtimes that preload, by image
	for _, r := range s.set.List() {
		there, err := s.hasImage(ctx, r.Image())
		if err != nil {
			return err
		}
		if !there { // publish says so
			continue
		}
		w.Images[r.Image()], w.OnDemand[r.Image()] = job.Limits{}.Filled(r.Limits), !r.Core
		if r.Preload != nil && c.Preload {
			names[r.Image()] = r.Name
			w.Preloads[r.Image()] = podman.Preload{
				Command: r.PreloadCommand(), Compile: len(r.Compile) > 0, Env: r.Preload.Environment(r.Env), MemoryMB: r.Preload.MemoryMB, SavesMS: r.Preload.SavesMS, Words: r.Preload.Words,
				SnapshotEnv: r.Preload.SnapshotEnvironment(r.Env), SnapshotWords: r.Preload.SnapshotWords,
				Forks: r.Preload.Forks,
			}
		}
	}
	want := 4 * warmNeeds(w, c.Concurrency).least()
	s.givenUp = map[string]string{}
	for _, g := range fitWarm(&w, c.Concurrency, c.MemoryMB/4) {
		s.givenUp[names[g.image]] = g.says()
		s.log.Warn("a quarter of GLOVEBOX_MEMORY_MB has no room for all that could wait", "runtime", names[g.image], "so", g.says(), "want_mb", want)
	}
	s.warm, s.reserved = w, w.MemoryMB+warmNeeds(w, c.Concurrency).running
	return nil
}

// observeSnapshots has the metrics, and the page for doctor, tell of those of this build's runtimes.
func (s *startup) observeSnapshots() {
	images := map[string]string{} // by runtime
	for _, r := range s.set.List() {
		image := r.Image()
		if preload, ok := s.warm.Preloads[image]; !ok || !s.warm.Snapshots || preload.NoSnapshot {
			continue
		}
		images[r.Name] = image
		s.metrics.worker.Snapshot(r.Name, func() (int64, time.Time) {
			snapshot, _ := s.podman.SnapshotOf(image)
			return snapshot.Bytes, snapshot.Made
		})
	}
	off := s.withoutSnapshots()
	s.metrics.snapshots.Tell(func() metrics.Snapshots {
		said := metrics.Snapshots{Off: off, Runtimes: []metrics.Snapshot{}}
		for _, name := range slices.Sorted(maps.Keys(s.givenUp)) {
			said.Runtimes = append(said.Runtimes, metrics.Snapshot{Runtime: name, Off: s.givenUp[name] + ", as a quarter of GLOVEBOX_MEMORY_MB has no room for more"})
		}
		for _, name := range slices.Sorted(maps.Keys(images)) {
			snapshot, _ := s.podman.SnapshotOf(images[name])
			said.Runtimes = append(said.Runtimes, metrics.Snapshot{Runtime: name, Bytes: snapshot.Bytes, Made: snapshot.Made, Failure: snapshot.Failure})
		}
		return said
	})
}

// withoutSnapshots says why no snapshots are made, "" if they are.
func (s *startup) withoutSnapshots() string {
	c := s.config
	switch {
	case s.podman == nil:
		return "programs are isolated by " + string(c.Isolation)
	case c.Warm == 0:
		return "no sandboxes wait (GLOVEBOX_WARM is 0)"
	case !c.Preload:
		return "nothing is preloaded (GLOVEBOX_PRELOAD is false)"
	case c.Snapshots == "never":
		return "GLOVEBOX_SNAPSHOTS is never"
	case !s.warm.Snapshots:
		return "a quarter of GLOVEBOX_MEMORY_MB has no room for them"
	}
	return ""
}
