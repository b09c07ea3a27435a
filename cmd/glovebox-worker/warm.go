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
			_, command := r.Command("", nil)
			w.Preloads[r.Image()] = podman.Preload{Command: command, Env: r.Preload.Environment(r.Env), MemoryMB: r.Preload.MemoryMB, Words: r.Preload.Words}
		}
	}
	want := 4 * warmNeeds(w, c.Concurrency).least()
	for _, dropped := range fitWarm(&w, c.Concurrency, c.MemoryMB/4) {
		s.log.Warn("a quarter of GLOVEBOX_MEMORY_MB has no room for all that could wait", "so", dropped, "want_mb", want)
	}
	s.warm, s.reserved = w, w.MemoryMB+warmNeeds(w, c.Concurrency).running
	return nil
}

// observeSnapshots has the metrics, and the page for doctor, tell of those of this build's runtimes.
func (s *startup) observeSnapshots() {
	images := map[string]string{} // by runtime
	for _, r := range s.set.List() {
		image := r.Image()
		if _, ok := s.warm.Preloads[image]; !ok || !s.warm.Snapshots {
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

// needs is what a plan takes, MiB.
type needs struct {
	running   int64 // what preloaded programs hold beside their own memory, and snapshots
	preloaded int64 // one idle sandbox of each of the core's runtimes that preload
	one       int64 // one idle sandbox more of each image in demand
}

// least is what there has to be room for.
func (n needs) least() int64 { return n.running + n.preloaded }

func warmNeeds(w podman.Warm, concurrency int) (n needs) {
	var core, largest, snapshots, onDemand int64
	for image := range w.Images {
		if !w.OnDemand[image] {
			core++
		}
		preload, ok := w.Preloads[image]
		if !ok {
			continue
		}
		largest, snapshots = max(largest, preload.MemoryMB), snapshots+preload.MemoryMB
		if w.OnDemand[image] {
			onDemand = max(onDemand, podman.IdleMB+preload.MemoryMB)
		} else {
			n.preloaded += podman.IdleMB + preload.MemoryMB
			n.one += preload.MemoryMB
		}
	}
	n.one += max(core, 1)*podman.IdleMB + onDemand
	n.running = int64(concurrency) * largest
	if w.Snapshots && len(w.Preloads) > 0 { // the snapshots, and the sandbox in which one is made or tried out
		n.running += snapshots + largest + podman.IdleMB
	}
	return n
}

// fitWarm takes out of a plan what there is no room for, the least useful first, and says what that is. Of
// what is left, idle sandboxes get the room, MiB.
func fitWarm(w *podman.Warm, concurrency int, room int64) (dropped []string) {
	n := warmNeeds(*w, concurrency)
	onDemand := func(image string, _ podman.Preload) bool { return w.OnDemand[image] }
	for _, step := range []struct {
		says string
		drop func()
	}{
		{"sandboxes preload by themselves, not from snapshots", func() { w.Snapshots, w.OnlySnapshots = false, false }},
		{"only the core's runtimes are preloaded", func() { maps.DeleteFunc(w.Preloads, onDemand) }},
		{"nothing is preloaded", func() { clear(w.Preloads) }},
	} {
		if len(w.Preloads) == 0 || n.least() <= room {
			break
		}
		before := n.least()
		step.drop()
		if n = warmNeeds(*w, concurrency); n.least() < before {
			dropped = append(dropped, step.says)
		}
	}
	w.MemoryMB = min(room-n.running, int64(w.Most)*n.one)
	return dropped
}
