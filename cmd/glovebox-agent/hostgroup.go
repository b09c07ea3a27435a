package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hostGroup counts a run where there is no gVisor to do so: all processes of the sandbox but the agent are the run's. What it counts it finds in
// /proc, and so some of it late: limits are soft.
type hostGroup struct {
	// before is what all runs had used when this one began.
	before time.Duration
	// preciseAbove is how much memory makes it worth to count pages that processes share once.
	preciseAbove int64
}

// ticks a second, of what /proc/PID/stat counts in.
const ticks = 100

func newHostGroup() (*hostGroup, error) {
	h := &hostGroup{}
	var err error
	h.before, err = h.cpu()
	return h, err
}

// cpu returns the CPU time of the run so far: of processes that have ended, then of the others, so that none is counted twice.
func (h *hostGroup) cpu() (time.Duration, error) {
	var ended syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ended); err != nil {
		return 0, fmt.Errorf("count cpu time: %w", err)
	}
	used, _, err := h.stats()
	return time.Duration(ended.Utime.Nano()+ended.Stime.Nano()) + used - h.before, err
}

func (h *hostGroup) processes() (int64, error) {
	_, threads, err := h.stats()
	return threads, err
}

// stats sums up what /proc/PID/stat says: CPU time, with that of children that were waited for, and threads.
func (h *hostGroup) stats() (used time.Duration, threads int64, err error) {
	err = eachProcess(func(dir string) error {
		b, err := readAll(dir + "/stat")
		if err != nil {
			return err
		}
		f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // behind the name, which may have anything in it
		const state, times, count = 3, 14, 20                // as proc(5) numbers them
		if len(f) <= count-state {
			return nil
		}
		var sum int64
		for _, field := range f[times-state : times-state+4] {
			sum += number(field)
		}
		used += time.Duration(sum) * time.Second / ticks
		threads += number(f[count-state])
		return nil
	})
	return used, threads, err
}

// memory returns what processes hold that is no file of the host's, and what their files do.
func (h *hostGroup) memory() (int64, error) {
	files, err := scratchBytes()
	if err != nil {
		return 0, err
	}
	anonymous, shared, err := sumOfFields("status", "RssAnon:", "RssShmem:")
	if held := anonymous + max(shared, files); err != nil || h.preciseAbove == 0 || held <= h.preciseAbove {
		return held, err
	}
	// What a process has from before its fork was counted for each.
	precise, preciseShared, err := sumOfFields("smaps_rollup", "Pss_Anon:", "Pss_Shmem:")
	return precise + max(preciseShared, files), err
}

// inodeBytes is what a file takes of the kernel's memory besides its content, some.
const inodeBytes = 1 << 10

// scratchBytes is what the files of the run take.
func scratchBytes() (sum int64, err error) {
	for _, dir := range scratch {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return 0, fmt.Errorf("measure the files of %s: %w", dir, err)
		}
		sum += int64(st.Blocks-st.Bfree)*st.Bsize + int64(st.Files-st.Ffree)*inodeBytes
	}
	return sum, nil
}

// sumOfFields sums up two fields, in kB, of a file that each process has.
func sumOfFields(file, first, second string) (a, b int64, err error) {
	err = eachProcess(func(dir string) error {
		n, m, err := fieldsOf(dir+"/"+file, first, second)
		if err != nil { // a program can keep others from reading some, or have no main thread any more
			n, m, err = fieldsOf(dir+"/status", "RssAnon:", "RssShmem:")
		}
		a, b = a+n, b+m
		return err
	})
	return a, b, err
}

func fieldsOf(path, first, second string) (a, b int64, err error) {
	text, err := readAll(path)
	if dir, ok := strings.CutSuffix(path, "/status"); ok && err == nil && !bytes.Contains(text, []byte("\n"+first)) {
		text = statusOfThread(dir, first)
	}
	// A process occupies swapped pages and page tables besides its resident pages.
	return kilobytes(text, first) + kilobytes(text, "VmSwap:") + kilobytes(text, "VmPTE:") + kilobytes(text, "SwapPss:"), kilobytes(text, second), err
}

// statusOfThread is the status of a thread whose process has no main thread any more: that one has no memory, and the others have it all.
func statusOfThread(dir, field string) []byte {
	threads, err := numbersIn(dir + "/task")
	if err != nil {
		return nil // it is gone
	}
	for _, thread := range threads {
		if text, err := readAll(dir + "/task/" + thread + "/status"); err == nil && bytes.Contains(text, []byte("\n"+field)) {
			return text
		}
	}
	return nil
}

func kilobytes(text []byte, field string) int64 {
	_, rest, found := bytes.Cut(text, []byte("\n"+field))
	if f := bytes.Fields(rest); found && len(f) > 0 {
		return number(f[0]) << 10
	}
	return 0 // a process without memory has none of these
}

func number(b []byte) int64 {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// eachProcess calls f with the directory of each process but this one. One that ends meanwhile is passed over.
func eachProcess(f func(dir string) error) error {
	pids, err := numbersIn("/proc")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, pid := range pids {
		if pid == "1" {
			continue
		}
		if err := f("/proc/" + pid); err != nil && !gone(err) {
			return fmt.Errorf("count process %s: %w", pid, err)
		}
	}
	return nil
}

// readAll reads a file of /proc in one call, as it was at one moment.
func readAll(path string) ([]byte, error) {
	fd, err := open(path, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	b := make([]byte, 4096)
	n, err := unix.Read(fd, b)
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}

// ownThreads is how many threads the agent has: the kernel counts them as its user's, as it does the program's.
func ownThreads() int64 {
	threads, err := numbersIn("/proc/self/task")
	if err != nil {
		return 0
	}
	return int64(len(threads))
}
