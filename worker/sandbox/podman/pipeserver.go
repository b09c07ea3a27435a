package podman

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/worker/sandbox/internal/session"
)

// pipesAnnotation names, in a container's configuration, the socket where glovebox-runtime gets
// the pipes of each sandbox that it makes for the container. (Its pipes.go repeats the name: it
// links nothing of ours except internal/cgroup.)
const pipesAnnotation = "run.glovebox.pipes"

// What an OCI runtime asks (its pipes.go).
const (
	askPipes = 'p'
	askStart = 's'
)

// pipeServer is the socket of a worker at which the OCI runtime requests the pipes of a sandbox
// as it makes it: they become its stdin, stdout and stderr. So no other process is between the
// sandbox and the worker, and each sandbox has pipes of its own. As it starts the sandbox it asks
// again, how (start.go).
//
// Podman's user and group can connect: they own all sandboxes.
type pipeServer struct {
	log      *slog.Logger
	dir      string
	listener *net.UnixListener
	served   sync.WaitGroup

	mu          sync.Mutex
	reserved    map[string]*sandboxEnds  // by container id, for sandboxes that are about to be made
	starts      map[string]*specialStart // by container id, of those that are to be started in another than the usual way
	lastWarning time.Time                // when a refused request was last logged
}

// sandboxEnds are the sandbox's ends of its stdin, stdout and stderr.
type sandboxEnds [3]int

func (e *sandboxEnds) close() {
	for _, fd := range e {
		unix.Close(fd)
	}
}

const (
	// requestTimeout is how long an OCI runtime may take to say for which container it asks; glovebox-runtime gives up after as long.
	requestTimeout = 10 * time.Second
	// socketDirPrefix begins the name of the socket's directory, socketName is the socket's.
	socketDirPrefix = "glovebox-worker-"
	socketName      = "pipes.sock"
	// minStaleAge is how old a socket without a listener must be: a younger one may be about
	// to listen.
	minStaleAge = time.Minute
	// maxDetail is the longest that an OCI runtime has to say of a sandbox, bytes.
	maxDetail = 1024
	// maxRequests is how many requests are served at once; more wait.
	maxRequests = 64
	// warnInterval limits how often refused requests are logged.
	warnInterval = time.Second
)

// newPipeServer makes the socket in a directory of its own below dir, for the group that
// Podman's socket has.
func newPipeServer(dir, podmanSocket string, log *slog.Logger) (_ *pipeServer, err error) {
	var podman unix.Stat_t
	if err := unix.Stat(podmanSocket, &podman); err != nil {
		return nil, fmt.Errorf("find the owner of podman's socket %s: %w", podmanSocket, err)
	}
	removeStaleSockets(dir)
	own, err := os.MkdirTemp(dir, socketDirPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory for a socket: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(own)
		}
	}()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(own, socketName)})
	if err != nil {
		return nil, fmt.Errorf("listen where podman's user can connect: %w", err)
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	for path, mode := range map[string]os.FileMode{own: 0o710, l.Addr().String(): 0o660} {
		if err := os.Chown(path, -1, int(podman.Gid)); err != nil {
			return nil, fmt.Errorf("share a socket with podman's user: is this worker in the group of %s? %w", podmanSocket, err)
		}
		if err := os.Chmod(path, mode); err != nil {
			return nil, fmt.Errorf("share a socket with podman's user: %w", err)
		}
	}
	s := &pipeServer{log: log, dir: own, listener: l, reserved: map[string]*sandboxEnds{}, starts: map[string]*specialStart{}}
	s.served.Go(s.serve)
	return s, nil
}

// removeStaleSockets removes the sockets, and their directories, of workers of this user that
// were killed.
func removeStaleSockets(dir string) {
	sockets, err := filepath.Glob(filepath.Join(dir, socketDirPrefix+"*", socketName))
	if err != nil {
		return // the directory's name is a bad pattern: nothing is removed there
	}
	for _, socket := range sockets {
		var stat unix.Stat_t
		if unix.Lstat(socket, &stat) != nil || int(stat.Uid) != os.Getuid() || time.Since(time.Unix(stat.Mtim.Unix())) < minStaleAge {
			continue
		}
		c, err := net.Dial("unix", socket) //nolint:noctx // it is refused or taken at once
		if err == nil {
			c.Close()
		}
		if errors.Is(err, unix.ECONNREFUSED) {
			os.RemoveAll(filepath.Dir(socket))
		}
	}
}

func (s *pipeServer) path() string { return s.listener.Addr().String() }

func (s *pipeServer) close() {
	s.listener.Close()
	s.served.Wait()
	os.RemoveAll(s.dir)
}

// reserve makes the pipes of a container's next sandbox, and returns the worker's ends of them.
// unreserve takes the sandbox's ends back, unless they were claimed.
func (s *pipeServer) reserve(container string) (_ session.Pipes, unreserve func(), err error) {
	var near [3]*os.File
	far := new(sandboxEnds)
	for i := range near {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			for j := range i {
				near[j].Close()
				unix.Close(far[j])
			}
			return session.Pipes{}, nil, fmt.Errorf("make pipes: %w", err)
		}
		ours, theirs := ends[0], ends[1]
		if i == 0 { // stdin goes the other way
			ours, theirs = theirs, ours
		}
		_ = unix.SetNonblock(ours, true) // can't fail; without it the file would have no deadlines
		near[i], far[i] = os.NewFile(uintptr(ours), "pipe"), theirs
	}
	growPipe(far[1])
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.reserved[container]; ok {
		old.close()
	}
	s.reserved[container] = far
	return session.Pipes{Stdin: near[0], Stdout: near[1], Stderr: near[2]}, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.reserved[container] == far {
			delete(s.reserved, container)
			far.close()
		}
	}, nil
}

// growPipe makes the pipe on which the agent writes hold all that the worker has granted, so that
// the two wake each other seldom. It only saves time: where the user has too much in pipes
// already (fs.pipe-user-pages-soft), the pipe stays as it is.
func growPipe(pipe int) { _, _ = unix.FcntlInt(uintptr(pipe), unix.F_SETPIPE_SZ, 1<<20) }

// claimed reports whether the OCI runtime has taken the pipes of a container.
func (s *pipeServer) claimed(container string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, reserved := s.reserved[container]
	return !reserved
}

// serve answers requests until the server is closed.
func (s *pipeServer) serve() {
	var requests errgroup.Group
	requests.SetLimit(maxRequests)
	defer func() { _ = requests.Wait() }() // they return no error
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptors, no memory: not at once again
			s.warn(err)
			time.Sleep(warnInterval)
			continue
		}
		requests.Go(func() error {
			if err := s.handle(c); err != nil {
				s.warn(err)
			}
			return nil
		})
	}
}

// warn logs a refused request, unless it just did: a client must not be able to flood the log.
func (s *pipeServer) warn(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.lastWarning) >= warnInterval {
		s.lastWarning = time.Now()
		s.log.Warn("an OCI runtime got no pipes", "error", err)
	}
}

// handle answers one request.
func (s *pipeServer) handle(c *net.UnixConn) error {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return err
	}
	var header [1 + 64 + 2]byte // the question, the container's id, and how many bytes follow
	if _, err := io.ReadFull(c, header[:]); errors.Is(err, io.EOF) {
		return nil // removeStaleSockets, which only finds out whether anybody listens
	} else if err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	id, n := string(header[1:65]), binary.BigEndian.Uint16(header[65:])
	if n > maxDetail {
		return fmt.Errorf("a request of %d bytes: at most %d are allowed", n, maxDetail)
	}
	detail := make([]byte, n)
	if _, err := io.ReadFull(c, detail); err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	switch header[0] {
	case askPipes:
		return s.givePipes(c, id)
	case askStart:
		return s.sayHow(c, id, string(detail))
	}
	return fmt.Errorf("an unknown request %.1q for container %.64q", header[:1], id)
}

// givePipes gives out the pipes of a container, once.
func (s *pipeServer) givePipes(c *net.UnixConn, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	far, ok := s.reserved[id]
	if !ok {
		return fmt.Errorf("nobody waits for a sandbox of container %.64q", id)
	}
	delete(s.reserved, id)
	defer far.close()
	if _, _, err := c.WriteMsgUnix([]byte{0}, unix.UnixRights(far[:]...), nil); err != nil {
		return fmt.Errorf("give pipes to the OCI runtime: %w", err)
	}
	return nil
}
