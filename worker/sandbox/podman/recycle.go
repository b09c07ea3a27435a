package podman

import (
	"io"
	"slices"
	"time"
)

// container is what Podman has of a sandbox: a record, and what was fixed when it was made.
//
// A sandbox is for one program. Its container, where the pool made it, can have another
// sandbox when that one has ended: Podman takes longer to make a record and to remove it than
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
	// endPatience is for how long an agent that was told that its worker goes may stay.
	endPatience = 2 * time.Second
	// exitTime is for how long conmon may take to note the end of a sandbox whose stream has ended.
	exitTime = 100 * time.Millisecond
	// idleContainerTTL is for how long a container may be without a sandbox.
	idleContainerTTL = time.Minute
)

// recycle ends a sandbox whose agent has said its last word, and keeps its container for
// another where it can have one.
func (p *Sandboxes) recycle(w *instance) {
	if !w.plan.reusable || !w.awaitEnd() || w.session.cgroup != nil && w.session.cgroup.reachedLimit() || !p.keepIdle(w) {
		w.remove()
	}
	w.release()
}

// awaitEnd tells the agent that its worker goes, and reports whether the sandbox ended then, as
// far as its stream tells. Podman has the last word, when it is to make the next one: launch.
func (w *instance) awaitEnd() bool {
	<-w.session.gone // the reader has read the last frame
	s := w.session.stream
	if s.in.Close() != nil || s.out.SetReadDeadline(time.Now().Add(endPatience)) != nil {
		return false
	}
	n, err := io.Copy(io.Discard, io.LimitReader(s, maxNoise))
	return err == nil && n < maxNoise
}

// keepIdle keeps the container, whose name stays in use, unless there are enough or it is
// being removed: whoever watches the sandbox may have thought so after its last word.
func (p *Sandboxes) keepIdle(w *instance) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.removed.Load() || p.closed || p.pool == nil || len(p.idle) >= 2*p.pool.maxPerImage {
		return false
	}
	p.idle = append(p.idle, idleContainer{w.container, time.Now()})
	return true
}

// takeIdle returns a container of the plan and the image that has no sandbox.
func (p *Sandboxes) takeIdle(plan plan, i image) (container, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.IndexFunc(p.idle, func(s idleContainer) bool {
		return s.plan == plan && s.image.id == i.id && time.Since(s.since) >= exitTime
	})
	if n < 0 {
		return container{}, false
	}
	c := p.idle[n].container
	p.idle = slices.Delete(p.idle, n, n+1)
	return c, true
}

// dropIdle removes the containers without a sandbox of which useless is true.
func (p *Sandboxes) dropIdle(useless func(idleContainer) bool) {
	var out []idleContainer
	p.mu.Lock()
	p.idle = slices.DeleteFunc(p.idle, func(s idleContainer) bool {
		drop := useless(s)
		if drop {
			out = append(out, s)
		}
		return drop
	})
	p.mu.Unlock()
	for _, s := range out {
		p.remove(s.name, removal{})
	}
}
