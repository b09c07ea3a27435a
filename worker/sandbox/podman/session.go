package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// errNoEnd is the stream that stops before its last frame.
var errNoEnd = errors.New("the stream ended before the agent's last frame")

// session is the worker's end of one sandbox's stream.
type session struct {
	program sandbox.Program
	stream  *stream
	out     *agentwire.Writer
	sink    sandbox.Sink
	events  *queue
	began   time.Time
	cgroup  *hostCgroup // nil where the host delegates no cgroups

	mu    sync.Mutex // guards check: the reader accepts, the server grants
	check agentwire.FromAgent

	isReady bool // the agent waits for a program
	// taken: the program, or its compile step, was seen to begin, or an input was read,
	// which can be done once. Until then the program can have another sandbox.
	taken bool

	prepared chan agentwire.Prepared // what the agent says of a preloaded program
	gone     chan struct{}           // closed when nothing will be read any more
	// preloadMB is what a preloaded program may hold beside the program's limits, and
	// preloaded whether the program may be that.
	preloadMB int64
	preloaded bool

	outcome    sandbox.Outcome
	output     strings.Builder // of the compile step
	stderrEnds byte
	debt       int64 // credit used up and not granted again
	mute       bool  // nothing more can be written
	// waited is how long the agent has kept the collection waiting.
	waited time.Duration
}

// errNotGVisor refuses a sandbox that is none.
var errNotGVisor = fmt.Errorf("%w: the sandbox's kernel is not gVisor", sandbox.ErrUnavailable)

func newSession(began time.Time) *session {
	return &session{events: newQueue(), began: began, prepared: make(chan agentwire.Prepared, 1), gone: make(chan struct{})}
}

// read moves frames from the stream to the queue until the stream or the session ends.
func (s *session) read() {
	defer close(s.gone)
	frames := agentwire.FromAgentReader(s.stream)
	for {
		f, err := frames.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil // as a pipe's end is told; the sentence below says it better
			}
			s.events.end(errors.Join(errNoEnd, err))
			return
		}
		e := event{Frame: f, at: time.Now()}
		s.mu.Lock()
		err = s.check.Accept(f)
		switch f.Type {
		case agentwire.TypeReady:
			e.say = s.check.Ready
		case agentwire.TypePrepared:
			e.say = s.check.Prepared
		case agentwire.TypeStarted:
			e.say = s.check.Started
		case agentwire.TypeCompiled:
			e.say = s.check.Compiled
		case agentwire.TypeRefused:
			e.say = s.check.Refused
		case agentwire.TypeExit:
			e.say = s.check.Exit
		case agentwire.TypeArtifactBegin:
			e.say = s.check.Artifact
		case agentwire.TypeSkipped:
			e.say = s.check.Skipped
		case agentwire.TypeFault:
			e.say = s.check.Fault
		case agentwire.TypeEnd:
			e.say = s.check.End
		}
		over := s.check.Over()
		s.mu.Unlock()
		if err != nil {
			s.events.end(err)
			return
		}
		if said, ok := e.say.(agentwire.Prepared); ok {
			s.prepared <- said // it comes once
			continue
		}
		s.events.push(e)
		if over {
			s.events.end(errNoEnd) // never seen: End and Fault are the last
			return
		}
	}
}

// give makes the session that of a program.
func (s *session) give(program sandbox.Program, sink sandbox.Sink) {
	s.program, s.sink = program, sink
	s.mu.Lock()
	defer s.mu.Unlock()
	s.check.Limits, s.check.Compile = program.Limits, len(program.Compile) > 0
}

// preload lets the program be the one that was preloaded, if it may and was.
func (s *session) preload(may bool) {
	s.preloaded = may && s.preloadMB > 0
	s.mu.Lock()
	defer s.mu.Unlock()
	s.check.Preload = s.preloaded
}

// bounds are what the host's cgroup lets the sandbox use for the program.
func (s *session) bounds() bounds {
	b := boundsOf(s.program.Limits)
	b.memory += s.preloadMB << 20
	return b
}

// claimed makes a session that was ready one of a run that began then.
func (s *session) claimed(began time.Time) {
	s.began, s.outcome.Timing, s.outcome.Warm = began, sandbox.Timing{}, true
}

// serve takes the session from Ready to End.
func (s *session) serve(ctx context.Context, startTimeout time.Duration) error {
	if err := s.awaitReady(ctx, startTimeout); err != nil {
		return err
	}
	if s.cgroup != nil {
		if err := s.cgroup.apply(s.bounds()); err != nil {
			return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
		}
	}
	if err := s.sendWithin(ctx, startTimeout); err != nil {
		var input inputError
		if errors.As(err, &input) {
			return err
		}
		// An agent that stops reading says why, unless it went with its sandbox.
		e, popErr := s.events.pop(ctx, time.Second)
		if popErr == nil && e.Type == agentwire.TypeFault {
			return s.unexpected(e)
		}
		return fmt.Errorf("send the program: %w", errors.Join(err, popErr))
	}
	limit := time.Duration(s.program.Limits.WallMS)*time.Millisecond + grace
	if len(s.program.Compile) > 0 {
		failed, err := s.compile(ctx, limit)
		if err != nil || failed {
			return err
		}
	}
	if refused, err := s.started(ctx, limit); err != nil || refused {
		return err
	}
	if overdue, err := s.run(ctx, limit); err != nil || overdue {
		return err
	}
	return s.collect(ctx)
}

// awaitReady waits for the agent's first word, unless it has come.
func (s *session) awaitReady(ctx context.Context, patience time.Duration) error {
	if s.isReady {
		return nil
	}
	e, err := s.events.pop(ctx, patience)
	if err != nil {
		return fmt.Errorf("wait for the agent: %w", err)
	}
	err = s.ready(e)
	s.isReady = err == nil
	return err
}

func (s *session) ready(e event) error {
	ready, ok := e.say.(agentwire.Ready)
	if !ok {
		return s.unexpected(e)
	}
	s.outcome.Timing.Ready = e.at.Sub(s.began)
	s.outcome.Kernel = ready.Kernel
	if f := strings.Fields(ready.Kernel); len(f) < 3 || !strings.HasSuffix(f[2], "-gvisor") {
		return errNotGVisor
	}
	return nil
}

// unexpected is what a frame means that the order allows and the step doesn't: the
// agent's fault, in both senses.
func (s *session) unexpected(e event) error {
	if fault, ok := e.say.(agentwire.Fault); ok {
		return fmt.Errorf("agent: %s", fault.Message)
	}
	return fmt.Errorf("%w: unexpected %s", agentwire.ErrProtocol, e.Type)
}
