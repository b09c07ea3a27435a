package podman

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/internal/poolsize"
)

// Warm says which sandboxes to keep started, each for one program and destroyed after it.
type Warm struct {
	// Images are the images' names, and the limits that programs have by default there, filled.
	// A program of another disk_mb gets a fresh sandbox.
	Images map[string]job.Limits
	// OnDemand are those of them that get idle sandboxes only while they are in demand.
	OnDemand map[string]bool
	// Preloads are what can be started in idle sandboxes, by image.
	Preloads map[string]Preload
	// MaxMemoryMB is the most that a program may ask for.
	MaxMemoryMB int64
	// Most is how many idle sandboxes there are of one image while it is in demand, or more if programs
	// come so often, as far as there is memory; otherwise there is one.
	Most int
	// MemoryMB is what all idle sandboxes together may take.
	MemoryMB int64
	// Snapshots lets sandboxes of images with a preload go on from a snapshot, in which it is done: those of
	// which there was no quiet second to preload by themselves. Where none can be made all do that.
	Snapshots bool
	// OnlySnapshots lets none preload by itself once there is a snapshot: that costs ten times the CPU time, and
	// its program starts sooner.
	OnlySnapshots bool
}

// pool keeps sandboxes started, for programs to claim.
type pool struct {
	sandboxes   *Sandboxes
	maxPerImage int
	woken       chan struct{}
	stop        context.CancelFunc
	done        chan struct{}
	// resolved has the ids that the images' names mean, once Podman has answered; resolving
	// is whether it is being asked. Both are run's own.
	resolved  chan map[string]string
	resolving bool

	mu        sync.Mutex
	closed    bool
	snapshots bool
	// onlySnapshots is whether no sandbox preloads by itself where there is a snapshot.
	onlySnapshots bool
	budget        int64        // MiB for all idle sandboxes
	images        []*imagePool // in the order of their names
	// preloading is the one sandbox in which a program is being preloaded; nil: none.
	preloading *instance
	// snapshotting is the one image whose snapshot is being made; nil: none.
	snapshotting *imagePool
	lastClaim    time.Time // when a program last wanted a sandbox
	refills      poolsize.Refills
	asked        []sandbox.Ask // by the operator
}

// imagePool has the idle sandboxes of one image.
type imagePool struct {
	plan       plan
	onDemand   bool
	idle       []*instance // the oldest first
	lastWanted time.Time
	arrivals   poolsize.Arrivals
	wanted     int       // how many are to wait, as it was last looked at
	refilled   time.Time // when the start of one began last
	// paying is the share of the recent programs that gained by a preloaded process.
	paying float64
	// needing is the share of them that need what only the snapshot has.
	needing float64
	// After a failed start no other is tried before retryAt; after the next one, for backoff.
	retryAt time.Time
	backoff time.Duration
	// No sandbox that waits is replaced before upgradeAt.
	upgradeAt time.Time
	// snapshot is what the image's sandboxes go on from; nil: there is none yet. After a failure
	// no other is tried before snapshotRetry; after the next one, for snapshotBackoff.
	snapshot        *snapshot
	snapshotFailure string
	snapshotRetry   time.Time
	snapshotBackoff time.Duration
	// preloadFailed: a program could not be preloaded, and that was logged.
	preloadFailed bool
}

// KeepWarm keeps sandboxes started until ctx ends or Close is called, and then destroys the idle
// ones. Call it once, after SelfTest and before the first Run.
func (p *Sandboxes) KeepWarm(ctx context.Context, w Warm) {
	l := &pool{
		sandboxes: p, maxPerImage: w.Most, woken: make(chan struct{}, 1), done: make(chan struct{}), resolved: make(chan map[string]string, 1),
	}
	l.add(w)
	ctx, l.stop = context.WithCancel(ctx)
	p.pool = l
	go l.run(ctx)
}

// KeepMoreWarm keeps sandboxes of images started that have come since KeepWarm, within w.MemoryMB for all. What w says of others, and its Most,
// changes nothing.
func (p *Sandboxes) KeepMoreWarm(w Warm) {
	l := p.pool
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.add(w)
		l.wake()
	}
}

// add takes the images in that it hasn't, and goes by what w says of all. The pool's lock is held, or nobody else has the pool yet.
func (l *pool) add(w Warm) {
	l.budget, l.snapshots, l.onlySnapshots = w.MemoryMB, w.Snapshots, w.OnlySnapshots
	for image, limits := range w.Images {
		if l.find(image) != nil {
			continue
		}
		made := plan{image: image, limits: limits, shmMB: max(limits.MemoryMB, w.MaxMemoryMB), jobID: "warm", backstop: l.sandboxes.config.Backstop, reusable: true}
		if preload, ok := w.Preloads[image]; ok {
			made.preload = &preload
		}
		l.images = append(l.images, &imagePool{plan: made, onDemand: w.OnDemand[image]})
	}
	slices.SortFunc(l.images, func(a, b *imagePool) int { return cmp.Compare(a.plan.image, b.plan.image) })
}

// WarmOf counts the idle sandboxes of an image.
func (p *Sandboxes) WarmOf(image string) int {
	return p.pool.count(image, func(*instance) bool { return true })
}

// count returns the number of live idle sandboxes of an image that match, 0 without a pool.
func (l *pool) count(image string, match func(*instance) bool) (n int) {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if images := l.find(image); images != nil {
		for _, w := range images.idle {
			if match(w) && !w.session.Ended() { // otherwise tidy is about to remove it
				n++
			}
		}
	}
	return n
}

// find returns the image's own pool, nil if there is none. The pool's lock is held.
func (l *pool) find(image string) *imagePool {
	for _, images := range l.images {
		if images.plan.image == image {
			return images
		}
	}
	return nil
}

// findFor returns the image's pool if the program can have its sandboxes, else nil. The pool's
// lock is held.
func (l *pool) findFor(program sandbox.Program) *imagePool {
	images := l.find(program.Image)
	if images == nil || program.Fresh || !images.plan.fits(program.Limits) {
		return nil
	}
	return images
}

// planFor returns the plan of the sandboxes that the program can have.
func (l *pool) planFor(program sandbox.Program) (plan, bool) {
	if l == nil {
		return plan{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	images := l.findFor(program)
	if images == nil {
		return plan{}, false
	}
	return images.plan, true
}

// claim takes an idle sandbox for the program, the best one, or returns nil where none fits, or it is better off in one
// that is made for it from the snapshot.
func (p *Sandboxes) claim(ctx context.Context, program sandbox.Program) *instance {
	l := p.pool
	if l == nil {
		return nil
	}
	current, known := p.service.images.cached(program.Image)
	l.mu.Lock()
	defer l.mu.Unlock()
	images := l.findFor(program)
	if images == nil {
		return nil
	}
	now := time.Now()
	images.lastWanted, l.lastClaim = now, now
	images.arrivals.Note(now)
	images.noteDemand(images.plan.pays(program), images.plan.needsSnapshot(program))
	defer l.wake()
	best := -1
	for n, w := range images.idle {
		fits := w.plan.outlives(ctx, w.made) && !w.session.Ended() && (!known || w.image.id == current.id)
		if fits && (best < 0 || w.rank(program) > images.idle[best].rank(program)) {
			best = n
		}
	}
	if best < 0 || images.snapshot != nil && images.idle[best].snapshot == nil && images.plan.needsSnapshot(program) {
		return nil
	}
	w := images.idle[best]
	images.idle = slices.Delete(images.idle, best, best+1)
	return w
}

// wake makes run check whether something is to be done.
func (l *pool) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// run refills the pool, one sandbox at a time, as programs need the processors.
func (l *pool) run(ctx context.Context) {
	defer close(l.done)
	defer l.close()
	tidy := time.NewTicker(tidyInterval)
	defer tidy.Stop()
	for ctx.Err() == nil {
		select {
		case <-tidy.C:
			l.resolveImages(ctx)
		case ids := <-l.resolved:
			l.tidy(ids) //nolint:contextcheck // removals outlive what asks for them
		default:
		}
		if images := l.nextSnapshot(); images != nil {
			l.startSnapshot(ctx, images)
		}
		images, wait := l.nextRefill()
		if images != nil && wait == 0 {
			l.refill(ctx, images)
			continue
		}
		var w *instance
		if images == nil {
			images, wait = l.nextUpgrade()
			if images != nil {
				l.upgrade(ctx, images)
				continue
			}
		}
		if images == nil && wait == 0 {
			w, wait = l.nextPreload()
		}
		if w != nil {
			l.startPreload(ctx, w, false)
			continue
		}
		var later <-chan time.Time
		if wait > 0 {
			later = time.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-l.woken:
		case <-later:
		case <-tidy.C:
			l.resolveImages(ctx)
		case ids := <-l.resolved:
			l.tidy(ids) //nolint:contextcheck // removals outlive what asks for them
		}
	}
}

// close destroys the idle sandboxes, and leaves no image to have any.
func (l *pool) close() {
	l.mu.Lock()
	var out []*instance
	for _, images := range l.images {
		out = append(out, images.idle...)
		if images.snapshot != nil {
			images.snapshot.close()
		}
	}
	l.images, l.closed = nil, true
	l.mu.Unlock()
	for _, w := range out {
		w.close()
	}
}
