package podman

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/worker/sandbox"
)

const (
	// IdleMB is what an idle sandbox takes, MiB: 29 were measured. A preloaded program
	// comes on top.
	IdleMB = 40
	// demandTime is how long an image is in demand after a program wanted it.
	demandTime = 5 * time.Minute
	// tidyInterval is how often the pool checks what is idle. It is shorter than imageTTL,
	// so that no run asks Podman what the image's name means.
	tidyInterval = imageTTL / 2
	// resolveTimeout is how long Podman may take to say what an image's name means.
	resolveTimeout = 10 * time.Second
	// maxRefillDelay is how long, at most, a program that has claimed a sandbox has the
	// processors to itself while another sandbox is idle, and resultTime how long its result
	// has them after its end.
	maxRefillDelay = 300 * time.Millisecond
	resultTime     = 30 * time.Millisecond
	// maxRefillBackoff bounds the time between two tries to start a sandbox of an image of
	// which none could be started: tidyInterval at first, doubled each time.
	maxRefillBackoff = time.Minute
)

// nextRefill returns the pool that lacks a sandbox, and how long to wait until it may have one.
// Of several it is the one that was wanted last; it is nil when there are enough.
func (l *pool) nextRefill() (_ *imagePool, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	targets, left := l.targets(), l.budget
	var found *imagePool
	for _, images := range l.images {
		left -= int64(len(images.idle)) * images.plan.idleMB()
		if len(images.idle) < targets[images] && time.Now().After(images.retryAt) && (found == nil || images.lastWanted.After(found.lastWanted)) {
			found = images
		}
	}
	switch {
	case found == nil || left < found.plan.idleMB():
		return nil, 0 // tidy first removes those that are too many
	case len(found.idle) == 0:
		return found, 0
	}
	return found, l.refillDelay()
}

// refillDelay is how much longer the programs that run, or have just run, are to have the
// processors. The pool's lock is held.
func (l *pool) refillDelay() time.Duration {
	if l.sandboxes.programs.Load() > 0 {
		return max(0, maxRefillDelay-time.Since(l.lastClaim))
	}
	if ended := l.sandboxes.lastEnd.Load(); ended != nil {
		return max(0, resultTime-time.Since(*ended))
	}
	return 0
}

// targets returns how many idle sandboxes each image is to have, within the budget: one each, first
// of those that always have one and preload, for which there was room at the start, then of those in
// demand; and one more in turn for those in demand. The pool's lock is held.
func (l *pool) targets() map[*imagePool]int {
	targets, left := map[*imagePool]int{}, l.budget
	add := func(images *imagePool, wanted bool) {
		if wanted && left >= images.plan.idleMB() {
			targets[images]++
			left -= images.plan.idleMB()
		}
	}
	first := func(images *imagePool) bool { return images.plan.preload != nil && !images.onDemand }
	for _, wanted := range []func(*imagePool) bool{
		first,
		func(images *imagePool) bool { return !first(images) && images.inDemand() },
		func(images *imagePool) bool { return !first(images) && !images.inDemand() && !images.onDemand },
	} {
		for _, images := range l.images {
			add(images, wanted(images))
		}
	}
	for range l.maxPerImage - 1 {
		for _, images := range l.images {
			add(images, images.inDemand())
		}
	}
	return targets
}

// refill starts one sandbox more: from the image's snapshot if now is a quiet moment, or recent
// programs gained by that, else plainly.
func (l *pool) refill(ctx context.Context, images *imagePool) {
	w, err := l.sandboxes.startIdle(ctx, images.plan, l.refillFrom(images))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		images.idle, images.backoff = append(images.idle, w), 0
		if w.snapshot != nil && !w.snapshot.due(true) {
			images.snapshotBackoff = 0 // it holds what its trial promised
		}
		return
	}
	if images.backoff == 0 && ctx.Err() == nil { // each would say the same
		l.sandboxes.config.Log.Warn("no warm sandbox could be started: programs get fresh ones until one can", "image", images.plan.image, "error", err)
	}
	images.backoff = min(max(2*images.backoff, tidyInterval), maxRefillBackoff)
	images.retryAt = time.Now().Add(images.backoff)
}

// startIdle starts a sandbox and waits until its agent is ready and everything is prepared
// for a program.
func (p *Sandboxes) startIdle(ctx context.Context, plan plan, from *snapshot) (*instance, error) {
	w, err := p.start(ctx, time.Now(), plan, from)
	if err != nil {
		return nil, err
	}
	if err := w.session.AwaitReady(ctx, p.config.StartTimeout); err != nil {
		w.close()
		return nil, err
	}
	if w.cgroup == nil {
		w.process = p.service.findProcess(ctx, w.id)
	}
	return w, nil
}

// inUse returns the images that have idle sandboxes or are in demand.
func (l *pool) inUse() []*imagePool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.images), func(images *imagePool) bool {
		return len(images.idle) == 0 && !images.inDemand()
	})
}

func (i *imagePool) inDemand() bool { return time.Since(i.lastWanted) < demandTime }

// resolveImages asks Podman what the names of the images in use mean now, for tidy. It doesn't wait for the
// answers: a Podman that owes one for an image may well start sandboxes of the others.
func (l *pool) resolveImages(ctx context.Context) {
	if l.resolving {
		return
	}
	l.resolving = true
	asked := l.inUse()
	l.sandboxes.background.Go(func() {
		// Without an answer, an image's sandboxes stay.
		ids := map[string]string{}
		for _, images := range asked {
			bounded, cancel := context.WithTimeout(ctx, resolveTimeout)
			i, err := l.sandboxes.service.inspectImage(bounded, images.plan.image)
			cancel()
			if err == nil || errors.Is(err, sandbox.ErrNoImage) || errors.Is(err, sandbox.ErrImageRefused) {
				ids[images.plan.image] = i.id
			}
		}
		l.resolved <- ids
	})
}

// tidy destroys idle sandboxes that have ended, are too many or too old, or are of an image that
// its name no longer means, by ids; and idle containers and snapshots likewise.
func (l *pool) tidy(ids map[string]string) {
	l.resolving = false
	replaced := func(c container) bool {
		id, known := ids[c.plan.image]
		return known && id != c.image.id
	}
	l.sandboxes.dropIdle(func(c idleContainer) bool {
		return time.Since(c.since) > idleContainerTTL || replaced(c.container)
	})
	var out []*instance
	l.mu.Lock()
	targets := l.targets()
	for _, images := range l.images {
		if id, known := ids[images.plan.image]; known && images.snapshot != nil && images.snapshot.imageID != id {
			l.retire(images)
		}
		images.idle = slices.DeleteFunc(images.idle, func(w *instance) bool {
			useless := w.session.Ended() || w.snapshot != nil && time.Since(w.snapshot.made) > maxSnapshotAge || time.Since(w.made) > w.plan.backstop/5 || replaced(w.container)
			if useless {
				out = append(out, w)
			}
			return useless
		})
		for len(images.idle) > targets[images] {
			out = append(out, images.idle[0])
			images.idle = images.idle[1:]
		}
	}
	l.mu.Unlock()
	for _, w := range out {
		w.close()
	}
}
