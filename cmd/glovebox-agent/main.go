// Command glovebox-agent is PID 1 of every sandbox: it receives a job through its
// stdin, runs it as uid 1000, and sends back what the job says and leaves behind
// (package agentwire has the protocol). A program that is to be graded is run on one
// test after another, each time as another user. Anywhere else the agent only prints its
// --version.
//
// It is the only trusted code inside, and the only one with capabilities (SETUID,
// SETGID, SETPCAP, KILL). It takes nothing from its environment, and nothing from its arguments
// in gVisor, accepts no code unless its kernel is gVisor, and gives a job no descriptor but its
// three standard streams. It is not a boundary: gVisor is, and the worker treats every
// frame from here as hostile all the same.
//
// A worker whose operator wants no gVisor starts the agent by itself, in namespaces, and tells it so by
// its arguments: hostkernel.go, and docs/adr/0042-isolation.md.
//
// Start at session.run. fork.go is what happens between the agent and the program, and
// collect.go reads what the job left with the job's own rights.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/internal/version"
)

// init keeps the main goroutine on the main thread, and asUser's from it: /proc/1 shows that thread as the agent.
func init() { runtime.LockOSThread() } //nolint:gochecknoinits // only here is the main goroutine on the main thread for sure

func main() {
	os.Clearenv()
	if asked, asJSON := version.Asked(os.Args[1:]); asked && os.Getpid() != 1 {
		if err := version.Read().Write(os.Stdout, "glovebox-agent", asJSON); err != nil {
			os.Exit(1)
		}
		return
	}
	code := make(chan int)
	go func() { code <- serve() }() // goroutines that wake each other need no other thread for it, as the main one would
	os.Exit(<-code)
}

// serve runs what the worker sends, and returns the exit code.
func serve() (code int) {
	s := newSession(os.Stdin, os.Stdout)
	err := takeArguments(os.Args[1:])
	if err == nil {
		err = s.run()
	}
	if err != nil {
		s.fault(err)
		code = 70
	}
	s.waitForWorker()
	return code
}

// checkSandbox returns the kernel's version. It fails if the agent is not PID 1 of a sandbox.
func checkSandbox() (kernel string, err error) {
	b, err := os.ReadFile("/proc/version")
	if err != nil {
		return "", fmt.Errorf("read kernel version: %w", err)
	}
	kernel = strings.TrimSpace(string(b))
	user := 0
	switch {
	case hostKernel && isGVisor(kernel):
		return "", errors.New("refuse to run: the worker wants no gVisor, and this is one")
	case hostKernel:
		user = jobID
	case !isGVisor(kernel):
		return "", fmt.Errorf("refuse to run: the kernel is not gVisor but %q", agentwire.Printable(kernel, 128))
	}
	if os.Getpid() != 1 || os.Getuid() != user {
		return "", fmt.Errorf("refuse to run as pid %d, uid %d", os.Getpid(), os.Getuid())
	}
	// The collector follows no link: everything that the job leaves would be lost.
	if info, err := os.Lstat(workDir); err != nil || !info.IsDir() {
		return "", fmt.Errorf("refuse to run: %s is no directory but what the image has there", workDir)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return "", fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != 1 {
			return "", errors.New("refuse to run: there is another process")
		}
	}
	return kernel, nil
}

// isGVisor looks for gVisor's mark in the release: "Linux version 4.19.0-gvisor #1 …".
func isGVisor(version string) bool {
	f := strings.Fields(version)
	return len(f) >= 3 && f[0] == "Linux" && f[1] == "version" && strings.HasSuffix(f[2], "-gvisor")
}
