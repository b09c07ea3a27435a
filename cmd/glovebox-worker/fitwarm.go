package main

import (
	"cmp"
	"maps"
	"slices"

	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// needs is what a plan takes, MiB.
type needs struct {
	running   int64 // what preloaded programs hold beside their own memory, and snapshots
	preloaded int64 // one idle sandbox of each of the core's runtimes that preload
	one       int64 // one idle sandbox more of each image in demand
}

// least is what there has to be room for.
func (n needs) least() int64 { return n.running + n.preloaded }

func warmNeeds(w podman.Warm, concurrency int) (n needs) {
	var core, largest, making, onDemand int64
	for image := range w.Images {
		if !w.OnDemand[image] {
			core++
		}
		preload, ok := w.Preloads[image]
		if !ok {
			continue
		}
		largest = max(largest, preload.MemoryMB)
		if w.Snapshots && !preload.NoSnapshot {
			n.running += preload.MemoryMB
			making = max(making, podman.IdleMB+preload.MemoryMB) // the sandbox in which one is made or tried out
		}
		if w.OnDemand[image] {
			onDemand = max(onDemand, podman.IdleMB+preload.MemoryMB)
		} else {
			n.preloaded += podman.IdleMB + preload.MemoryMB
			n.one += preload.MemoryMB
		}
	}
	n.one += max(core, 1)*podman.IdleMB + onDemand
	n.running += int64(concurrency)*largest + making
	return n
}

// givenUp is what a plan does without: an image's snapshot, or its preload with it.
type givenUp struct {
	image   string
	preload bool
}

func (g givenUp) says() string {
	if g.preload {
		return "nothing is preloaded"
	}
	return "its sandboxes preload by themselves, not from a snapshot"
}

// from is the plan without it; what is given up twice makes no difference.
func (g givenUp) from(w podman.Warm) podman.Warm {
	w.Preloads = maps.Clone(w.Preloads)
	if preload, ok := w.Preloads[g.image]; ok {
		preload.NoSnapshot = true
		w.Preloads[g.image] = preload
	}
	if g.preload {
		delete(w.Preloads, g.image)
	}
	return w
}

// fitWarm takes out of a plan what there is no room for, and says what that is, the latest of each image. Of what is
// left, idle sandboxes get the room, MiB.
func fitWarm(w *podman.Warm, concurrency int, room int64) []givenUp {
	whole := *w
	var all []givenUp
	for len(w.Preloads) > 0 && warmNeeds(*w, concurrency).least() > room {
		g := leastUseful(*w)
		all = append(slices.DeleteFunc(all, func(before givenUp) bool { return before.image == g.image }), g)
		*w = g.from(*w)
	}
	all = giveBack(whole, concurrency, room, all)
	*w = without(whole, all)
	w.Snapshots = w.Snapshots && len(snapshotsOf(*w)) > 0
	w.OnlySnapshots = w.OnlySnapshots && w.Snapshots
	w.MemoryMB = room - warmNeeds(*w, concurrency).running
	return all
}

// mostOnDemand is what one idle sandbox takes of the image on demand that preloads most.
func mostOnDemand(w podman.Warm) (most int64) {
	for image, preload := range w.Preloads {
		if w.OnDemand[image] {
			most = max(most, podman.IdleMB+preload.MemoryMB)
		}
	}
	return most
}

// fitMoreWarm takes out of a plan what there is no room for of images that were not in the plan before, and says what that is. The room that others
// had for one sandbox that waits stays theirs.
func fitMoreWarm(w *podman.Warm, before podman.Warm, concurrency int, room int64) (all []givenUp) {
	whole := w.Preloads
	w.Preloads = maps.Clone(before.Preloads)
	had := min(mostOnDemand(before), before.MemoryMB-warmNeeds(before, concurrency).preloaded)
	fits := func(image string) bool {
		onDemand := had
		if preload, ok := w.Preloads[image]; ok && w.OnDemand[image] { // else none would ever wait
			onDemand = max(onDemand, podman.IdleMB+preload.MemoryMB)
		}
		return warmNeeds(*w, concurrency).least()+onDemand <= room
	}
	for _, image := range slices.Sorted(maps.Keys(whole)) {
		if _, known := before.Images[image]; known {
			continue
		}
		w.Preloads[image] = whole[image]
		g := givenUp{image: image}
		if fits(image) {
			continue
		}
		if *w = g.from(*w); !fits(image) {
			g.preload = true
			*w = g.from(*w)
		}
		all = append(all, g)
	}
	w.Snapshots = w.Snapshots && len(snapshotsOf(*w)) > 0
	w.OnlySnapshots = w.OnlySnapshots && w.Snapshots
	w.MemoryMB = room - warmNeeds(*w, concurrency).running
	return all
}

// giveBack returns what is left to give up: later ones freed more than was needed, so earlier ones may fit again. The core's preloads
// come first, without their snapshots, then snapshots; of each the latest.
func giveBack(whole podman.Warm, concurrency int, room int64, all []givenUp) []givenUp {
	fits := func(all []givenUp) bool { return warmNeeds(without(whole, all), concurrency).least() <= room }
	for i := len(all) - 1; i >= 0; i-- {
		fewer := slices.Clone(all)
		fewer[i].preload = false
		if !whole.OnDemand[all[i].image] && fits(fewer) { // what is on demand waits in the room that is left, which least doesn't count
			all = fewer
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(all), i, i+1)
		if !all[i].preload && fits(fewer) {
			all = fewer
		}
	}
	return all
}

func without(w podman.Warm, all []givenUp) podman.Warm {
	for _, g := range all {
		w = g.from(w)
	}
	return w
}

// snapshotsOf are the images of which there are to be snapshots.
func snapshotsOf(w podman.Warm) (images []string) {
	for image, preload := range w.Preloads {
		if w.Snapshots && !preload.NoSnapshot {
			images = append(images, image)
		}
	}
	return images
}

// leastUseful is the next to give up: a snapshot of an image on demand, or else one of the core's, or the preload of
// an image on demand that takes most of all, or else one of the core's. Of several it is what saves least. There has to be a preload.
func leastUseful(w podman.Warm) givenUp {
	var order [4][]givenUp
	for _, image := range snapshotsOf(w) {
		n := 1
		if w.OnDemand[image] {
			n = 0
		}
		order[n] = append(order[n], givenUp{image: image})
	}
	var core, most int64
	for image, preload := range w.Preloads {
		most = max(most, preload.MemoryMB)
		if !w.OnDemand[image] {
			core = max(core, preload.MemoryMB)
		}
	}
	for image, preload := range w.Preloads {
		switch {
		case !w.OnDemand[image]:
			order[3] = append(order[3], givenUp{image, true})
		case preload.MemoryMB == most && most > core: // any other would give no room
			order[2] = append(order[2], givenUp{image, true})
		}
	}
	several := order[slices.IndexFunc(order[:], func(s []givenUp) bool { return len(s) > 0 })]
	return slices.MinFunc(several, func(a, b givenUp) int {
		return cmp.Or(cmp.Compare(w.Preloads[a.image].SavesMS, w.Preloads[b.image].SavesMS), cmp.Compare(a.image, b.image))
	})
}
