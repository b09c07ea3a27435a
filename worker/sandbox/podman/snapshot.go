package podman

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// snapshot is a sandbox as it was when nothing had run in it but what the image preloads: any number
// of sandboxes can go on from there. Its files are in the worker's memory and nowhere else, and
// the kernel lets nobody change them any more (memfd_create(2), F_SEAL_WRITE): not even the user
// who runs the sandboxes, who wrote them and reads them.
type snapshot struct {
	// files are gVisor's: state, list of pages, pages.
	files [3]*os.File
	// digest is the SHA-256 of the three, each behind its length (8 bytes, big-endian), in
	// hexadecimal.
	digest  string
	bytes   int64
	imageID string
	madeOf  string // glovebox-runtime's identity of runsc and of the images
	made    time.Time
	// renewAfter is how old it becomes before it is made anew in a quiet moment.
	renewAfter time.Duration

	mu     sync.Mutex
	closed bool
}

const (
	// checkpointTimeout is how long gVisor may take to write a snapshot.
	checkpointTimeout = time.Minute
	// maxSnapshot is the most that a snapshot may have, bytes; a preloaded Python's has 60 MiB.
	maxSnapshot = 2 << 30
)

// seals let nobody change a file, or undo that.
const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL

// errDropped is why a sandbox can't go on from a snapshot that others were told of.
var errDropped = errors.New("the snapshot is no longer used")

// takeSnapshot makes a sandbox, has it preload its program, and makes a snapshot of that, which ends
// it.
func (p *Sandboxes) takeSnapshot(ctx context.Context, plan plan) (_ *snapshot, err error) {
	w, err := p.startAs(ctx, time.Now(), plan, startMode{becomes: true})
	if err != nil {
		return nil, err
	}
	defer w.close()
	control, err := w.controlConn()
	if err != nil {
		return nil, err
	}
	defer control.Close()
	if err := w.session.AwaitReady(ctx, p.config.StartTimeout); err != nil {
		return nil, err
	}
	if err := w.session.Prepare(plan.preload.request(true), p.config.StartTimeout); err != nil {
		return nil, err
	}
	if failure := w.awaitPreload(ctx); failure != "" {
		return nil, errors.New(failure)
	}
	s := &snapshot{
		imageID: w.image.id, madeOf: w.madeOf, made: time.Now(),
		renewAfter: snapshotAge - snapshotSpread + rand.N(2*snapshotSpread), //nolint:gosec // nothing is to be kept secret by it
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for i, name := range []string{"state", "pages' list", "pages"} {
		if s.files[i], err = memoryFile(name); err != nil {
			return nil, err
		}
	}
	if err := s.checkpoint(ctx, control); err != nil {
		return nil, err
	}
	w.close()
	return s, s.seal()
}

// memoryFile makes a file for a part of a snapshot.
func memoryFile(part string) (*os.File, error) {
	fd, err := unix.MemfdCreate("glovebox-snapshot", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make a file for a snapshot's %s: %w", part, err)
	}
	return os.NewFile(uintptr(fd), part), nil //nolint:gosec // a descriptor
}

// checkpoint has a sandbox write the snapshot, and end.
func (s *snapshot) checkpoint(ctx context.Context, control net.Conn) error {
	const message = `{"method":"containerManager.Checkpoint","arg":{"metadata":{"compression":"none"},"have_pages_file":true}}`
	if err := control.SetDeadline(time.Now().Add(checkpointTimeout)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { control.Close() })()
	if err := sendWith(control, message, s.files[:]...); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	if err := awaitAnswer(control); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	return nil
}

// seal makes the snapshot what it is for good, and knows it by its digest from then on.
func (s *snapshot) seal() error {
	hash := sha256.New()
	for _, f := range s.files {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
			return fmt.Errorf("seal a snapshot's %s: %w", f.Name(), err)
		}
		info, err := f.Stat()
		if err != nil {
			return fmt.Errorf("read a snapshot's %s: %w", f.Name(), err)
		}
		if info.Size() == 0 || s.bytes+info.Size() > maxSnapshot {
			return fmt.Errorf("a snapshot's %s has %d bytes", f.Name(), info.Size())
		}
		s.bytes += info.Size()
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(info.Size()))) //nolint:gosec // not negative
		if _, err := io.Copy(hash, io.NewSectionReader(f, 0, info.Size())); err != nil {
			return fmt.Errorf("read a snapshot's %s: %w", f.Name(), err)
		}
	}
	s.digest = hex.EncodeToString(hash.Sum(nil))
	return nil
}

// open opens the files to be read from their beginning.
func (s *snapshot) open() (files []*os.File, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errDropped
	}
	for _, f := range s.files {
		again, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, fmt.Errorf("open a snapshot's %s: %w", f.Name(), err)
		}
		files = append(files, again)
	}
	return files, nil
}

// close frees the snapshot's memory. Sandboxes that go on from it are not concerned.
func (s *snapshot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, f := range s.files {
		if f != nil {
			f.Close()
		}
	}
}
