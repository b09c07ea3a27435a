package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// process is what /proc says of one.
type process struct {
	pid, parent int
	command     string
}

// descendants are the processes below pid that live.
func descendants(t *testing.T, pid int) []process {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]process{}
	for _, e := range entries {
		n, err := strconv.Atoi(filepath.Base(e))
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := readProcess(n); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	var all []process
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		for _, c := range children[todo[0]] {
			all, todo = append(all, c), append(todo, c.pid)
		}
	}
	return all
}

// readProcess reads one; one that is gone, or waits for its parent to notice, is none.
func readProcess(pid int) (process, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || bytes.Contains(status, []byte("\nState:\tZ")) {
		return process{}, false
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return process{}, false
	}
	p := process{pid: pid, command: strings.ReplaceAll(string(command), "\x00", " ")}
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "PPid:"); ok {
			p.parent, err = strconv.Atoi(strings.TrimSpace(v))
		}
	}
	return p, err == nil
}
