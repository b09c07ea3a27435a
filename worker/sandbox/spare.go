package sandbox

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

// spare is a container whose sandbox has ended.
type spare struct {
	container
	since time.Time
}

const (
	// endPatience is for how long an agent that was told that its worker goes may stay.
	endPatience = 2 * time.Second
	// exitTime is for how long conmon may take to note the end of a sandbox whose stream has ended.
	exitTime = 100 * time.Millisecond
	// spareTime is for how long a container may be without a sandbox.
	spareTime = time.Minute
)

// retire ends a sandbox whose agent has said its last word, and keeps its container for
// another where it can have one.
func (p *Podman) retire(w *waiting) {
	if !w.plan.lasting || !w.ended() || w.s.leaf != nil && w.s.leaf.metLimit() || !p.keepSpare(w) {
		w.remove()
	}
	w.release()
}

// ended tells the agent that its worker goes, and reports whether the sandbox ended then, as
// far as its stream tells. Podman has the last word, when it is to make the next one: launch.
func (w *waiting) ended() bool {
	<-w.s.gone // the reader has read the last frame
	s := w.s.stream
	if s.in.Close() != nil || s.out.SetReadDeadline(time.Now().Add(endPatience)) != nil {
		return false
	}
	n, err := io.Copy(io.Discard, io.LimitReader(s, maxNoise))
	return err == nil && n < maxNoise
}

// keepSpare keeps the container, whose name stays in use, unless there are enough or it is
// being removed: whoever watches the sandbox may have thought so after its last word.
func (p *Podman) keepSpare(w *waiting) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.removed.Load() || p.closed || p.pool == nil || len(p.spares) >= 2*p.pool.most {
		return false
	}
	p.spares = append(p.spares, spare{w.container, time.Now()})
	return true
}

// takeSpare returns a container of the plan and the image that has no sandbox.
func (p *Podman) takeSpare(plan plan, i image) (container, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.IndexFunc(p.spares, func(s spare) bool {
		return s.plan == plan && s.image.id == i.id && time.Since(s.since) >= exitTime
	})
	if n < 0 {
		return container{}, false
	}
	c := p.spares[n].container
	p.spares = slices.Delete(p.spares, n, n+1)
	return c, true
}

// dropSpares removes the containers without a sandbox of which useless is true.
func (p *Podman) dropSpares(useless func(spare) bool) {
	var out []spare
	p.mu.Lock()
	p.spares = slices.DeleteFunc(p.spares, func(s spare) bool {
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
