package podman

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/internal/poolsize"
)

// sizes is how many sandboxes of each image are to wait.
type sizes struct {
	poolsize.Plan
	images []*imagePool // in the order of the plan's
}

// resize finds out how many sandboxes of each image are to wait, and notes it. The pool's lock is held.
func (l *pool) resize() sizes {
	images, kinds := l.kinds(time.Now())
	s := sizes{l.rule().Plan(kinds), images}
	for i, images := range s.images {
		images.wanted = s.Sizes[i]
	}
	return s
}

func (l *pool) rule() poolsize.Rule {
	return poolsize.Rule{MB: l.budget, Refill: l.refills.Mean(), Variation: l.refills.Variation()}
}

// kinds is what is known of each image. First are those that always have a sandbox and preload, for which there was
// room at the start, then those in demand, and last those of which none could be started: they get what is left, as
// what is kept for them may never be used. The pool's lock is held.
func (l *pool) kinds(now time.Time) (images []*imagePool, kinds []poolsize.Kind) {
	place := func(images *imagePool) int {
		switch {
		case images.fails():
			return 3
		case images.plan.preload != nil && !images.onDemand:
			return 0
		case images.inDemand():
			return 1
		}
		return 2
	}
	images = slices.SortedStableFunc(slices.Values(l.images), func(a, b *imagePool) int { return cmp.Compare(place(a), place(b)) })
	for _, images := range images {
		k := poolsize.Kind{MB: images.plan.idleMB(), One: !images.onDemand || images.inDemand(), Had: images.wanted}
		if !images.fails() {
			k.Rate, k.Dispersion = images.arrivals.Rate(now), images.arrivals.Dispersion(now)
			if images.inDemand() {
				k.Promised = l.maxPerImage
			}
			for _, a := range l.asked {
				if a.Image == images.plan.image && now.Before(a.Until) {
					k.Asked, k.Since = a.Count, a.Since
				}
			}
		}
		kinds = append(kinds, k)
	}
	return images, kinds
}

// fails reports whether none waits and the last one could not be started. Those that wait stay where another can't be
// started: Podman may be away for a moment.
func (i *imagePool) fails() bool { return i.backoff > 0 && len(i.idle) == 0 }

// Ask has sandboxes wait that an operator asked for, as many as there is memory for, in the place of what was
// asked before.
func (p *Sandboxes) Ask(asked []sandbox.Ask) {
	l := p.pool
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = asked
	l.wake()
}

// WantedOf is how many sandboxes of an image are to wait.
func (p *Sandboxes) WantedOf(image string) int {
	l := p.pool
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if images := l.find(image); images != nil {
		return images.wanted
	}
	return 0
}

// RoomOf is how many sandboxes of an image could wait if an operator asked for no end of them, beside those of
// other images that are asked for, and one of each that always has one.
func (p *Sandboxes) RoomOf(image string) int {
	l := p.pool
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	images, kinds := l.kinds(now)
	i := slices.IndexFunc(images, func(images *imagePool) bool { return images.plan.image == image })
	if i < 0 {
		return 0
	}
	kinds[i].Asked, kinds[i].Since = math.MaxInt, now.Add(time.Hour) // who asked before keeps what there is
	return l.rule().Plan(kinds).Sizes[i]
}

// leastUseful is the idle sandbox that goes first where there are too many: the oldest without a preloaded process.
func (i *imagePool) leastUseful() int {
	return max(slices.IndexFunc(i.idle, func(w *instance) bool { return w.preload != preloadReady }), 0)
}
