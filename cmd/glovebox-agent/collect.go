package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

// collector sends what the job left in its directory. It runs with the job's rights
// and after the job's last process, so that nothing changes while it reads.
type collector struct {
	root   string
	limits job.Limits
	inputs map[string]sum
	send   *session
	// sums, if set, gets what identifies each file that is there.
	sums map[string]sum

	sent    int64
	bytes   int64
	skipped int
	// read is how much of given files was read to see whether they have changed: at most what the directory can hold, as files with
	// holes can be read for hours.
	read int64
}

// run collects, and sends End.
func (c *collector) run() error {
	if err := c.collect(); err != nil {
		return err
	}
	return c.send.out.WriteJSON(agentwire.TypeEnd, agentwire.End{SkippedTotal: c.skipped})
}

// quickRead is how many bytes can be read within a few milliseconds.
const quickRead = 1 << 20

// collect sends the artifacts in the order of their names, and says what it skips.
func (c *collector) collect() error {
	entries, err := walk(c.root)
	if err != nil {
		return fmt.Errorf("collect artifacts: %w", err)
	}
	size := int64(0)
	for _, e := range entries {
		size += e.size
	}
	if size > quickRead { // what is held is told before, as the worker's clock for the program runs until then
		if err := c.send.out.Release(); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if err := c.file(e); err != nil {
			return fmt.Errorf("collect artifact %q: %w", agentwire.Printable(e.name, 100), err)
		}
	}
	return nil
}

func (c *collector) file(e entry) error {
	if e.problem != "" {
		return c.skip(e.name, e.problem)
	}
	if given, ok := c.inputs[e.name]; ok && given.size == e.size && c.read+e.size <= c.limits.DiskMB<<20 {
		c.read += e.size
		now, err := sumOf(c.root, e)
		if err == nil && now == given {
			c.note(e.name, now)
			return nil // an input that was not changed
		}
	}
	switch {
	case e.size > c.limits.ArtifactMB<<20:
		return c.skip(e.name, fmt.Sprintf("is larger than limits.artifact_mb (%d bytes)", e.size))
	case c.sent >= c.limits.Artifacts:
		return c.skip(e.name, fmt.Sprintf("is beyond limits.artifacts (%d)", c.limits.Artifacts))
	}
	// Holes take no room in the directory, but they would in the store.
	if c.bytes+e.size > c.limits.DiskMB<<20 {
		return c.skip(e.name, fmt.Sprintf("is beyond limits.disk_mb (%d), with the files before it", c.limits.DiskMB))
	}
	f, err := openBeneath(c.root, e)
	if err != nil {
		return c.skip(e.name, "can't be read: "+withoutPath(err))
	}
	defer f.Close()
	c.sent++
	c.bytes += e.size
	if err := c.send.out.WriteJSON(agentwire.TypeArtifactBegin, agentwire.ArtifactBegin{Name: e.name, Size: e.size}); err != nil {
		return err
	}
	for left := e.size; left > 0; {
		n, err := c.send.takeCredit(int(min(left, maxBatch)))
		if err != nil {
			return err
		}
		if err := c.send.out.WriteFrom(agentwire.TypeArtifactData, n, func(to [][]byte) error { return readFull(f, to) }); err != nil {
			return err
		}
		left -= int64(n)
	}
	if c.sums != nil {
		now, err := sumOf(c.root, e)
		if err != nil {
			return err
		}
		c.note(e.name, now)
	}
	return c.send.out.Write(agentwire.TypeArtifactEnd, nil)
}

// maxBatch is how much of a file is read, and written, at once. A system call costs more, in
// gVisor, than to copy some hundred KiB.
const maxBatch = 512 << 10

// readFull fills the buffers from f.
func readFull(f *os.File, to [][]byte) error {
	for len(to) > 0 {
		n, err := unix.Readv(int(f.Fd()), to)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		for len(to) > 0 && n >= len(to[0]) {
			n -= len(to[0])
			to = to[1:]
		}
		if n > 0 {
			to[0] = to[0][n:]
		}
	}
	return nil
}

func (c *collector) note(name string, s sum) {
	if c.sums != nil {
		c.sums[name] = s
	}
}

func (c *collector) skip(name, reason string) error {
	if c.skipped++; c.skipped > job.MaxSkipped {
		return nil // counted, and reported in End
	}
	return c.send.out.WriteJSON(agentwire.TypeSkipped, agentwire.Skipped{
		Name: agentwire.Printable(name, job.MaxName), Reason: reason,
	})
}

func sumOf(root string, e entry) (sum, error) {
	f, err := openBeneath(root, e)
	if err != nil {
		return sum{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return sum{}, err
	}
	s := sum{size: n}
	copy(s.sha256[:], h.Sum(nil))
	return s, nil
}

// openBeneath opens a file without following a link in any part of its name.
func openBeneath(root string, e entry) (*os.File, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { unix.Close(dir) }()
	name := []byte(e.name)
	for {
		i := bytes.IndexByte(name, '/')
		if i < 0 {
			break
		}
		next, err := unix.Openat(dir, string(name[:i]), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		unix.Close(dir)
		dir, name = next, name[i+1:]
	}
	fd, err := unix.Openat(dir, string(name), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if problem := kindProblem(st.Mode, uint64(st.Nlink)); problem != "" || st.Size != e.size { //nolint:unconvert // it is 32 bits wide on arm64
		unix.Close(fd)
		return nil, errors.New("it changed")
	}
	return os.NewFile(uintptr(fd), e.name), nil
}

// withoutPath returns an error's text without the path that os adds to it.
func withoutPath(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return err.Error()
}
