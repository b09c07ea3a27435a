package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

// Run runs the program in a sandbox of its own and gives what it makes to the sink.
//
// What the program does wrong is in the outcome; an error means that Glovebox has failed,
// or that the sink has, and the program may be run again. When ctx ends, the sandbox is
// destroyed at once, whatever a call of the sink is waiting for, and the error is
// context.Cause(ctx). No container is left in either case, at the latest when Close
// returns.
func (p *Podman) Run(ctx context.Context, program Program, sink Sink) (Outcome, error) {
	began := time.Now()
	outcome, err := p.run(ctx, began, program, sink)
	if err != nil && ctx.Err() != nil {
		return Outcome{}, context.Cause(ctx)
	}
	return outcome, err
}

func (p *Podman) run(ctx context.Context, began time.Time, program Program, sink Sink) (Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Podman answers in time, or the program is better tried elsewhere.
	startCtx, started := context.WithTimeout(ctx, p.config.StartTimeout)
	defer started()
	slow := func(err error) error {
		if startCtx.Err() != nil && ctx.Err() == nil {
			return errors.Join(errSlowStart, err)
		}
		return err
	}
	image, err := p.image(startCtx, program.Image)
	if err != nil {
		return Outcome{}, slow(err)
	}
	if problem := program.refused(); problem != "" {
		return p.refuse(began, problem, image, sink)
	}
	name, id, err := p.create(startCtx, program, image.id, p.backstop(ctx))
	if err != nil {
		return Outcome{}, slow(err)
	}
	// Once, and at once when ctx ends: a sink that blocks must not keep a sandbox alive.
	var unsettled atomic.Bool
	remove := sync.OnceFunc(func() { p.remove(name, removal{unsettled: unsettled.Load()}) }) //nolint:contextcheck // a container goes whatever became of its run
	defer remove()
	defer context.AfterFunc(ctx, remove)()

	s := &session{program: program, sink: sink, events: newQueue(), began: began}
	s.check = agentwire.FromAgent{Limits: program.Limits, Compile: len(program.Compile) > 0}
	s.outcome.OCIRuntime, s.outcome.LimitsEnforced = p.ociRuntime, p.enforced()
	s.outcome.ImageDigest = image.digest
	s.outcome.Timing.Created = time.Since(began)

	if s.stream, err = p.attach(startCtx, name); err != nil {
		unsettled.Store(true) // it makes the sandbox already
		return Outcome{}, slow(err)
	}
	s.out = agentwire.NewWriter(s.stream)
	s.outcome.Timing.Attached = time.Since(began)
	var reader sync.WaitGroup
	reader.Go(s.read)
	defer reader.Wait()
	defer s.stream.Close() // wakes the reader, and anything that is being sent
	defer context.AfterFunc(ctx, func() { s.stream.Close() })()

	if err := containers.Start(p.with(startCtx), name, nil); err != nil {
		unsettled.Store(true)
		return Outcome{}, slow(fmt.Errorf("start container: %w", err))
	}
	s.outcome.Timing.Running = time.Since(began)
	var overMemory atomic.Int64
	watch := func(ctx context.Context, over func(held int64)) {
		p.watchMemory(ctx, name, program.Limits.MemoryMB<<20+memorySlack, over)
	}
	if p.leaves != "" {
		if s.leaf, err = openLeaf(p.leaves, id); err != nil { // it ended at once, or was made elsewhere
			return Outcome{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		defer s.leaf.close()
		watch = s.leaf.watch
	}
	watchCtx, stopWatch := context.WithCancel(ctx)
	defer stopWatch()
	// Not waited for here: the bindings take 0.6 s to notice that a request is cancelled.
	p.background.Go(func() {
		watch(watchCtx, func(held int64) {
			overMemory.Store(held)
			remove()
		})
	})
	if err := s.serve(ctx, p.config.StartTimeout); err != nil {
		if said := s.stream.complaint(); said != "" {
			p.config.Log.Warn("agent complained", "job_id", program.JobID, "epoch", program.Epoch, "stderr", agentwire.Printable(said, maxComplaint))
		}
		held := overMemory.Load()
		if held == 0 && errors.Is(err, errNoEnd) && p.oomKilled(ctx, name, s.leaf) {
			held = boundsOf(program.Limits).memory
		}
		if held > 0 && errors.Is(err, errNoEnd) {
			// The agent went with its sandbox: what it would have told is not known.
			s.outOfMemory()
			s.outcome.Usage.MemoryPeakBytes = held
			if s.outcome.Startup > 0 {
				s.outcome.Usage.WallMS = (time.Since(began) - s.outcome.Startup).Milliseconds()
			}
			return s.outcome, nil
		}
		return Outcome{}, fmt.Errorf("run program: %w", err)
	}
	return s.outcome, nil
}

// errSlowStart is why a start is given up.
var errSlowStart = fmt.Errorf("%w: podman did not start the sandbox in time", ErrUnavailable)

// oomPatience is how long Podman may take to notice that a sandbox has ended.
const oomPatience = 5 * time.Second

// oomKilled asks whether the host's kernel ended the sandbox for its memory, which takes
// the agent and its last word with it. The cgroup knows until it is removed, and Podman
// from then on.
func (p *Podman) oomKilled(ctx context.Context, name string, l *leaf) bool {
	if l == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, oomPatience)
	defer cancel()
	for {
		if l.oomKilled() {
			return true
		}
		c, err := containers.Inspect(p.with(ctx), name, nil)
		if err != nil || c.State == nil {
			return false
		}
		if c.State.OOMKilled || !c.State.Running || !sleep(ctx, memoryPoll) {
			return c.State.OOMKilled
		}
	}
}

// enforced is who sees to it that limits hold.
func (p *Podman) enforced() string {
	if p.leaves != "" {
		return "hard"
	}
	return "soft"
}

// refused says what no sandbox could run.
func (p Program) refused() string {
	if p.wordBytes() > maxWords {
		return "glovebox: argument list too long"
	}
	return ""
}

// refuse is the outcome that such a program would have had.
func (p *Podman) refuse(began time.Time, problem string, image image, sink Sink) (Outcome, error) {
	if err := sink.Stderr([]byte(problem + "\n")); err != nil {
		return Outcome{}, err
	}
	return Outcome{
		Status: job.Failed, ExitCode: 126, LimitsEnforced: p.enforced(), OCIRuntime: p.ociRuntime,
		ImageDigest: image.digest, Startup: time.Since(began),
	}, nil
}
