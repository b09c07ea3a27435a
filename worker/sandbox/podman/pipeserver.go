package podman

import (
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
)

// pipesAnnotation names, in a container's configuration, the socket where glovebox-runtime gets
// the pipes of each sandbox that it makes for it. (Its pipes.go says the same: it links nothing of ours
// but internal/cgroup.)
const pipesAnnotation = "run.glovebox.pipes"

// pipeServer is the socket of a worker at which the OCI runtime asks for the pipes of a sandbox as
// it makes it: they become its stdin, stdout and stderr. What the sandbox says then comes
// to the worker as it was said, by no other process, and each sandbox has pipes of its own.
//
// Who can connect is Podman's user and group, to whom all sandboxes belong.
type pipeServer struct {
	log      *slog.Logger
	dir      string
	listener *net.UnixListener
	served   sync.WaitGroup

	mu          sync.Mutex
	reserved    map[string]*sandboxEnds // by container id: of sandboxes that are about to be made
	lastWarning time.Time               // when an asker was last complained of
}

// sandboxEnds are a sandbox's: its stdin, stdout and stderr.
type sandboxEnds [3]int

func (f *sandboxEnds) close() {
	for _, fd := range f {
		unix.Close(fd)
	}
}

const (
	// requestTimeout is what an OCI runtime may take to say for which container it asks.
	requestTimeout = time.Second
	// socketDirPrefix begins the name of a door's directory, and doorName is that of its socket.
	socketDirPrefix = "glovebox-worker-"
	socketName      = "pipes.sock"
	// minStaleAge is for how long a door that nobody hears may be one that is being made.
	minStaleAge = time.Minute
	// maxRequests is how many are heard at once; more wait.
	maxRequests = 64
	// warnInterval is for how long there is no second complaint of who asks in vain.
	warnInterval = time.Second
)

// newPipeServer makes the socket in a directory of its own below dir, for the group that
// Podman's socket has.
func newPipeServer(dir, podmanSocket string, log *slog.Logger) (_ *pipeServer, err error) {
	var podman unix.Stat_t
	if err := unix.Stat(podmanSocket, &podman); err != nil {
		return nil, fmt.Errorf("whose is podman's socket %s: %w", podmanSocket, err)
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
	d := &pipeServer{log: log, dir: own, listener: l, reserved: map[string]*sandboxEnds{}}
	d.served.Go(d.serve)
	return d, nil
}

// removeStaleSockets removes what workers of this user have left that were killed. One that is just being
// made doesn't listen yet, either.
func removeStaleSockets(dir string) {
	sockets, err := filepath.Glob(filepath.Join(dir, socketDirPrefix+"*", socketName))
	if err != nil {
		return // the name of the directory is a bad pattern: nothing is swept there
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

func (d *pipeServer) path() string { return d.listener.Addr().String() }

func (d *pipeServer) close() {
	d.listener.Close()
	d.served.Wait()
	os.RemoveAll(d.dir)
}

// reserve makes the pipes of the next sandbox of a container, and returns our ends of them.
func (d *pipeServer) reserve(container string) (*stream, error) {
	var near [3]*os.File
	far := new(sandboxEnds)
	for i := range near {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			for j := range i {
				near[j].Close()
				unix.Close(far[j])
			}
			return nil, fmt.Errorf("make pipes: %w", err)
		}
		ours, theirs := ends[0], ends[1]
		if i == 0 { // stdin goes the other way
			ours, theirs = theirs, ours
		}
		_ = unix.SetNonblock(ours, true) // can't fail; without it the file would have no deadlines
		near[i], far[i] = os.NewFile(uintptr(ours), "pipe"), theirs
	}
	growPipe(far[1])
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, ok := d.reserved[container]; ok {
		old.close()
	}
	d.reserved[container] = far
	return newStream(near[0], near[1], near[2], func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.reserved[container] == far {
			delete(d.reserved, container)
			far.close()
		}
	}), nil
}

// growPipe makes the pipe on which the agent writes hold all that the worker has granted, so that
// it wakes and is woken seldom. It is only about time: where the user has too much in pipes
// already (fs.pipe-user-pages-soft), it stays as it is.
func growPipe(pipe int) { _, _ = unix.FcntlInt(uintptr(pipe), unix.F_SETPIPE_SZ, 1<<20) }

// claimed reports whether the pipes of a container have been asked for.
func (d *pipeServer) claimed(container string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, reserved := d.reserved[container]
	return !reserved
}

// serve answers until the door is closed.
func (d *pipeServer) serve() {
	var requests errgroup.Group
	requests.SetLimit(maxRequests)
	defer func() { _ = requests.Wait() }() // they return no error
	for {
		c, err := d.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptors, no memory: not at once again
			d.warn(err)
			time.Sleep(warnInterval)
			continue
		}
		requests.Go(func() error {
			if err := d.handle(c); err != nil {
				d.warn(err)
			}
			return nil
		})
	}
}

// warn complains of an asker, unless it just did: who asks is not trusted with the log.
func (d *pipeServer) warn(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.lastWarning) >= warnInterval {
		d.lastWarning = time.Now()
		d.log.Warn("an OCI runtime got no pipes", "error", err)
	}
}

// handle gives the pipes of the container that is asked for, once.
func (d *pipeServer) handle(c *net.UnixConn) error {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return err
	}
	id := make([]byte, 64)
	if _, err := io.ReadFull(c, id); errors.Is(err, io.EOF) {
		return nil // sweepDoors, which only knocked
	} else if err != nil {
		return fmt.Errorf("read for which container: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	far, ok := d.reserved[string(id)]
	if !ok {
		return fmt.Errorf("nobody waits for a sandbox of container %.64q", id)
	}
	delete(d.reserved, string(id))
	defer far.close()
	if _, _, err := c.WriteMsgUnix([]byte{0}, unix.UnixRights(far[:]...), nil); err != nil {
		return fmt.Errorf("give pipes to the OCI runtime: %w", err)
	}
	return nil
}
