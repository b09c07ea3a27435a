package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// ErrNoEnd is wrapped by what Serve fails with when the stream stops before its last frame.
var ErrNoEnd = errors.New("the stream ended before the agent's last frame")

// errNotGVisor is why a sandbox with another kernel is given no program.
var errNotGVisor = fmt.Errorf("%w: the sandbox's kernel is not gVisor", sandbox.ErrUnavailable)

// Cgroup is the host's cgroup of the sandbox.
type Cgroup interface {
	// Bound makes the kernel enforce the limits, with so much more memory, MiB.
	Bound(l job.Limits, extraMB int64) error
	// OOMKilled reports whether the kernel ended the sandbox for its memory.
	OOMKilled() bool
}

// Session is the worker's end of one sandbox's stream. Its methods are for one goroutine,
// except for Abort, Ended, Gone, Prepare and Prepared.
type Session struct {
	// Outcome is what is known of the program so far. What the host knows of the sandbox,
	// the caller fills in before Serve.
	Outcome sandbox.Outcome
	// Cgroup bounds the sandbox; nil where the host delegates no cgroups.
	Cgroup Cgroup
	// Kernel is what an agent has to report that runs on the host's own kernel because its worker started it so. "" means gVisor's, which is
	// what any other agent has to report.
	Kernel string

	task   Task
	stream *stream
	out    *agentwire.Writer
	events *queue
	began  time.Time
	gone   chan struct{} // closed when nothing will be read any more
	reader sync.WaitGroup

	mu    sync.Mutex // guards check: the reader accepts frames, Serve grants credit
	check agentwire.FromAgent

	prepared chan agentwire.Prepared // what the agent says of a preloaded program
	ready    bool                    // the agent waits for a program
	begun    bool                    // see Begun

	stateLost     bool      // the interpreter ended with the turn
	lostContexts  []string  // those of others
	interrupted   bool      // the turn was
	testBegan     time.Time // when the last test did; zero: none has
	layingOut     bool      // a test has been sent that is not the first, and has not started
	compileOutput strings.Builder
	lastStderr    byte          // the last byte that the program wrote to stderr
	spent         int64         // credit that was used up and not granted again
	unwritable    bool          // no credit can be sent any more
	collectWait   time.Duration // how long the agent has kept the collection waiting
}

// Task is a program, and how it is to be served.
type Task struct {
	Program sandbox.Program
	Sink    sandbox.Sink
	// PreloadMB, MiB, is what a preloaded process in the sandbox may hold beside the
	// program's limits.
	PreloadMB int64
	// Preloaded lets the program be the process that was preloaded.
	Preloaded bool
	// Forks, for a program with Tests, is how its command is started once for all of them. nil: each starts it.
	Forks *agentwire.Forks
	// Become is that process's command, for a program with Turns.
	Become []string
}

// New returns a session that reads the sandbox's pipes until Close. Times in its outcome count
// from began.
func New(began time.Time, pipes Pipes) *Session {
	s := &Session{
		stream: newStream(pipes), events: newQueue(), began: began,
		prepared: make(chan agentwire.Prepared, 1), gone: make(chan struct{}),
	}
	s.out = agentwire.NewWriter(s.stream)
	s.reader.Go(s.read)
	s.reader.Go(s.stream.readStderr)
	return s
}

// Abort closes the pipes, which wakes whatever reads or writes them.
func (s *Session) Abort() { s.stream.Close() }

// Close is Abort, and waits until nothing is read any more.
func (s *Session) Close() {
	s.Abort()
	s.reader.Wait()
}

// Ended reports whether the agent will say nothing more.
func (s *Session) Ended() bool { return s.events.ended() }

// Gone is closed when nothing will be read any more.
func (s *Session) Gone() <-chan struct{} { return s.gone }

// Stderr is what came on the sandbox's stderr, or the beginning of it: the agent's complaints,
// or those of the OCI runtime.
func (s *Session) Stderr() string { return agentwire.Printable(s.stream.stderrText(), maxStderrKept) }

// Begun reports whether the program, or its compile step, was seen to begin, or one of its
// inputs was read, which can be done once. Until then it can have another sandbox.
func (s *Session) Begun() bool { return s.begun }

// Claim makes a session that was ready that of a run that began then.
func (s *Session) Claim(began time.Time) {
	s.began, s.Outcome.Timing, s.Outcome.Warm = began, sandbox.Timing{}, true
}

// read moves frames from the stream to the queue until the stream or the session ends.
func (s *Session) read() {
	defer close(s.gone)
	frames := agentwire.FromAgentReader(s.stream)
	for {
		f, err := frames.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil // that is how a pipe's end is told; ErrNoEnd says it better
			}
			s.events.end(errors.Join(ErrNoEnd, err))
			return
		}
		e := event{Frame: f, at: time.Now()}
		s.mu.Lock()
		e.message, err = s.check.Accept(f)
		over := s.check.Over()
		s.mu.Unlock()
		if err != nil {
			s.events.end(err)
			return
		}
		if prepared, ok := e.message.(agentwire.Prepared); ok {
			s.prepared <- prepared // it comes once
			continue
		}
		s.events.push(e)
		if over {
			s.events.end(ErrNoEnd) // never seen: End and Fault are the last
			return
		}
	}
}

// Serve takes the session from Ready to End. The program's outcome is in Outcome; an error says
// that the sandbox, the agent or the sink has failed. startTimeout bounds the wait for the
// agent's first word, and for each piece of the program that it is to read.
func (s *Session) Serve(ctx context.Context, task Task, startTimeout time.Duration) error {
	s.accept(task)
	if err := s.AwaitReady(ctx, startTimeout); err != nil {
		return err
	}
	p := task.Program
	if s.Cgroup != nil {
		if err := s.Cgroup.Bound(p.Limits, task.PreloadMB); err != nil {
			return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
		}
	}
	if err := s.sendWithin(ctx, startTimeout); err != nil {
		return s.whyUnsent(ctx, err)
	}
	limit := time.Duration(p.Limits.WallMS)*time.Millisecond + grace
	if len(p.Compile) > 0 {
		failed, err := s.compile(ctx, time.Duration(p.Limits.CompileWallMS)*time.Millisecond+grace)
		if err != nil || failed {
			return err
		}
	}
	if p.Turns != nil {
		return s.runTurns(ctx, startTimeout)
	}
	if p.Tests != nil {
		return s.runTests(ctx, limit, startTimeout)
	}
	start := limit
	if len(p.Compile) > 0 { // the agent reads all that the step has left before
		start += s.collectTime()
	}
	if refused, err := s.awaitStart(ctx, start); err != nil || refused {
		return err
	}
	stopFeeding := func() {}
	if p.Input != nil {
		stopFeeding, _ = s.feed(ctx, p.Input)
	}
	overdue, err := s.run(ctx, limit)
	stopFeeding() // the agent reads little while it collects
	if err != nil || overdue {
		return err
	}
	return s.collect(ctx)
}

// accept makes the session that of a program.
func (s *Session) accept(task Task) {
	task.Preloaded = task.Preloaded && task.PreloadMB > 0
	s.task = task
	s.mu.Lock()
	defer s.mu.Unlock()
	s.check.Limits, s.check.Compile, s.check.Preload = task.Program.Limits, len(task.Program.Compile) > 0, task.Preloaded
	s.check.Tests, s.check.StderrKB, s.check.Session = task.Program.Tests != nil, task.Program.StderrKB, task.Program.Turns != nil
}

// whyUnsent is why the program could not be sent. An agent that stops reading says why, unless
// it went with its sandbox.
func (s *Session) whyUnsent(ctx context.Context, err error) error {
	var input inputError
	if errors.As(err, &input) {
		return err
	}
	e, popErr := s.events.pop(ctx, time.Second)
	if popErr == nil && e.Type == agentwire.TypeFault {
		return s.unexpected(e)
	}
	return fmt.Errorf("send the program: %w", errors.Join(err, popErr))
}

// AwaitReady waits for the agent's first word, unless it has come.
func (s *Session) AwaitReady(ctx context.Context, timeout time.Duration) error {
	if s.ready {
		return nil
	}
	e, err := s.events.pop(ctx, timeout)
	if err != nil {
		return fmt.Errorf("wait for the agent: %w", err)
	}
	ready, ok := e.message.(agentwire.Ready)
	if !ok {
		return s.unexpected(e)
	}
	s.Outcome.Timing.Ready = e.at.Sub(s.began)
	s.Outcome.Kernel = ready.Kernel
	if s.Kernel != "" && ready.Kernel != s.Kernel {
		return fmt.Errorf("%w: the sandbox's kernel is %.100q, not this host's", sandbox.ErrUnavailable, ready.Kernel)
	}
	if f := strings.Fields(ready.Kernel); s.Kernel == "" && (len(f) < 3 || !strings.HasSuffix(f[2], "-gvisor")) {
		return errNotGVisor
	}
	s.ready = true
	return nil
}

// unexpected is the error for a frame that the protocol allows and this step doesn't: the
// agent's own failure, or its mistake.
func (s *Session) unexpected(e event) error {
	if fault, ok := e.message.(agentwire.Fault); ok {
		return fmt.Errorf("agent: %s", fault.Message)
	}
	return fmt.Errorf("%w: unexpected %s", agentwire.ErrProtocol, e.Type)
}

// OutOfMemory is the outcome of a program whose sandbox was killed as it held so many bytes.
// The agent went with it, so what it would have told is not known.
func (s *Session) OutOfMemory(heldBytes int64) sandbox.Outcome {
	if s.layingOut { // nothing of the test has run
		s.Outcome.Lost = true
		return s.Outcome
	}
	s.outOfMemory()
	s.Outcome.Usage.MemoryPeakBytes = heldBytes
	if s.task.Program.Tests != nil || s.task.Program.Turns != nil {
		s.Outcome.Lost = true
		if !s.testBegan.IsZero() {
			s.Outcome.Usage.WallMS = time.Since(s.testBegan).Milliseconds()
		}
		return s.Outcome
	}
	if s.Outcome.Startup > 0 {
		s.Outcome.Usage.WallMS = (time.Since(s.began) - s.Outcome.Startup).Milliseconds()
	}
	return s.Outcome
}
