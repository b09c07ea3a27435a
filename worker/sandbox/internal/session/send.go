package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// window is how much a sandbox may have on its way to a sink. The pipe that it writes to
// holds as much, so that it waits for credit only.
const window = 960 << 10

// sendWithin closes the stream on an agent that takes the program too slowly, or a piece
// of an input that is read from elsewhere.
func (s *Session) sendWithin(ctx context.Context, timeout time.Duration) error {
	overdue := time.AfterFunc(timeout, s.Abort)
	defer overdue.Stop()
	return s.send(ctx, func() { overdue.Stop() }, func() { overdue.Reset(timeout) })
}

// send tells the agent everything: the first grant, the program, its inputs. It calls
// pause and resume around every wait that is not for the agent.
func (s *Session) send(ctx context.Context, pause, resume func()) error {
	p := s.task.Program
	if err := s.grant(window); err != nil {
		return err
	}
	start := agentwire.Start{
		Protocol: agentwire.Version, Compile: p.Compile, Command: p.Command,
		Env: p.Environment(), Limits: p.Limits, Tests: p.Tests != nil, StderrKB: p.StderrKB, Session: p.Turns != nil,
		Interactive: p.Input != nil || p.Interactive, MergeStderr: p.MergeStderr, TruncateOutput: p.TruncateOutput, Languages: p.Languages,
		Forks: s.task.Forks, NoInternet: p.NoInternet,
	}
	if s.task.Preloaded {
		start.PreparedMB, start.Become = s.task.PreloadMB, s.task.Become
	}
	if err := s.out.WriteStart(start); err != nil {
		return err
	}
	files := p.Files
	if len(start.Become) > 0 {
		files = append(slices.Clone(files), *p.Interpreter)
	}
	if err := s.sendFiles(ctx, files, pause, resume); err != nil {
		return err
	}
	if err := s.out.WriteChunks(agentwire.TypeStdinData, p.Stdin); err != nil {
		return err
	}
	return s.out.Write(agentwire.TypeGo, nil)
}

func (s *Session) sendFiles(ctx context.Context, files []sandbox.File, pause, resume func()) error {
	for _, f := range files {
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
	return nil
}

// inputError is why an input could not be read.
type inputError struct {
	name string
	err  error
}

func (e inputError) Error() string { return fmt.Sprintf("read input %q: %v", e.name, e.err) }
func (e inputError) Unwrap() error { return e.err }

// sendFile sends an input while it is read.
func (s *Session) sendFile(ctx context.Context, f sandbox.File, pause, resume func()) error {
	if err := s.out.WriteJSON(agentwire.TypeFileBegin, agentwire.FileBegin{Name: f.Name, Size: f.Size}); err != nil {
		return err
	}
	return s.sendContent(ctx, agentwire.TypeFileData, f, pause, resume)
}

// sendContent sends what a file that is to be opened holds.
func (s *Session) sendContent(ctx context.Context, t agentwire.Type, f sandbox.File, pause, resume func()) error {
	s.begun = true
	pause()
	r, err := f.Open(ctx)
	resume()
	if err != nil {
		return inputError{f.Name, err}
	}
	defer r.Close()
	buf := make([]byte, agentwire.MaxPayload)
	left, known := f.Size, f.Size >= 0
	for {
		pause()
		n, err := r.Read(buf)
		resume()
		left -= int64(n)
		ended := errors.Is(err, io.EOF)
		switch {
		case err != nil && !ended:
			return inputError{f.Name, err}
		case known && (left < 0 || ended && left > 0):
			return inputError{f.Name, fmt.Errorf("it does not have the %d bytes that it should", f.Size)}
		}
		if err := s.out.WriteChunks(t, buf[:n]); err != nil {
			return err
		}
		if ended {
			return nil
		}
	}
}

// grant allows n more bytes.
func (s *Session) grant(n int64) error {
	s.mu.Lock()
	s.check.Granted(n)
	s.mu.Unlock()
	return s.out.WriteCredit(n)
}

// returnCredit grants a frame's credit again, once enough of it has come together. A grant that
// can't be written is no error: the agent may have sent its last frame and be gone, or the
// stream has broken, and the reader knows which.
func (s *Session) returnCredit(f agentwire.Frame) {
	if s.spent += f.Cost(); s.spent < window/2 {
		return
	}
	n := s.spent
	s.spent = 0
	if !s.unwritable {
		s.unwritable = s.grant(n) != nil
	}
}
