package sandbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/job"
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
	// askTimeout is how long Podman may take to say what an image's name means.
	askTimeout = 10 * time.Second
	// refillDelay is for how long at most a program that has claimed a sandbox has the
	// processors to itself, as long as another sandbox waits, and settleTime for how
	// long after its end its result has.
	refillDelay = 300 * time.Millisecond
	settleTime  = 30 * time.Millisecond
	// refillPauseMost is for how long the pool does without an image whose sandboxes can't
	// be started: tidyInterval at first, doubled each time.
	refillPauseMost = time.Minute
)

// pool keeps sandboxes started.
type pool struct {
	podman *Podman
	most   int
	budget int64 // MiB of what waits
	wake   chan struct{}
	stop   context.CancelFunc
	ended  chan struct{}
	// named has what the images' names mean, once Podman has answered; asking is whether it
	// is being asked. keep's own.
	named  chan map[string]string
	asking bool

	mu    sync.Mutex
	kinds []*kind // in the order of their images
	// preparing is the one sandbox whose program is being preloaded, if there is one.
	preparing *waiting
	claimed   time.Time // when a program last wanted a sandbox
}

// kind is the sandboxes of one image.
type kind struct {
	plan    plan
	waiting []*waiting // the oldest first
	used    time.Time  // when somebody wanted one
	// None could be started: it is not tried before retry, and for pause after that.
	retry time.Time
	pause time.Duration
	// unprepared: a program could not be preloaded, and that was said.
	unprepared bool
}

// KeepWarm keeps sandboxes started until ctx ends or Close is called, and then destroys
// those that wait. To be called once, after SelfTest and before the first Run.
func (p *Podman) KeepWarm(ctx context.Context, w Warm) {
	l := &pool{
		podman: p, most: w.Most, budget: w.MemoryMB, wake: make(chan struct{}, 1), ended: make(chan struct{}), named: make(chan map[string]string, 1),
	}
	for _, image := range slices.Sorted(maps.Keys(w.Images)) {
		limits := w.Images[image]
		made := plan{image: image, limits: limits, shmMB: max(limits.MemoryMB, w.MaxMemoryMB), jobID: "warm", backstop: p.config.Backstop, lasting: true}
		if preload, ok := w.Preloads[image]; ok {
			made.preload = &preload
		}
		l.kinds = append(l.kinds, &kind{plan: made})
	}
	ctx, l.stop = context.WithCancel(ctx)
	p.pool = l
	go l.keep(ctx)
}

// WarmOf counts the sandboxes of an image that wait for a program.
func (p *Podman) WarmOf(image string) int {
	return p.pool.count(image, func(*waiting) bool { return true })
}

// count counts the living sandboxes of an image of which which is true; without a pool
// there is none.
func (l *pool) count(image string, which func(*waiting) bool) (n int) {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.kind(image); k != nil {
		for _, w := range k.waiting {
			if which(w) && !w.s.events.ended() { // else the next look removes it
				n++
			}
		}
	}
	return n
}

// kind is that of an image, nil where the pool has none. The pool's lock is held.
func (l *pool) kind(image string) *kind {
	for _, k := range l.kinds {
		if k.plan.image == image {
			return k
		}
	}
	return nil
}

// planFor is the plan of the sandboxes that the program can have.
func (l *pool) planFor(program Program) (plan, bool) {
	if l == nil {
		return plan{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kindFor(program)
	if k == nil {
		return plan{}, false
	}
	return k.plan, true
}

// kindFor is the kind whose sandboxes the program can have, nil for none. The pool's lock is held.
func (l *pool) kindFor(program Program) *kind {
	k := l.kind(program.Image)
	if k == nil || program.Fresh || !k.plan.suits(program.Limits) {
		return nil
	}
	return k
}

// claim takes a sandbox for the program, or returns nil where none fits.
func (p *Podman) claim(ctx context.Context, program Program) *waiting {
	l := p.pool
	if l == nil {
		return nil
	}
	current, known := p.cachedImage(program.Image)
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kindFor(program)
	if k == nil {
		return nil
	}
	k.used, l.claimed = time.Now(), time.Now()
	defer l.look()
	best := -1
	for n, w := range k.waiting {
		fits := w.plan.lasts(ctx, w.made) && !w.s.events.ended() && (!known || w.image.id == current.id)
		if fits && (best < 0 || w.rank(program) > k.waiting[best].rank(program)) {
			best = n
		}
	}
	if best < 0 {
		return nil
	}
	w := k.waiting[best]
	k.waiting = slices.Delete(k.waiting, best, best+1)
	return w
}

// look makes the pool look whether something is to be done.
func (l *pool) look() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// keep refills the pool, one sandbox at a time: those that run need the processors.
func (l *pool) keep(ctx context.Context) {
	defer close(l.ended)
	defer l.close()
	tidy := time.NewTicker(tidyInterval)
	defer tidy.Stop()
	for ctx.Err() == nil {
		select {
		case <-tidy.C:
			l.ask(ctx)
		case ids := <-l.named:
			l.tidy(ids) //nolint:contextcheck // removals outlive what asks for them
		default:
		}
		k, wait := l.wanted()
		if k != nil && wait == 0 {
			l.refill(ctx, k)
			continue
		}
		var w *waiting
		if k == nil {
			w, wait = l.unprepared()
		}
		if w != nil {
			l.prepare(ctx, w)
			continue
		}
		var calm <-chan time.Time
		if wait > 0 {
			calm = time.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-calm:
		case <-tidy.C:
			l.ask(ctx)
		case ids := <-l.named:
			l.tidy(ids) //nolint:contextcheck // removals outlive what asks for them
		}
	}
}

// ask asks Podman what the images' names mean now, for tidy. It doesn't wait for the
// answers: a Podman that owes one for an image may well start sandboxes of the others.
func (l *pool) ask(ctx context.Context) {
	if l.asking {
		return
	}
	l.asking = true
	kinds := l.kinds // only keep, which calls this, changes the list
	l.podman.background.Go(func() {
		// What an image can't be asked about stays.
		ids := map[string]string{}
		for _, k := range kinds {
			bounded, cancel := context.WithTimeout(ctx, askTimeout)
			i, err := l.podman.lookUpImage(bounded, k.plan.image)
			cancel()
			if err == nil || errors.Is(err, ErrNoImage) || errors.Is(err, ErrImageRefused) {
				ids[k.plan.image] = i.id
			}
		}
		l.named <- ids
	})
}

// refill starts one sandbox more.
func (l *pool) refill(ctx context.Context, k *kind) {
	w, err := l.podman.warm(ctx, k.plan)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		k.waiting, k.pause = append(k.waiting, w), 0
		return
	}
	if k.pause == 0 && ctx.Err() == nil { // each would say the same
		l.podman.config.Log.Warn("no warm sandbox could be started: programs get fresh ones until one can", "image", k.plan.image, "error", err)
	}
	k.pause = min(max(2*k.pause, tidyInterval), refillPauseMost)
	k.retry = time.Now().Add(k.pause)
}

// wanted is a kind that lacks a sandbox, the one that was wanted last if there are more,
// and nil when there are as many as there should be; wait is after what time it may have one.
func (l *pool) wanted() (_ *kind, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shares, left := l.shares(), l.budget
	var found *kind
	for _, k := range l.kinds {
		left -= int64(len(k.waiting)) * k.plan.idleMB()
		if len(k.waiting) < shares[k] && time.Now().After(k.retry) && (found == nil || k.used.After(found.used)) {
			found = k
		}
	}
	switch {
	case found == nil || left < found.plan.idleMB():
		return nil, 0 // what is too many goes first
	case len(found.waiting) == 0:
		return found, 0
	}
	return found, l.busy()
}

// busy is for how long those who run, or have just run, are to have the processors. The
// pool's lock is held.
func (l *pool) busy() time.Duration {
	if l.podman.programs.Load() > 0 {
		return max(0, refillDelay-time.Since(l.claimed))
	}
	if ended := l.podman.ended.Load(); ended != nil {
		return max(0, settleTime-time.Since(*ended))
	}
	return 0
}

// shares is how many sandboxes each kind is to have, within the budget: one of each, then
// of those that are in demand one more in turn. The pool's lock is held.
func (l *pool) shares() map[*kind]int {
	shares, left := map[*kind]int{}, l.budget
	for round := 1; round <= l.most; round++ {
		for _, k := range l.kinds {
			if left >= k.plan.idleMB() && (round == 1 || time.Since(k.used) < demandTime) {
				shares[k]++
				left -= k.plan.idleMB()
			}
		}
	}
	return shares
}

// tidy destroys what is of no use any more: what has ended, what is too many or too old,
// and what is of an image that its name no longer means, by ids; and spare containers likewise.
func (l *pool) tidy(ids map[string]string) {
	l.asking = false
	replaced := func(c container) bool {
		id, known := ids[c.plan.image]
		return known && id != c.image.id
	}
	l.podman.dropSpares(func(s spare) bool { return time.Since(s.since) > spareTime || replaced(s.container) })
	var out []*waiting
	l.mu.Lock()
	shares := l.shares()
	for _, k := range l.kinds {
		k.waiting = slices.DeleteFunc(k.waiting, func(w *waiting) bool {
			useless := w.s.events.ended() || time.Since(w.made) > w.plan.backstop/2 || replaced(w.container)
			if useless {
				out = append(out, w)
			}
			return useless
		})
		for len(k.waiting) > shares[k] {
			out = append(out, k.waiting[0])
			k.waiting = k.waiting[1:]
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
	var out []*waiting
	for _, k := range l.kinds {
		out = append(out, k.waiting...)
	}
	l.kinds = nil
	l.mu.Unlock()
	for _, w := range out {
		w.close()
	}
}

// warm starts a sandbox and waits until its agent is ready and everything is prepared
// for a program.
func (p *Podman) warm(ctx context.Context, plan plan) (*waiting, error) {
	w, err := p.start(ctx, time.Now(), plan)
	if err != nil {
		return nil, err
	}
	if err := w.s.awaitReady(ctx, p.config.StartTimeout); err != nil {
		w.close()
		return nil, err
	}
	if w.s.leaf == nil {
		w.process = p.findProcess(ctx, w.id)
	}
	return w, nil
}
