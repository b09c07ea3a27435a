package podman

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// pipe is one end of a pipe.
type pipe interface {
	io.ReadWriteCloser
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// stream is a sandbox's stdin (Write), stdout (Read) and stderr (complaint).
type stream struct {
	in, out, errs pipe
	r             *bufio.Reader // of out
	// withdraw takes back what the OCI runtime has not asked for.
	withdraw func()

	mu     sync.Mutex
	stderr []byte
	noisy  bool
}

const (
	// headRoom is for the headers of frames, and for those that are small; what is larger
	// goes by it.
	headRoom = 8 << 10
	// maxComplaint bounds what is kept of the agent's stderr; it has nothing to say
	// there, unless it panics. Before it begins, runsc says there why it can't.
	maxComplaint = 4 << 10
	// maxNoise is when an agent's stderr ends the session. Nothing pays for these bytes:
	// neither credit nor a limit of the job.
	maxNoise = 1 << 20
	// writePatience is for how long an agent, whose only business it is, may leave what it
	// was sent unread.
	writePatience = 30 * time.Second
)

func newStream(in, out, errs pipe, withdraw func()) *stream {
	return &stream{in: in, out: out, errs: errs, r: bufio.NewReaderSize(out, headRoom), withdraw: withdraw}
}

// Write writes to the sandbox's stdin.
func (s *stream) Write(p []byte) (int, error) {
	if err := s.in.SetWriteDeadline(time.Now().Add(writePatience)); err != nil {
		return 0, err
	}
	return s.in.Write(p)
}

// Read reads the sandbox's stdout.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.noisy {
			err = fmt.Errorf("%w: more than %d bytes of stderr", agentwire.ErrProtocol, maxNoise)
		}
	}
	return n, err
}

// listen reads the sandbox's stderr, until it ends or the stream is closed. Where there is
// more of it than is bearable, nothing is read any more.
func (s *stream) listen() {
	buf := make([]byte, 1024)
	for left := maxNoise; left >= 0; {
		n, err := s.errs.Read(buf)
		left -= n
		s.mu.Lock()
		s.stderr = append(s.stderr, buf[:min(n, maxComplaint-len(s.stderr))]...)
		s.noisy = left < 0
		s.mu.Unlock()
		if err != nil {
			return // the end; whatever it was, stdout tells of it
		}
	}
	s.errs.Close()
	s.out.Close()
}

// complaint is what came on stderr.
func (s *stream) complaint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.stderr)
}

// Close wakes who reads or writes.
func (s *stream) Close() {
	s.withdraw()
	for _, p := range []pipe{s.in, s.out, s.errs} {
		p.Close()
	}
}
