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

func countSockets() (int, error) {
	lines := 0
	for _, list := range socketLists {
		b, err := os.ReadFile(list)
		if err != nil && (!errors.Is(err, os.ErrNotExist) || list == socketLists[0]) {
			return 0, fmt.Errorf("take stock of sockets: %w", err)
		}
		lines += bytes.Count(b, []byte{'\n'})
	}
	return lines, nil
}

// awaitSockets waits until there are no more sockets than there were, and fails with errSockets if there still are.
// What a compile step leaves would be counted as nobody's later, and all tests could talk through it.
func awaitSockets(were int) error {
	for patience := patientFor(settleTime); ; time.Sleep(pollInterval) {
		n, err := countSockets()
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

func takeStock() (stock, error) {
	var s stock
	for _, dir := range scratch {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return s, fmt.Errorf("take stock of %s: %w", dir, err)
		}
		s.free = append(s.free, st.Bfree, st.Ffree)
	}
	var err error
	if s.sockets, err = countSockets(); err != nil {
		return s, err
	}
	s.memory, err = programsMemory()
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

// await waits until there is no more than there was. gVisor frees memory shortly after the file or the
// process that had it; until then it would count as the next run's. Memory alone is not worth a sandbox.
func (s stock) await() error {
	for patience := patientFor(settleTime); ; time.Sleep(pollInterval) {
		now, err := takeStock()
		if err != nil {
			return err
		}
		left, late := now.beyond(s), patience.isOver()
		switch {
		case left != "" && late:
			return fmt.Errorf("a run has left %s", left)
		case left == "" && (late || now.memory <= s.memory+memorySlack):
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
