package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// warmth is which sandboxes are kept started. It grows as runtimes are built.
type warmth struct {
	// reserved is the memory, MiB, that is set aside for them, for what preloaded jobs hold, and for snapshots: jobs have the rest.
	reserved int64

	mu      sync.Mutex
	plan    podman.Warm
	givenUp map[string]string // by runtime, for what it does without
}

// planWarm decides which sandboxes are kept started: some of every runtime that has its image. A quarter of the memory is set aside for
// them, or what those of all runtimes take, also of those that may be built later.
func (s *startup) planWarm(ctx context.Context) error {
	c := s.config
	if c.Warm == 0 {
		return nil
	}
	var there []string
	for _, image := range s.set.Images() {
		has, err := s.hasImage(ctx, image)
		if err != nil {
			return err
		}
		if has { // publish says which aren't
			there = append(there, image)
		}
	}
	may := s.set.Images()
	if len(there) == 0 { // the worker is for GLOVEBOX_IMAGES, and no sandbox waits of these
		may = nil
	}
	all, w := warmNeeds(s.wholeWarm(may), c.Concurrency), s.wholeWarm(there)
	s.warm.reserved = min(c.MemoryMB/4, all.running+int64(c.Warm)*all.one)
	want := 4 * warmNeeds(w, c.Concurrency).least()
	s.warm.givenUp = map[string]string{}
	for _, g := range fitWarm(&w, c.Concurrency, s.warm.reserved) {
		s.warm.givenUp[s.nameOf(g.image)] = g.says()
		s.log.Warn("a quarter of GLOVEBOX_MEMORY_MB has no room for all that could wait", "runtime", s.nameOf(g.image), "so", g.says(), "want_mb", want)
	}
	s.warm.plan = w
	return nil
}

// keepMoreWarm has sandboxes wait of runtimes whose images have come since the worker's start, of those that are there now.
func (s *startup) keepMoreWarm(images []string) {
	s.warm.mu.Lock()
	defer s.warm.mu.Unlock()
	before := s.warm.plan
	came := slices.DeleteFunc(images, func(image string) bool { _, known := before.Images[image]; return known })
	slices.Sort(came)
	if came = slices.Compact(came); len(came) == 0 { // runtimes may have an image together
		return
	}
	w := s.wholeWarm(slices.AppendSeq(came, maps.Keys(before.Images)))
	for _, g := range fitMoreWarm(&w, before, s.config.Concurrency, s.warm.reserved) {
		s.warm.givenUp[s.nameOf(g.image)] = g.says() + " before a restart, which plans all anew"
		s.log.Warn("what is set aside of GLOVEBOX_MEMORY_MB has no room for all of a runtime that was built since the worker's start: a restart plans all anew", "runtime", s.nameOf(g.image), "so", g.says())
	}
	s.warm.plan = w
	s.podman.KeepMoreWarm(w)
	s.observe(slices.DeleteFunc(snapshotsOf(w), func(image string) bool { return !slices.Contains(came, image) }))
	for _, image := range came {
		s.log.Info("sandboxes of a runtime that was built since the worker's start may wait from now on", "runtime", s.nameOf(image))
	}
}

// nameOf is the first runtime whose image that is.
func (s *startup) nameOf(image string) string {
	for _, r := range s.set.List() {
		if r.Image() == image {
			return r.Name
		}
	}
	return ""
}

// wholeWarm is all that could be kept started of these images, however much memory that takes.
func (s *startup) wholeWarm(images []string) podman.Warm {
	c := s.config
	w := podman.Warm{Images: map[string]job.Limits{}, OnDemand: map[string]bool{}, Preloads: map[string]podman.Preload{}, MaxMemoryMB: c.MemoryMB, Most: c.Warm, Snapshots: c.Snapshots != "never", OnlySnapshots: c.Snapshots == "always"}
	for _, r := range s.set.List() {
		if !slices.Contains(images, r.Image()) {
			continue
		}
		w.Images[r.Image()], w.OnDemand[r.Image()] = job.Limits{}.Filled(r.Limits), !r.Core
		if r.Preload != nil && c.Preload {
			w.Preloads[r.Image()] = podman.Preload{
				Command: r.PreloadCommand(), Compile: len(r.Compile) > 0, Env: r.Preload.Environment(r.Env), MemoryMB: r.Preload.MemoryMB, SavesMS: r.Preload.SavesMS, Words: r.Preload.Words,
				SnapshotEnv: r.Preload.SnapshotEnvironment(r.Env), SnapshotWords: r.Preload.SnapshotWords,
				Forks: r.Preload.Forks,
			}
		}
	}
	return w
}

// observeSnapshots has the page for doctor, and the metrics, tell of snapshots.
func (s *startup) observeSnapshots() {
	s.observe(snapshotsOf(s.warm.plan))
	s.metrics.snapshots.Tell(func() metrics.Snapshots {
		s.warm.mu.Lock()
		defer s.warm.mu.Unlock()
		said := metrics.Snapshots{Off: s.withoutSnapshots(), Runtimes: []metrics.Snapshot{}}
		for _, name := range slices.Sorted(maps.Keys(s.warm.givenUp)) {
			said.Runtimes = append(said.Runtimes, metrics.Snapshot{Runtime: name, Off: s.warm.givenUp[name] + ", as a quarter of GLOVEBOX_MEMORY_MB has no room for more"})
		}
		images := map[string]string{} // by runtime
		for _, image := range snapshotsOf(s.warm.plan) {
			images[s.nameOf(image)] = image
		}
		for _, name := range slices.Sorted(maps.Keys(images)) {
			snapshot, _ := s.podman.SnapshotOf(images[name])
			said.Runtimes = append(said.Runtimes, metrics.Snapshot{Runtime: name, Bytes: snapshot.Bytes, Made: snapshot.Made, Failure: snapshot.Failure})
		}
		return said
	})
}

// observe has the metrics tell of the snapshots of these images.
func (s *startup) observe(images []string) {
	for _, image := range images {
		s.metrics.worker.Snapshot(s.nameOf(image), func() (int64, time.Time) {
			snapshot, _ := s.podman.SnapshotOf(image)
			return snapshot.Bytes, snapshot.Made
		})
	}
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
	case !s.warm.plan.Snapshots && len(s.warm.givenUp) > 0:
		return "a quarter of GLOVEBOX_MEMORY_MB has no room for them"
	}
	return ""
}
