package podman

import (
	"slices"
	"time"
)

// container is what Podman has of a sandbox: a record, and what was fixed when it was made.
//
// A sandbox is for one program. Its container, where the pool made it, can be used for another
// sandbox when the first has ended: Podman takes longer to make a record and to remove it than
// to start what is in it. Nothing that a program can write to is a part of it: its root is
// read-only, and all that runsc has of the sandbox is made anew.
type container struct {
	name, id string
	image    image
	plan     plan
}

// idleContainer is a container whose sandbox has ended.
type idleContainer struct {
	container
	since time.Time
}

const (
	// exitTime is how long conmon may take to note the end of a sandbox whose stream has ended.
	exitTime = 100 * time.Millisecond
	// idleContainerTTL is how long a container may be without a sandbox.
	idleContainerTTL = time.Minute
)

// recycle ends a sandbox whose agent has said its last word, and keeps its container for another
// if that can be. Whether the sandbox has ended is told by its stream; Podman has the last word
// when it is to make the next one (launch).
func (p *Sandboxes) recycle(w *instance) {
	if !w.plan.reusable || !w.session.AwaitEnd() || w.cgroup != nil && w.cgroup.reachedLimit() || !p.keepIdle(w) {
		w.remove()
	}
	w.release()
}

// keepIdle keeps the container, whose name stays active, unless there are enough idle ones or it
// is being removed: the watch over its memory may have seen a reason after the agent's last word.
func (p *Sandboxes) keepIdle(w *instance) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.removed.Load() || p.closed || p.pool == nil || len(p.idle) >= 2*p.pool.maxPerImage {
		return false
	}
	p.idle = append(p.idle, idleContainer{w.container, time.Now()})
	return true
}

// takeIdle returns an idle container of the plan and the image.
func (p *Sandboxes) takeIdle(plan plan, i image) (container, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.IndexFunc(p.idle, func(c idleContainer) bool {
		return c.plan == plan && c.image.id == i.id && time.Since(c.since) >= exitTime
	})
	if n < 0 {
		return container{}, false
	}
	c := p.idle[n].container
	p.idle = slices.Delete(p.idle, n, n+1)
	return c, true
}

// dropIdle removes the idle containers for which useless returns true.
func (p *Sandboxes) dropIdle(useless func(idleContainer) bool) {
	var out []idleContainer
	p.mu.Lock()
	p.idle = slices.DeleteFunc(p.idle, func(c idleContainer) bool {
		drop := useless(c)
		if drop {
			out = append(out, c)
		}
		return drop
	})
	p.mu.Unlock()
	for _, c := range out {
		p.remove(c.name, removal{})
	}
}
