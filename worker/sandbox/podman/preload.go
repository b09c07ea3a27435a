package podman

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// Preload is a program that can be started in a sandbox that waits, before more is known
// of it than how its command begins.
type Preload struct {
	// Command is what it is started with. A program whose command begins so can be it.
	Command []string
	// Env is what it is started with, as Program.Env.
	Env map[string]string
	// MemoryMB is the most that it may hold as it waits. A program that is preloaded may
	// hold that beside its memory_mb: nobody is out of memory for what he didn't import.
	MemoryMB int64
}

const (
	// preloadQuiet is for how long no program must have come before one is preloaded, which
	// costs more CPU time than ten starts. Under load the processors are for starts.
	preloadQuiet = time.Second
	// preloadTimeout is how long a preload may take.
	preloadTimeout = time.Minute
)

// preloadState is how far the preloading in a sandbox that waits has come.
type preloadState int

const (
	preloadNone preloadState = iota
	preloadRunning
	preloadReady
	preloadFailed
)

// idleMB is what a sandbox of the plan may take as it waits.
func (p plan) idleMB() int64 { return IdleMB + p.preloadMB() }

func (p plan) preloadMB() int64 {
	if p.preload == nil {
		return 0
	}
	return p.preload.MemoryMB
}

// preloads reports whether the program can be what is preloaded in sandboxes of the plan.
func (p plan) preloads(program sandbox.Program) bool {
	if p.preload == nil || len(program.Compile) > 0 {
		return false
	}
	n := len(p.preload.Command)
	return len(program.Command) >= n && slices.Equal(program.Command[:n], p.preload.Command)
}

// rank says which sandbox a program had best have: the highest.
func (w *instance) rank(program sandbox.Program) int {
	switch w.preload {
	case preloadReady:
		if w.plan.preloads(program) {
			return 4
		}
		return 1
	case preloadRunning:
		return 2
	case preloadNone, preloadFailed:
	}
	return 3
}

// PreloadedOf counts the sandboxes of an image that wait with a preloaded program.
func (p *Sandboxes) PreloadedOf(image string) int {
	return p.pool.count(image, func(w *instance) bool { return w.preload == preloadReady })
}

// nextPreload takes a sandbox out of the pool in which a program is to be preloaded, if now
// is the time; wait is after what time it may be, 0 if nothing is to be done.
func (l *pool) nextPreload() (_ *instance, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var kind *imagePool
	at := 0
	for _, k := range l.images {
		n := slices.IndexFunc(k.idle, func(w *instance) bool { return w.preload == preloadNone && w.plan.preload != nil })
		if n >= 0 && (kind == nil || k.lastWanted.After(kind.lastWanted)) {
			kind, at = k, n
		}
	}
	switch calm := time.Since(l.lastClaim); {
	case kind == nil || l.preloading != nil:
		return nil, 0
	case calm < preloadQuiet:
		return nil, preloadQuiet - calm
	case l.podman.programs.Load() >= int64(runtime.GOMAXPROCS(0)):
		return nil, preloadQuiet
	}
	w := kind.idle[at]
	kind.idle = slices.Delete(kind.idle, at, at+1)
	w.preload, l.preloading = preloadRunning, w
	return w, 0
}

// startPreload tells the sandbox's agent to preload, and puts it back: it can be claimed
// meanwhile.
func (l *pool) startPreload(ctx context.Context, w *instance) {
	env := sandbox.Program{Env: w.plan.preload.Env}.Environment()
	if err := w.session.prepare(agentwire.Prepare{Protocol: agentwire.Version, Command: w.plan.preload.Command, Env: env}, l.podman.config.StartTimeout); err != nil {
		w.session.stream.Close() // so that it is seen to have ended
	}
	l.mu.Lock()
	k := l.find(w.plan.image) // it is there until keep, which calls this, closes the pool
	k.idle = append(k.idle, w)
	l.mu.Unlock()
	l.podman.background.Go(func() {
		failure := w.awaitPreload(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		defer l.wake()
		l.preloading = nil
		if !slices.Contains(k.idle, w) {
			return // a program has it, or it is of no use
		}
		w.preload = preloadReady
		if failure != "" {
			w.preload = preloadFailed
		}
		if failure != "" && !w.session.events.ended() && ctx.Err() == nil && !k.preloadFailed {
			k.preloadFailed = true // each would say the same
			l.podman.config.Log.Warn("no program could be preloaded in a warm sandbox: programs are started there as they come", "image", w.plan.image, "error", failure)
		}
	})
}

// awaitPreload waits until the program is preloaded, or can't be: then it says why.
func (w *instance) awaitPreload(ctx context.Context) (failure string) {
	overdue := time.NewTimer(preloadTimeout)
	defer overdue.Stop()
	select {
	case said := <-w.session.prepared:
		if held := said.MemoryBytes >> 20; said.Failure == "" && held > w.plan.preload.MemoryMB {
			return fmt.Sprintf("it holds %d MiB, more than preload.memory_mb (%d)", held, w.plan.preload.MemoryMB)
		}
		return said.Failure
	case <-w.session.gone:
		return "the sandbox has ended"
	case <-ctx.Done():
		return "the pool is closing"
	case <-overdue.C:
		return fmt.Sprintf("it was not ready in %v", preloadTimeout)
	}
}

// prepare asks the agent to preload.
func (s *session) prepare(order agentwire.Prepare, patience time.Duration) error {
	s.mu.Lock()
	s.check.Prepare = true
	s.mu.Unlock()
	overdue := time.AfterFunc(patience, func() { s.stream.Close() })
	defer overdue.Stop()
	return s.out.WriteJSON(agentwire.TypePrepare, order)
}
