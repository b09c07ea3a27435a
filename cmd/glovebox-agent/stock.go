package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stock counts what a run can leave although it has no name: a socket lives as long as a message to
// itself lies in it, and with it every file that the message carries, its room and its locks. gVisor
// never frees such a circle.
type stock struct {
	free    []uint64 // blocks and inodes of each directory in scratch, in turn
	sockets int
	// memory is what the programs' cgroup counts.
	memory int64
}

const (
	// settleTime is how long a kernel may take to free what processes had that have ended.
	settleTime = time.Second
	// memorySlack is how much more memory than before is not worth waiting for.
	memorySlack = 1 << 20
)

// socketLists list all sockets: with and without a name, and also those that no process holds. There is no
// list where there is no such protocol.
var socketLists = []string{"/proc/net/unix", "/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6"}

// stocktaker takes stock between all tests. Its files stay open: to open and close one costs ten times what it costs to read it.
type stocktaker struct {
	lists []int // of sockets
	// memory returns what the programs' cgroup counts.
	memory func() (int64, error)
	buf    [16 << 10]byte
}

// newStocktaker opens the lists of sockets.
func newStocktaker() (*stocktaker, error) {
	t := &stocktaker{memory: programsMemory}
	for _, list := range socketLists {
		fd, err := open(list, 0)
		switch {
		case errors.Is(err, os.ErrNotExist) && list != socketLists[0]:
		case err != nil:
			return nil, fmt.Errorf("take stock of sockets: %w", err)
		default:
			t.lists = append(t.lists, fd)
		}
	}
	return t, nil
}

func (t *stocktaker) sockets() (int, error) {
	lines := 0
	for _, list := range t.lists {
		n, err := t.lines(list)
		if err != nil {
			return 0, fmt.Errorf("take stock of sockets: %w", err)
		}
		lines += n
	}
	return lines, nil
}

// lines counts the lines of a file that the kernel makes anew when it is read from its beginning.
func (t *stocktaker) lines(fd int) (lines int, err error) {
	for at := int64(0); ; {
		n, err := unix.Pread(fd, t.buf[:], at)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return lines, err
		}
		lines += bytes.Count(t.buf[:n], []byte{'\n'})
		at += int64(n)
		if n < len(t.buf) && !hostKernel { // gVisor hands out all that there is
			return lines, nil
		}
	}
}

// awaitSockets waits until there are no more sockets than there were, and fails with errSockets if there still are.
// What a compile step leaves would be counted as nobody's later, and all tests could talk through it.
func (t *stocktaker) awaitSockets(were int) error {
	for patience := patientFor(settleTime); ; time.Sleep(pollInterval) {
		n, err := t.sockets()
		switch {
		case err != nil:
			return err
		case n <= were:
			return nil
		case patience.isOver():
			return errSockets
		}
	}
}

// errSockets: through sockets that belong to no test, one test could tell the next what it has read.
const errSockets = unfitError("the compile step leaves sockets behind")

func (t *stocktaker) take() (stock, error) {
	var s stock
	for _, dir := range scratch {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return s, fmt.Errorf("take stock of %s: %w", dir, err)
		}
		s.free = append(s.free, st.Bfree, st.Ffree)
	}
	var err error
	if s.sockets, err = t.sockets(); err != nil {
		return s, err
	}
	s.memory, err = t.memory()
	return s, err
}

// programsMemory is what the cgroup counts that all programs have, one after another; 0 before the first.
func programsMemory() (int64, error) {
	if hostKernel { // it gives back at once what a process had
		return 0, nil
	}
	b, err := os.ReadFile(filepath.Join(group{}.dir("memory"), countFiles[memory]))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("take stock of memory: %w", err)
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}

// restore makes all as it was before the run of that user.
func (s *stock) restore(id uintptr, t *stocktaker) error {
	if hostKernel { // there the program's user owns the directories themselves, too
		if err := openUp(scratch...); err != nil {
			return err
		}
	}
	if err := wipeAs(id, scratch...); err != nil {
		return err
	}
	if hostKernel {
		for _, dir := range scratch {
			if err := clearMarks(dir); err != nil {
				return fmt.Errorf("clear what is noted on %s: %w", dir, err)
			}
		}
	}
	return t.await(s)
}

// openUp gives directories the mode that they had, and takes away access control lists: a program
// that keeps everybody out would otherwise have the next run's files fail.
func openUp(dirs ...string) error {
	for _, dir := range dirs {
		for _, list := range []string{"system.posix_acl_access", "system.posix_acl_default"} {
			if err := unix.Removexattr(dir, list); err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP) {
				return fmt.Errorf("remove %s of %s: %w", list, dir, err)
			}
		}
		if err := unix.Chmod(dir, 0o1777); err != nil {
			return fmt.Errorf("open %s up: %w", dir, err)
		}
	}
	return nil
}

// await waits until there is no more than there was. gVisor frees memory shortly after the file or the
// process that had it; until then it would count as the next run's. Memory alone is not worth a sandbox: what is still
// there when it is late has come to stay, and no later run waits for it.
func (t *stocktaker) await(s *stock) error {
	for patience := patientFor(settleTime); ; time.Sleep(pollInterval) {
		now, err := t.take()
		if err != nil {
			return err
		}
		left, late := now.beyond(*s), patience.isOver()
		switch {
		case left != "" && late:
			return fmt.Errorf("a run has left %s", left)
		case left == "" && now.memory <= s.memory+memorySlack:
			return nil
		case left == "" && late:
			s.memory = now.memory
			return nil
		}
	}
}

// awaitFreed waits until the programs' cgroup counts little more than their files, once none of its processes is
// left. What they held would otherwise count against the next one's limit.
func awaitFreed() error {
	for patience := patientFor(settleTime); ; time.Sleep(2 * time.Millisecond) {
		var files int64
		for _, dir := range scratch {
			var st unix.Statfs_t
			if err := unix.Statfs(dir, &st); err != nil {
				return fmt.Errorf("measure the files of %s: %w", dir, err)
			}
			files += int64(st.Blocks-st.Bfree) * st.Bsize
		}
		switch now, err := programsMemory(); {
		case err != nil:
			return err
		case now <= files+memorySlack || patience.isOver():
			return nil
		}
	}
}

// beyond says what there is that was not there, or "".
func (s stock) beyond(was stock) string {
	if s.sockets > was.sockets {
		return fmt.Sprintf("%d sockets", s.sockets-was.sockets)
	}
	for i, free := range s.free {
		if free < was.free[i] {
			return fmt.Sprintf("%d blocks or inodes of %s in use", was.free[i]-free, scratch[i/2])
		}
	}
	return ""
}
