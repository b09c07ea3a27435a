package sandbox

import (
	"context"
	"errors"
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
	// MaxMemoryMB is the most that a program may ask for.
	MaxMemoryMB int64
	// Most is how many there may be of one image, while it is in demand; one otherwise.
	Most int
	// MemoryMB is what all of them together may take as they wait.
	MemoryMB int64
}

const (
	// IdleMB is what a sandbox takes as it waits, MiB: 29 were measured.
	IdleMB = 40
	// demandTime is how long an image is in demand after somebody wanted it.
	demandTime = 5 * time.Minute
	// tidyInterval is how often the pool looks at what waits. It is shorter than imageTTL,
	// so that no run asks Podman what the image's name means.
	tidyInterval = imageTTL / 2
	// refillPause is after what time the pool tries again when a sandbox could not be
	// started, doubled each time up to refillPauseMost.
	refillPause     = time.Second
	refillPauseMost = 30 * time.Second
)

// pool keeps sandboxes started.
type pool struct {
	podman *Podman
	most   int
	budget int // of waiting sandboxes
	wake   chan struct{}
	stop   context.CancelFunc
	ended  chan struct{}

	mu    sync.Mutex
	kinds []*kind
}

// kind is the sandboxes of one image.
type kind struct {
	plan    plan
	waiting []*waiting // the oldest first
	used    time.Time  // when somebody wanted one
}

// KeepWarm keeps sandboxes started until ctx ends or Close is called, and then destroys
// those that wait. To be called once, after SelfTest and before the first Run.
func (p *Podman) KeepWarm(ctx context.Context, w Warm) {
	l := &pool{
		podman: p, most: w.Most, budget: int(w.MemoryMB / IdleMB), wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	for image, limits := range w.Images {
		l.kinds = append(l.kinds, &kind{plan: plan{
			image: image, limits: limits, shmMB: max(limits.MemoryMB, w.MaxMemoryMB), jobID: "warm", backstop: p.config.Backstop,
		}})
	}
	ctx, l.stop = context.WithCancel(ctx)
	p.pool = l
	go l.keep(ctx)
}

// WarmOf counts the sandboxes of an image that wait for a program.
func (p *Podman) WarmOf(image string) int {
	if p.pool == nil {
		return 0
	}
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	for _, k := range p.pool.kinds {
		if k.plan.image == image {
			return len(k.waiting)
		}
	}
	return 0
}

// claim takes a sandbox for the program, or returns nil where none fits.
func (p *Podman) claim(ctx context.Context, program Program) *waiting {
	l := p.pool
	if l == nil || program.Fresh {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.kinds, func(k *kind) bool { return k.plan.image == program.Image })
	if i < 0 {
		return nil
	}
	k := l.kinds[i]
	k.used = time.Now()
	defer l.look()
	for n, w := range k.waiting {
		if w.fits(ctx, program.Limits) && !w.s.events.ended() {
			k.waiting = slices.Delete(k.waiting, n, n+1)
			return w
		}
	}
	return nil
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
	pause, failed := refillPause, time.Time{}
	for {
		var k *kind
		if time.Since(failed) > pause {
			k = l.wanted()
		}
		if k == nil {
			select {
			case <-ctx.Done():
				return
			case <-l.wake:
			case <-tidy.C:
				l.tidy(ctx)
			}
			continue
		}
		w, err := l.podman.warm(ctx, k.plan)
		if ctx.Err() != nil {
			if err == nil {
				w.close()
			}
			return
		}
		if err != nil {
			if failed.IsZero() { // each would say the same
				l.podman.config.Log.Warn("no warm sandbox could be started: programs get fresh ones until one can", "image", k.plan.image, "error", err)
			}
			failed, pause = time.Now(), min(2*pause, refillPauseMost)
			continue
		}
		pause, failed = refillPause, time.Time{}
		l.mu.Lock()
		k.waiting = append(k.waiting, w)
		l.mu.Unlock()
	}
}

// wanted is the kind that lacks a sandbox, nil when there are as many as there should be.
// Those of images that are in demand come first.
func (l *pool) wanted() *kind {
	l.mu.Lock()
	defer l.mu.Unlock()
	shares := l.shares()
	for _, k := range l.kinds {
		if len(k.waiting) < shares[k] {
			return k
		}
	}
	return nil
}

// shares is how many sandboxes each kind is to have, within the budget. It sorts the
// kinds: those that were wanted last come first.
func (l *pool) shares() map[*kind]int {
	slices.SortStableFunc(l.kinds, func(a, b *kind) int { return b.used.Compare(a.used) })
	shares, left := map[*kind]int{}, l.budget
	for _, k := range l.kinds {
		want := 1
		if time.Since(k.used) < demandTime {
			want = l.most
		}
		shares[k] = min(want, left)
		left -= shares[k]
	}
	return shares
}

// tidy destroys what is of no use any more: what has ended, what is too many or too old,
// and what is of an image that its name no longer means.
func (l *pool) tidy(ctx context.Context) {
	names := map[*kind]string{}
	l.mu.Lock()
	for _, k := range l.kinds {
		names[k] = k.plan.image
	}
	l.mu.Unlock()
	now := map[*kind]image{}
	for k, name := range names {
		i, err := l.podman.lookUpImage(ctx, name)
		if err != nil && !errors.Is(err, ErrNoImage) && !errors.Is(err, ErrImageRefused) {
			i.id = "?" // Podman doesn't answer: that says nothing about the image
		}
		now[k] = i
	}
	var out []*waiting
	l.mu.Lock()
	shares := l.shares()
	for _, k := range l.kinds {
		k.waiting = slices.DeleteFunc(k.waiting, func(w *waiting) bool {
			old := time.Since(w.made) > w.plan.backstop/2
			replaced := now[k].id != "?" && now[k].id != w.image.id
			useless := w.s.events.ended() || old || replaced
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
		w.process = p.findProcess(ctx, w.name)
	}
	return w, nil
}
