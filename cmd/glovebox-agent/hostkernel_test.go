package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestRefusesArguments: whatever it is told, a process that is not the first of a user namespace with one user stays what it is, and its
// kernel has to be gVisor's.
func TestRefusesArguments(t *testing.T) {
	t.Parallel()
	whole := []string{processArgument, "--disk-mb=1", "--shm-mb=1"}
	for _, args := range [][]string{
		whole, whole[:1], whole[:2], append(slices.Clone(whole), "x"),
		{"--isolation=none", "--disk-mb=1", "--shm-mb=1"},
		{processArgument, "--disk-mb=0", "--shm-mb=1"},
		{processArgument, "--disk-mb=-1", "--shm-mb=1"},
		{processArgument, "--disk-mb=1,mode=777", "--shm-mb=1"},
		{processArgument, "--shm-mb=1", "--disk-mb=1"},
		{"x"},
	} {
		if err := takeArguments(args); err == nil || !strings.Contains(err.Error(), "refuse to run") {
			t.Errorf("%q: got %v, want a refusal", args, err)
		}
	}
	if err := takeArguments(nil); err != nil || hostKernel {
		t.Errorf("without arguments: got %v, and the kernel is the host's: %v", err, hostKernel)
	}
}

// TestHostGroup counts this test's own processes, as the agent counts a program's.
func TestHostGroup(t *testing.T) {
	t.Parallel()
	g, err := newHostGroup()
	if err != nil {
		t.Fatal(err)
	}
	processes, err := g.processes()
	if err != nil || os.Getpid() != 1 && processes < 1 {
		t.Errorf("got %d processes, %v", processes, err)
	}
	if _, err := g.cpu(); err != nil { // how much is not known here: processes of others, which no agent has beside it, may end meanwhile
		t.Error(err)
	}
	for text, want := range map[string]int64{"Name:\tx\nRssAnon:\t    12 kB\nRssShmem:\t 3 kB\n": 12 << 10, "Name:\tkernel\n": 0, "\nRssAnon:": 0, "\nRssAnon:\tx kB\n": 0} {
		if got := kilobytes([]byte(text), "RssAnon:"); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}
