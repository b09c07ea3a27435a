package podman

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/internal/poolsize"
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
	// mostPausing is which share of the time refills may take so that they wait at all for programs to end.
	// Beyond it the pauses would leave too little for refills.
	mostPausing = 0.5
	// maxRefillBackoff bounds the time between two tries to start a sandbox of an image of
	// which none could be started: tidyInterval at first, doubled each time.
	maxRefillBackoff = time.Minute
)

// nextRefill returns the pool that lacks a sandbox, and how long to wait until it may have one. Which of several it is
// the plan says; it is nil when there are enough.
func (l *pool) nextRefill() (_ *imagePool, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sizes, left := l.resize(), l.budget
	for _, images := range l.images {
		left -= int64(len(images.idle)) * images.plan.idleMB()
	}
	var lacks []poolsize.Lack
	for i, images := range sizes.images {
		if len(images.idle) < images.wanted && left >= images.plan.idleMB() && time.Now().After(images.retryAt) { // tidy first removes those that are too many
			lacks = append(lacks, poolsize.Lack{Kind: i, Have: len(images.idle), Refilled: images.refilled})
		}
	}
	if len(lacks) == 0 {
		return nil, 0
	}
	found := sizes.images[lacks[sizes.Next(lacks)].Kind]
	if len(found.idle) == 0 || sizes.Load() > mostPausing {
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

// refill starts one sandbox more: from the image's snapshot if now is a quiet moment, or recent
// programs gained by that, else plainly.
func (l *pool) refill(ctx context.Context, images *imagePool) {
	began := time.Now()
	w, err := l.sandboxes.startIdle(ctx, images.plan, l.refillFrom(images))
	l.mu.Lock()
	defer l.mu.Unlock()
	images.refilled = began
	if err == nil {
		l.refills.Note(time.Since(began))
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
	l.resize()
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
		for len(images.idle) > images.wanted {
			n := images.leastUseful()
			out = append(out, images.idle[n])
			images.idle = slices.Delete(images.idle, n, n+1)
		}
	}
	l.mu.Unlock()
	for _, w := range out {
		w.close()
	}
}
