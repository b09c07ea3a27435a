package session

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// Pipe is one end of a pipe.
type Pipe interface {
	io.ReadWriteCloser
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Pipes are the worker's ends of a sandbox's stdin, stdout and stderr.
type Pipes struct{ Stdin, Stdout, Stderr Pipe }

// Close closes all three.
func (p Pipes) Close() {
	for _, pipe := range []Pipe{p.Stdin, p.Stdout, p.Stderr} {
		pipe.Close()
	}
}

// stream is a sandbox's pipes as one stream: Write writes to its stdin, Read reads its stdout.
type stream struct {
	pipes Pipes
	r     *bufio.Reader // of stdout

	mu     sync.Mutex
	stderr []byte
	flood  bool // there was too much of stderr
}

const (
	// headRoom is for the headers of frames, and for small frames; larger payloads are read
	// past it.
	headRoom = 8 << 10
	// maxStderrKept bounds what is kept of the agent's stderr; it has nothing to say
	// there, unless it panics. Before it begins, runsc says there why it can't.
	maxStderrKept = 4 << 10
	// maxStderr is when an agent's stderr ends the session. Nothing pays for these bytes:
	// neither credit nor a limit of the job.
	maxStderr = 1 << 20
	// writeTimeout is how long an agent may leave unread what it was sent. Reading is all
	// that it has to do.
	writeTimeout = 30 * time.Second
	// endTimeout is how long an agent may stay that was told that its worker goes.
	endTimeout = 2 * time.Second
	// maxAfterEnd bounds what such an agent may still say.
	maxAfterEnd = 1 << 20
)

func newStream(pipes Pipes) *stream {
	return &stream{pipes: pipes, r: bufio.NewReaderSize(pipes.Stdout, headRoom)}
}

func (s *stream) Write(p []byte) (int, error) {
	if err := s.pipes.Stdin.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return s.pipes.Stdin.Write(p)
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.flood {
			err = fmt.Errorf("%w: more than %d bytes of stderr", agentwire.ErrProtocol, maxStderr)
		}
	}
	return n, err
}

// Close wakes whatever reads or writes.
func (s *stream) Close() { s.pipes.Close() }

// readStderr reads the sandbox's stderr, until it ends or the stream is closed. After too much
// of it nothing is read any more, of stdout neither.
func (s *stream) readStderr() {
	buf := make([]byte, 1024)
	for left := maxStderr; left >= 0; {
		n, err := s.pipes.Stderr.Read(buf)
		left -= n
		s.mu.Lock()
		s.stderr = append(s.stderr, buf[:min(n, maxStderrKept-len(s.stderr))]...)
		s.flood = left < 0
		s.mu.Unlock()
		if err != nil {
			return // the end; whatever it was, stdout tells of it
		}
	}
	s.pipes.Stderr.Close()
	s.pipes.Stdout.Close()
}

func (s *stream) stderrText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.stderr)
}

// AwaitEnd tells the agent that its worker goes, by closing its stdin, and reports whether its
// stream ended then. It is for after Serve.
func (s *Session) AwaitEnd() bool { return s.endsWithin(endTimeout) }

func (s *Session) endsWithin(timeout time.Duration) bool {
	<-s.gone // the reader has read the last frame
	pipes := s.stream.pipes
	if pipes.Stdin.Close() != nil || pipes.Stdout.SetReadDeadline(time.Now().Add(timeout)) != nil {
		return false
	}
	n, err := io.Copy(io.Discard, io.LimitReader(s.stream, maxAfterEnd))
	return err == nil && n < maxAfterEnd
}
