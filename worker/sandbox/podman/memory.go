package podman

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

const (
	// memoryDelay is how long a program runs before it is watched: most are over by then.
	memoryDelay = 100 * time.Millisecond
	memoryPoll  = 20 * time.Millisecond
	// idlePoll is how often a session is looked at that waits for code: all of it stands still then, unless its agent was taken over.
	idlePoll = time.Second
	// memorySlack is what a sandbox may hold beside its job: gVisor's own heap, the
	// agent, and the image's files that gVisor caches.
	memorySlack = 160 << 20
)

// memoryWatch watches from outside how much memory a sandbox holds.
type memoryWatch struct {
	killedBytes atomic.Int64 // what the sandbox held when it was killed for it; else 0
	stop        context.CancelFunc

	idle  atomic.Bool
	woken chan struct{} // it is no longer idle
}

// watchMemory watches the sandbox until ctx ends or the watch is stopped, and kills it when it
// holds more than a program with these limits, and extraMB MiB beside them, may have. It trusts
// nothing inside. The agent, which does, is exact and comes first. So this is for an agent that
// was taken over, and for memory that gVisor holds on a job's behalf without charging it.
func (p *Sandboxes) watchMemory(ctx context.Context, w *instance, l job.Limits, extraMB int64) *memoryWatch {
	m := &memoryWatch{woken: make(chan struct{}, 1)}
	ctx, m.stop = context.WithCancel(ctx)
	over := func(held int64) {
		m.killedBytes.Store(held)
		w.remove()
	}
	ready := w.process
	w.process = nil // it is closed below
	// Not waited for: the bindings take 0.6 s to notice that a request is cancelled.
	p.background.Go(func() {
		limit := (l.SandboxMB()+extraMB)<<20 + memorySlack
		switch {
		case w.cgroup != nil:
			w.cgroup.watch(ctx, m.wait, over)
		case ready != nil:
			defer ready.close()
			ready.watch(ctx, m.wait, limit, over)
		case sleep(ctx, memoryDelay):
			if process := p.service.findProcess(ctx, w.id); process != nil {
				defer process.close()
				process.watch(ctx, m.wait, limit, over)
			}
		}
	})
	return m
}

// wait waits until the sandbox is to be looked at, d later, or seldom while it is idle; false when ctx has ended.
func (m *memoryWatch) wait(ctx context.Context, d time.Duration) bool {
	if m.idle.Load() { // all that are idle are looked at together: it is waking up that costs
		d = time.Until(time.Now().Truncate(idlePoll).Add(idlePoll))
	}
	select {
	case <-time.After(d):
		return true
	case <-m.woken:
		return true
	case <-ctx.Done():
		return false
	}
}

// watchedTurns are a session's turns, between which its sandbox is idle.
type watchedTurns struct {
	sandbox.Turns
	memory *memoryWatch
}

// Next is [sandbox.Turns.Next].
func (t watchedTurns) Next(ctx context.Context) (sandbox.Turn, bool, error) {
	t.memory.idle.Store(true)
	defer func() {
		t.memory.idle.Store(false)
		select {
		case t.memory.woken <- struct{}{}:
		default:
		}
	}()
	return t.Turns.Next(ctx)
}

// watch kills the process when it holds more than limit, after calling over with how much that
// is; it returns then, or when ctx ends. wait waits between two looks.
func (p *process) watch(ctx context.Context, wait func(context.Context, time.Duration) bool, limit int64, over func(held int64)) {
	for wait(ctx, memoryPoll) {
		held, err := p.memory()
		if err != nil {
			return // the process has ended
		}
		if held > limit {
			over(held)
			// Podman's way to the same end takes seconds on a busy host.
			p.kill()
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
