package sandbox

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
)

const (
	// window is how much a sandbox may have on its way to a sink. The pipe that it writes to
	// holds that (widen), so that it waits for credit only.
	window = 960 << 10
	// grace is for how much longer than its limits a program may take before the
	// agent, which enforces them, is not believed in any more.
	grace = 10 * time.Second
	// collectPatience is for how long an agent may keep the worker waiting while it
	// collects, in all, beside what the files that it may send take at collectRate.
	collectPatience = time.Minute
	collectRate     = 10 // MiB a second
)

// errNoEnd is the stream that stops before its last frame.
var errNoEnd = errors.New("the stream ended before the agent's last frame")

// session is the worker's end of one sandbox's stream.
type session struct {
	program Program
	stream  *stream
	out     *agentwire.Writer
	sink    Sink
	events  *queue
	began   time.Time
	leaf    *leaf // nil where the host delegates no cgroups

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

	outcome    Outcome
	output     strings.Builder // of the compile step
	stderrEnds byte
	debt       int64 // credit used up and not granted again
	mute       bool  // nothing more can be written
	// waited is how long the agent has kept the collection waiting.
	waited time.Duration
}

// errNotGVisor refuses a sandbox that is none.
var errNotGVisor = fmt.Errorf("%w: the sandbox's kernel is not gVisor", ErrUnavailable)

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
func (s *session) give(program Program, sink Sink) {
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
	s.began, s.outcome.Timing, s.outcome.Warm = began, Timing{}, true
}

// serve takes the session from Ready to End.
func (s *session) serve(ctx context.Context, startTimeout time.Duration) error {
	if err := s.awaitReady(ctx, startTimeout); err != nil {
		return err
	}
	if s.leaf != nil {
		if err := s.leaf.apply(s.bounds()); err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
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
	if err := s.started(ctx, limit); err != nil {
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

// sendWithin closes the stream on an agent that takes the program too slowly, or a piece
// of an input that is read from elsewhere.
func (s *session) sendWithin(ctx context.Context, patience time.Duration) error {
	overdue := time.AfterFunc(patience, func() { s.stream.Close() })
	defer overdue.Stop()
	return s.send(ctx, func() { overdue.Stop() }, func() { overdue.Reset(patience) })
}

// send tells the agent everything: the first grant, the program, its inputs. It calls
// pause and resume around what it is not the agent that it waits for.
func (s *session) send(ctx context.Context, pause, resume func()) error {
	p := s.program
	if err := s.grant(window); err != nil {
		return err
	}
	start := agentwire.Start{
		Protocol: agentwire.Version, Compile: p.Compile, Command: p.Command,
		Env: p.environment(), Limits: p.Limits,
	}
	if s.preloaded {
		start.PreparedMB = s.preloadMB
	}
	if err := s.out.WriteStart(start); err != nil {
		return err
	}
	for _, f := range p.Files {
		if f.Open != nil {
			if err := s.sendFile(ctx, f, pause, resume); err != nil {
				return err
			}
			continue
		}
		if err := s.out.WriteJSON(agentwire.TypeFileBegin, agentwire.FileBegin{Name: f.Name, Size: int64(len(f.Content))}); err != nil {
			return err
		}
		if err := s.out.WriteChunks(agentwire.TypeFileData, f.Content); err != nil {
			return err
		}
	}
	if err := s.out.WriteChunks(agentwire.TypeStdinData, p.Stdin); err != nil {
		return err
	}
	return s.out.Write(agentwire.TypeGo, nil)
}

// inputError is why an input could not be read.
type inputError struct {
	name string
	err  error
}

func (e inputError) Error() string { return fmt.Sprintf("read input %q: %v", e.name, e.err) }
func (e inputError) Unwrap() error { return e.err }

// sendFile passes an input on while it is read.
func (s *session) sendFile(ctx context.Context, f File, pause, resume func()) error {
	s.taken = true
	pause()
	r, err := f.Open(ctx)
	resume()
	if err != nil {
		return inputError{f.Name, err}
	}
	defer r.Close()
	if err := s.out.WriteJSON(agentwire.TypeFileBegin, agentwire.FileBegin{Name: f.Name, Size: f.Size}); err != nil {
		return err
	}
	buf := make([]byte, agentwire.MaxPayload)
	for left := f.Size; ; {
		pause()
		n, err := r.Read(buf)
		resume()
		left -= int64(n)
		ended := errors.Is(err, io.EOF)
		switch {
		case err != nil && !ended:
			return inputError{f.Name, err}
		case left < 0 || ended && left > 0:
			return inputError{f.Name, fmt.Errorf("it does not have the %d bytes that it should", f.Size)}
		}
		if err := s.out.WriteChunks(agentwire.TypeFileData, buf[:n]); err != nil {
			return err
		}
		if ended {
			return nil
		}
	}
}

// grant allows n more bytes.
func (s *session) grant(n int64) error {
	s.mu.Lock()
	s.check.Granted(n)
	s.mu.Unlock()
	return s.out.WriteCredit(n)
}

// passed gives the credit of a frame back, once enough has come together. That it
// can't be written is no error of its own: the agent may have sent its last frame and
// be gone, or the stream has broken, and the reader knows which.
func (s *session) passed(f agentwire.Frame) {
	if s.debt += f.Cost(); s.debt < window/2 {
		return
	}
	n := s.debt
	s.debt = 0
	if !s.mute {
		s.mute = s.grant(n) != nil
	}
}

func (s *session) compile(ctx context.Context, limit time.Duration) (failed bool, err error) {
	deadline := time.Now().Add(limit)
	for {
		e, err := s.events.pop(ctx, time.Until(deadline))
		if err != nil {
			return false, fmt.Errorf("wait for the compile step: %w", err)
		}
		s.taken = true
		switch e.Type {
		case agentwire.TypeCompileOutput:
			s.output.Write(e.Payload)
			s.passed(e.Frame)
		case agentwire.TypeCompiled:
			c := e.say.(agentwire.Compiled)
			s.outcome.Compile = &job.Compile{
				ExitCode: c.ExitCode, WallMS: c.WallMS,
				Output: strings.ToValidUTF8(s.output.String(), "\uFFFD"),
			}
			if c.ExitCode == 0 {
				return false, nil
			}
			s.outcome.Status, s.outcome.ExitCode = job.CompileFailed, c.ExitCode
			s.outcome.Timing.Exited = e.at.Sub(s.began)
			return true, s.end(ctx)
		default:
			return false, s.unexpected(e)
		}
	}
}

func (s *session) started(ctx context.Context, limit time.Duration) error {
	e, err := s.events.pop(ctx, limit)
	if err != nil {
		return fmt.Errorf("wait for the program's start: %w", err)
	}
	s.taken = true
	said, ok := e.say.(agentwire.Started)
	if !ok {
		return s.unexpected(e)
	}
	s.outcome.Preloaded = said.Preloaded
	s.outcome.Startup = e.at.Sub(s.began)
	s.outcome.Timing.Started = s.outcome.Startup
	return nil
}

// run passes output on until the program's exit. The time that counts against the
// limit is that spent waiting here, so that a slow sink is not held against the agent.
func (s *session) run(ctx context.Context, limit time.Duration) (overdue bool, err error) {
	var waited time.Duration
	for {
		from := time.Now()
		e, err := s.events.pop(ctx, limit-waited)
		waited += time.Since(from)
		if errors.Is(err, errOverdue) {
			// Whatever the agent is busy with: the program has had its time.
			s.outcome.Usage.WallMS = waited.Milliseconds()
			if s.leaf != nil && s.leaf.oomKilled() { // and nobody has said so yet
				s.outOfMemory()
				return true, nil
			}
			return true, s.timedOut()
		}
		if err != nil {
			return false, fmt.Errorf("wait for the program's end: %w", err)
		}
		switch e.Type {
		case agentwire.TypeStdout:
			err = s.sink.Stdout(e.Payload)
		case agentwire.TypeStderr:
			s.stderrEnds = e.Payload[len(e.Payload)-1]
			err = s.sink.Stderr(e.Payload)
		case agentwire.TypeExit:
			return false, s.exit(e)
		default:
			err = s.unexpected(e)
		}
		if err != nil {
			return false, err
		}
		s.passed(e.Frame)
	}
}

func (s *session) exit(e event) error {
	exit := e.say.(agentwire.Exit)
	s.outcome.Timing.Exited = e.at.Sub(s.began)
	s.outcome.ExitCode, s.outcome.Signal, s.outcome.Usage = exit.ExitCode, exit.Signal, exit.Usage
	switch exit.Cause {
	case agentwire.Wall, agentwire.CPU:
		return s.timedOut()
	case agentwire.Memory:
		s.outcome.Status = job.OutOfMemory
	case agentwire.Output:
		s.outcome.Status = job.OutputLimitExceeded
	case agentwire.Processes:
		s.outcome.Status = job.Failed
		return s.say(fmt.Sprintf("glovebox: far more processes than limits.processes (%d)\n", s.program.Limits.Processes))
	case agentwire.Killed:
		return errors.New("the agent ended the program although nobody asked it to")
	case agentwire.Exited:
		s.outcome.Status = job.Succeeded
		if exit.ExitCode != 0 || exit.Signal != "" {
			s.outcome.Status = job.Failed
		}
	}
	return nil
}

// outOfMemory is what the program came to when its whole sandbox was killed for it.
func (s *session) outOfMemory() {
	s.outcome.Status, s.outcome.ExitCode, s.outcome.Signal = job.OutOfMemory, 137, "SIGKILL"
}

// timedOut says so where a user looks.
func (s *session) timedOut() error {
	s.outcome.Status, s.outcome.ExitCode, s.outcome.Signal = job.TimedOut, job.TimedOutExitCode, ""
	return s.say("Execution timed out\n")
}

// say adds a line of ours to the program's stderr.
func (s *session) say(line string) error {
	if s.stderrEnds != 0 && s.stderrEnds != '\n' {
		line = "\n" + line
	}
	return s.sink.Stderr([]byte(line))
}

// collect passes the artifacts on, and ends the session.
func (s *session) collect(ctx context.Context) error {
	for {
		e, err := s.collected(ctx)
		if err != nil {
			return fmt.Errorf("wait for artifacts: %w", err)
		}
		switch e.Type {
		case agentwire.TypeArtifactBegin:
			err = s.artifact(ctx, e.say.(agentwire.ArtifactBegin))
		case agentwire.TypeSkipped:
			skipped := e.say.(agentwire.Skipped)
			s.outcome.Skipped = append(s.outcome.Skipped, job.Skipped{Name: skipped.Name, Reason: skipped.Reason})
		case agentwire.TypeEnd:
			return s.ended(e)
		default:
			err = s.unexpected(e)
		}
		if err != nil {
			return err
		}
	}
}

// collected waits for the next event of the collection.
func (s *session) collected(ctx context.Context) (event, error) {
	patience := collectPatience + time.Duration(s.program.Limits.DiskMB)*time.Second/collectRate
	from := time.Now()
	e, err := s.events.pop(ctx, patience-s.waited)
	s.waited += time.Since(from)
	return e, err
}

// end waits for End where nothing may come before it.
func (s *session) end(ctx context.Context) error {
	e, err := s.collected(ctx)
	if err != nil {
		return fmt.Errorf("wait for the agent's end: %w", err)
	}
	return s.ended(e)
}

func (s *session) ended(e event) error {
	end, ok := e.say.(agentwire.End)
	if !ok {
		return s.unexpected(e)
	}
	s.outcome.SkippedTotal = end.SkippedTotal
	s.outcome.Timing.Ended = e.at.Sub(s.began)
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
