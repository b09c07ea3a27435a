package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// window is how much a sandbox may have on its way to a sink. The pipe that it writes to
// holds that (widen), so that it waits for credit only.
const window = 960 << 10

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
		Env: p.Environment(), Limits: p.Limits,
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
func (s *session) sendFile(ctx context.Context, f sandbox.File, pause, resume func()) error {
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
