package sandbox

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/containers/podman/v5/version"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// stream is a container's attached stdin (Write), stdout (Read) and stderr (complaint).
//
// The bindings' own Attach is not used: it replaces the transport of the connection
// that all other requests share, inspects the container first, and leaves a goroutine
// behind that reads its stdin. Their dialer, version and stream format are.
type stream struct {
	net.Conn
	r    *bufio.Reader
	left int // of the frame being read
	kind byte
	// noise counts the bytes of stderr, kept or not.
	noise int64

	mu     sync.Mutex
	stderr []byte
}

const (
	streamStdout = 1
	streamStderr = 2
	streamError  = 3
	// maxComplaint bounds what is kept of the agent's stderr; it has nothing to say
	// there, unless it panics.
	maxComplaint = 4 << 10
	// maxNoise is when an agent's stderr ends the session. Nothing pays for these bytes:
	// neither credit nor a limit of the job.
	maxNoise = 1 << 20
)

// attach connects to a container that was created and not yet started.
func (p *Podman) attach(ctx context.Context, name string) (*stream, error) {
	conn, err := p.http.GetDialer(p.with(ctx))
	if err != nil {
		return nil, fmt.Errorf("attach to container: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	s, err := upgrade(ctx, conn, name)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("attach to container: %w", err)
	}
	return s, nil
}

func upgrade(ctx context.Context, conn net.Conn, name string) (*stream, error) {
	// No detach keys: with the default ones, a byte 0x10 in the stream is held back.
	query := url.Values{"stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"}, "stream": {"true"}, "detachKeys": {""}}
	api := version.APIVersion[version.Libpod][version.CurrentAPI]
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://d/v%d.%d.%d/libpod/containers/%s/attach?%s",
		api.Major, api.Minor, api.Patch, url.PathEscape(name), query.Encode()), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "tcp")
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(conn, 64<<10)
	response, err := http.ReadResponse(r, request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		defer response.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1024)) // only to say more in the error
		return nil, fmt.Errorf("podman answered %s: %s", response.Status, body)
	}
	return &stream{Conn: conn, r: r}, nil
}

// writePatience is for how long an agent, whose only business it is, may leave what it
// was sent unread.
const writePatience = 30 * time.Second

// Write writes to the container's stdin.
func (s *stream) Write(p []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(writePatience)); err != nil {
		return 0, err
	}
	return s.Conn.Write(p)
}

// Read reads the container's stdout.
func (s *stream) Read(p []byte) (int, error) {
	for {
		for s.left == 0 {
			if err := s.header(); err != nil {
				return 0, err
			}
		}
		want := p[:min(len(p), s.left)]
		if s.kind == streamStdout {
			n, err := s.r.Read(want)
			s.left -= n
			return n, err
		}
		var aside [1024]byte
		n, err := s.r.Read(aside[:min(len(aside), s.left)])
		s.left -= n
		s.complain(aside[:n])
		if err != nil {
			return 0, err
		}
		if s.noise += int64(n); s.noise > maxNoise {
			return 0, fmt.Errorf("%w: more than %d bytes of stderr", agentwire.ErrProtocol, maxNoise)
		}
		if s.kind == streamError && s.left == 0 {
			return 0, fmt.Errorf("podman ended the stream: %s", s.complaint())
		}
	}
}

// header reads which stream the next bytes are of, and how many they are.
func (s *stream) header() error {
	var h [8]byte
	if _, err := io.ReadFull(s.r, h[:]); err != nil {
		return err
	}
	s.kind, s.left = h[0], int(binary.BigEndian.Uint32(h[4:]))
	if s.kind == 0 {
		s.kind = streamStdout // podman numbers it so before a container has started
	}
	if s.kind > streamError {
		return fmt.Errorf("podman's stream has no channel %d", s.kind)
	}
	return nil
}

func (s *stream) complain(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stderr = append(s.stderr, p[:min(len(p), maxComplaint-len(s.stderr))]...)
}

// complaint is what the agent wrote to stderr.
func (s *stream) complaint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.stderr)
}
