package sandbox

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

// annotation names, in a container's configuration, the socket where glovebox-runtime gets
// the pipes of each sandbox that it makes for it. (Its pipes.go says the same: it links nothing of ours
// but internal/cgroup.)
const annotation = "run.glovebox.pipes"

// door is the socket of a worker at which the OCI runtime asks for the pipes of a sandbox as
// it makes it: they become its stdin, stdout and stderr. What the sandbox says then comes
// to the worker as it was said, by no other process, and each sandbox has pipes of its own.
//
// Who can connect is Podman's user and group, to whom all sandboxes belong.
type door struct {
	log      *slog.Logger
	dir      string
	listener *net.UnixListener
	served   sync.WaitGroup

	mu      sync.Mutex
	ordered map[string]*farEnds // by container id: of sandboxes that are about to be made
	warned  time.Time           // when an asker was last complained of
}

// farEnds are a sandbox's: its stdin, stdout and stderr.
type farEnds [3]int

func (f *farEnds) close() {
	for _, fd := range f {
		unix.Close(fd)
	}
}

const (
	// askTime is what an OCI runtime may take to say for which container it asks.
	askTime = time.Second
	// doorPrefix begins the name of a door's directory, and doorName is that of its socket.
	doorPrefix = "glovebox-worker-"
	doorName   = "pipes.sock"
	// newDoor is for how long a door that nobody hears may be one that is being made.
	newDoor = time.Minute
	// mostAskers is how many are heard at once; more wait.
	mostAskers = 64
	// warnPause is for how long there is no second complaint of who asks in vain.
	warnPause = time.Second
)

// openDoor makes the socket in a directory of its own below dir, for the group that
// Podman's socket has.
func openDoor(dir, podmanSocket string, log *slog.Logger) (_ *door, err error) {
	var podman unix.Stat_t
	if err := unix.Stat(podmanSocket, &podman); err != nil {
		return nil, fmt.Errorf("whose is podman's socket %s: %w", podmanSocket, err)
	}
	sweepDoors(dir)
	own, err := os.MkdirTemp(dir, doorPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory for a socket: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(own)
		}
	}()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(own, doorName)})
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
	d := &door{log: log, dir: own, listener: l, ordered: map[string]*farEnds{}}
	d.served.Go(d.serve)
	return d, nil
}

// sweepDoors removes what workers of this user have left that were killed. One that is just being
// made doesn't listen yet, either.
func sweepDoors(dir string) {
	sockets, err := filepath.Glob(filepath.Join(dir, doorPrefix+"*", doorName))
	if err != nil {
		return // the name of the directory is a bad pattern: nothing is swept there
	}
	for _, socket := range sockets {
		var stat unix.Stat_t
		if unix.Lstat(socket, &stat) != nil || int(stat.Uid) != os.Getuid() || time.Since(time.Unix(stat.Mtim.Unix())) < newDoor {
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

func (d *door) path() string { return d.listener.Addr().String() }

func (d *door) close() {
	d.listener.Close()
	d.served.Wait()
	os.RemoveAll(d.dir)
}

// order makes the pipes of the next sandbox of a container, and returns our ends of them.
func (d *door) order(container string) (*stream, error) {
	var near [3]*os.File
	far := new(farEnds)
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
	widen(far[1])
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, ok := d.ordered[container]; ok {
		old.close()
	}
	d.ordered[container] = far
	return newStream(near[0], near[1], near[2], func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.ordered[container] == far {
			delete(d.ordered, container)
			far.close()
		}
	}), nil
}

// widen makes the pipe on which the agent writes hold all that the worker has granted, so that
// it wakes and is woken seldom. It is only about time: where the user has too much in pipes
// already (fs.pipe-user-pages-soft), it stays as it is.
func widen(pipe int) { _, _ = unix.FcntlInt(uintptr(pipe), unix.F_SETPIPE_SZ, 1<<20) }

// given reports whether the pipes of a container have been asked for.
func (d *door) given(container string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, waiting := d.ordered[container]
	return !waiting
}

// serve answers until the door is closed.
func (d *door) serve() {
	var askers errgroup.Group
	askers.SetLimit(mostAskers)
	defer func() { _ = askers.Wait() }() // they return no error
	for {
		c, err := d.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptors, no memory: not at once again
			d.warn(err)
			time.Sleep(warnPause)
			continue
		}
		askers.Go(func() error {
			if err := d.answer(c); err != nil {
				d.warn(err)
			}
			return nil
		})
	}
}

// warn complains of an asker, unless it just did: who asks is not trusted with the log.
func (d *door) warn(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.warned) >= warnPause {
		d.warned = time.Now()
		d.log.Warn("an OCI runtime got no pipes", "error", err)
	}
}

// answer gives the pipes of the container that is asked for, once.
func (d *door) answer(c *net.UnixConn) error {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(askTime)); err != nil {
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
	far, ok := d.ordered[string(id)]
	if !ok {
		return fmt.Errorf("nobody waits for a sandbox of container %.64q", id)
	}
	delete(d.ordered, string(id))
	defer far.close()
	if _, _, err := c.WriteMsgUnix([]byte{0}, unix.UnixRights(far[:]...), nil); err != nil {
		return fmt.Errorf("give pipes to the OCI runtime: %w", err)
	}
	return nil
}
