package podman

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// Warm says what sandboxes to keep started, each for one program and destroyed after it.
type Warm struct {
	// Images are their names and the limits that programs have by default there, filled.
	// A program of another disk_mb gets a fresh sandbox.
	Images map[string]job.Limits
	// Preloads are what can be started in the sandboxes of some of them as they wait.
	Preloads map[string]Preload
	// MaxMemoryMB is the most that a program may ask for.
	MaxMemoryMB int64
	// Most is how many there may be of one image, while it is in demand; one otherwise.
	Most int
	// MemoryMB is what all of them together may take as they wait.
	MemoryMB int64
}

const (
	// IdleMB is what a sandbox takes as it waits, MiB: 29 were measured. A preloaded program
	// comes on top.
	IdleMB = 40
	// demandTime is how long an image is in demand after somebody wanted it.
	demandTime = 5 * time.Minute
	// tidyInterval is how often the pool looks at what waits. It is shorter than imageTTL,
	// so that no run asks Podman what the image's name means.
	tidyInterval = imageTTL / 2
	// resolveTimeout is how long Podman may take to say what an image's name means.
	resolveTimeout = 10 * time.Second
	// maxRefillDelay is for how long at most a program that has claimed a sandbox has the
	// processors to itself, as long as another sandbox waits, and settleTime for how
	// long after its end its result has.
	maxRefillDelay = 300 * time.Millisecond
	resultTime     = 30 * time.Millisecond
	// maxRefillBackoff is for how long the pool does without an image whose sandboxes can't
	// be started: tidyInterval at first, doubled each time.
	maxRefillBackoff = time.Minute
)

// pool keeps sandboxes started.
type pool struct {
	podman      *Sandboxes
	maxPerImage int
	budget      int64 // MiB of what waits
	woken       chan struct{}
	stop        context.CancelFunc
	done        chan struct{}
	// resolved has what the images' names mean, once Podman has answered; asking is whether it
	// is being asked. keep's own.
	resolved  chan map[string]string
	resolving bool

	mu     sync.Mutex
	images []*imagePool // in the order of their images
	// preloading is the one sandbox whose program is being preloaded, if there is one.
	preloading *instance
	lastClaim  time.Time // when a program last wanted a sandbox
}

// imagePool is the sandboxes of one image.
type imagePool struct {
	plan       plan
	idle       []*instance // the oldest first
	lastWanted time.Time   // when somebody wanted one
	// None could be started: it is not tried before retry, and for pause after that.
	retryAt time.Time
	backoff time.Duration
	// preloadFailed: a program could not be preloaded, and that was said.
	preloadFailed bool
}

// KeepWarm keeps sandboxes started until ctx ends or Close is called, and then destroys
// those that wait. To be called once, after SelfTest and before the first Run.
func (p *Sandboxes) KeepWarm(ctx context.Context, w Warm) {
	l := &pool{
		podman: p, maxPerImage: w.Most, budget: w.MemoryMB, woken: make(chan struct{}, 1), done: make(chan struct{}), resolved: make(chan map[string]string, 1),
	}
	for _, image := range slices.Sorted(maps.Keys(w.Images)) {
		limits := w.Images[image]
		made := plan{image: image, limits: limits, shmMB: max(limits.MemoryMB, w.MaxMemoryMB), jobID: "warm", backstop: p.config.Backstop, reusable: true}
		if preload, ok := w.Preloads[image]; ok {
			made.preload = &preload
		}
		l.images = append(l.images, &imagePool{plan: made})
	}
	ctx, l.stop = context.WithCancel(ctx)
	p.pool = l
	go l.run(ctx)
}

// WarmOf counts the sandboxes of an image that wait for a program.
func (p *Sandboxes) WarmOf(image string) int {
	return p.pool.count(image, func(*instance) bool { return true })
}

// count counts the living sandboxes of an image of which which is true; without a pool
// there is none.
func (l *pool) count(image string, which func(*instance) bool) (n int) {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.find(image); k != nil {
		for _, w := range k.idle {
			if which(w) && !w.session.events.ended() { // else the next look removes it
				n++
			}
		}
	}
	return n
}

// find is that of an image, nil where the pool has none. The pool's lock is held.
func (l *pool) find(image string) *imagePool {
	for _, k := range l.images {
		if k.plan.image == image {
			return k
		}
	}
	return nil
}

// planFor is the plan of the sandboxes that the program can have.
func (l *pool) planFor(program sandbox.Program) (plan, bool) {
	if l == nil {
		return plan{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.findFor(program)
	if k == nil {
		return plan{}, false
	}
	return k.plan, true
}

// findFor is the kind whose sandboxes the program can have, nil for none. The pool's lock is held.
func (l *pool) findFor(program sandbox.Program) *imagePool {
	k := l.find(program.Image)
	if k == nil || program.Fresh || !k.plan.fits(program.Limits) {
		return nil
	}
	return k
}

// claim takes a sandbox for the program, or returns nil where none fits.
func (p *Sandboxes) claim(ctx context.Context, program sandbox.Program) *instance {
	l := p.pool
	if l == nil {
		return nil
	}
	current, known := p.cachedImage(program.Image)
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.findFor(program)
	if k == nil {
		return nil
	}
	k.lastWanted, l.lastClaim = time.Now(), time.Now()
	defer l.wake()
	best := -1
	for n, w := range k.idle {
		fits := w.plan.outlives(ctx, w.made) && !w.session.events.ended() && (!known || w.image.id == current.id)
		if fits && (best < 0 || w.rank(program) > k.idle[best].rank(program)) {
			best = n
		}
	}
	if best < 0 {
		return nil
	}
	w := k.idle[best]
	k.idle = slices.Delete(k.idle, best, best+1)
	return w
}

// wake makes the pool look whether something is to be done.
func (l *pool) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// run refills the pool, one sandbox at a time: those that run need the processors.
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
		k, wait := l.nextRefill()
		if k != nil && wait == 0 {
			l.refill(ctx, k)
			continue
		}
		var w *instance
		if k == nil {
			w, wait = l.nextPreload()
		}
		if w != nil {
			l.startPreload(ctx, w)
			continue
		}
		var calm <-chan time.Time
		if wait > 0 {
			calm = time.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-l.woken:
		case <-calm:
		case <-tidy.C:
			l.resolveImages(ctx)
		case ids := <-l.resolved:
			l.tidy(ids) //nolint:contextcheck // removals outlive what asks for them
		}
	}
}

// resolveImages asks Podman what the images' names mean now, for tidy. It doesn't wait for the
// answers: a Podman that owes one for an image may well start sandboxes of the others.
func (l *pool) resolveImages(ctx context.Context) {
	if l.resolving {
		return
	}
	l.resolving = true
	kinds := l.images // only keep, which calls this, changes the list
	l.podman.background.Go(func() {
		// What an image can't be asked about stays.
		ids := map[string]string{}
		for _, k := range kinds {
			bounded, cancel := context.WithTimeout(ctx, resolveTimeout)
			i, err := l.podman.inspectImage(bounded, k.plan.image)
			cancel()
			if err == nil || errors.Is(err, sandbox.ErrNoImage) || errors.Is(err, sandbox.ErrImageRefused) {
				ids[k.plan.image] = i.id
			}
		}
		l.resolved <- ids
	})
}

// refill starts one sandbox more.
func (l *pool) refill(ctx context.Context, k *imagePool) {
	w, err := l.podman.warm(ctx, k.plan)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		k.idle, k.backoff = append(k.idle, w), 0
		return
	}
	if k.backoff == 0 && ctx.Err() == nil { // each would say the same
		l.podman.config.Log.Warn("no warm sandbox could be started: programs get fresh ones until one can", "image", k.plan.image, "error", err)
	}
	k.backoff = min(max(2*k.backoff, tidyInterval), maxRefillBackoff)
	k.retryAt = time.Now().Add(k.backoff)
}

// nextRefill is a kind that lacks a sandbox, the one that was wanted last if there are more,
// and nil when there are as many as there should be; wait is after what time it may have one.
func (l *pool) nextRefill() (_ *imagePool, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	targets, left := l.targets(), l.budget
	var found *imagePool
	for _, k := range l.images {
		left -= int64(len(k.idle)) * k.plan.idleMB()
		if len(k.idle) < targets[k] && time.Now().After(k.retryAt) && (found == nil || k.lastWanted.After(found.lastWanted)) {
			found = k
		}
	}
	switch {
	case found == nil || left < found.plan.idleMB():
		return nil, 0 // what is too many goes first
	case len(found.idle) == 0:
		return found, 0
	}
	return found, l.refillDelay()
}

// refillDelay is for how long those who run, or have just run, are to have the processors. The
// pool's lock is held.
func (l *pool) refillDelay() time.Duration {
	if l.podman.programs.Load() > 0 {
		return max(0, maxRefillDelay-time.Since(l.lastClaim))
	}
	if ended := l.podman.lastEnd.Load(); ended != nil {
		return max(0, resultTime-time.Since(*ended))
	}
	return 0
}

// targets is how many sandboxes each kind is to have, within the budget: one of each, then
// of those that are in demand one more in turn. The pool's lock is held.
func (l *pool) targets() map[*imagePool]int {
	targets, left := map[*imagePool]int{}, l.budget
	for round := 1; round <= l.maxPerImage; round++ {
		for _, k := range l.images {
			if left >= k.plan.idleMB() && (round == 1 || time.Since(k.lastWanted) < demandTime) {
				targets[k]++
				left -= k.plan.idleMB()
			}
		}
	}
	return targets
}

// tidy destroys what is of no use any more: what has ended, what is too many or too old,
// and what is of an image that its name no longer means, by ids; and spare containers likewise.
func (l *pool) tidy(ids map[string]string) {
	l.resolving = false
	replaced := func(c container) bool {
		id, known := ids[c.plan.image]
		return known && id != c.image.id
	}
	l.podman.dropIdle(func(s idleContainer) bool { return time.Since(s.since) > idleContainerTTL || replaced(s.container) })
	var out []*instance
	l.mu.Lock()
	targets := l.targets()
	for _, k := range l.images {
		k.idle = slices.DeleteFunc(k.idle, func(w *instance) bool {
			useless := w.session.events.ended() || time.Since(w.made) > w.plan.backstop/2 || replaced(w.container)
			if useless {
				out = append(out, w)
			}
			return useless
		})
		for len(k.idle) > targets[k] {
			out = append(out, k.idle[0])
			k.idle = k.idle[1:]
		}
	}
	l.mu.Unlock()
	for _, w := range out {
		w.close()
	}
}

// close destroys what waits; from now on nothing does.
func (l *pool) close() {
	l.mu.Lock()
	var out []*instance
	for _, k := range l.images {
		out = append(out, k.idle...)
	}
	l.images = nil
	l.mu.Unlock()
	for _, w := range out {
		w.close()
	}
}

// warm starts a sandbox and waits until its agent is ready and everything is prepared
// for a program.
func (p *Sandboxes) warm(ctx context.Context, plan plan) (*instance, error) {
	w, err := p.start(ctx, time.Now(), plan)
	if err != nil {
		return nil, err
	}
	if err := w.session.awaitReady(ctx, p.config.StartTimeout); err != nil {
		w.close()
		return nil, err
	}
	if w.session.cgroup == nil {
		w.process = p.findProcess(ctx, w.id)
	}
	return w, nil
}
