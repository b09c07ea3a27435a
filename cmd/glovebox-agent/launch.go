package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/job"
)

// controlFD is a prepared process's descriptor beside the standard streams. No other has one.
const controlFD = 5

// execFailure says why a program could not be executed, which is the job's own fault.
type execFailure struct {
	message  string
	exitCode int
}

// start makes the program's process. The failure is set if the program could not be
// executed.
func (r *run) start(g group, p pipes) (pid int, _ *execFailure, err error) {
	c, err := r.child(g, p)
	if err != nil {
		refusal, err := r.execFailed(err)
		return 0, refusal, err
	}
	if r.mark != "" {
		procs, err := os.OpenFile(r.mark+"/cgroup.procs", os.O_WRONLY, 0)
		if err != nil {
			return 0, nil, fmt.Errorf("open cgroup: %w", err)
		}
		defer procs.Close()
		c.groups = append(slices.Clone(c.groups), procs.Fd())
	}
	syscall.ForkLock.Lock()
	id, errno := c.fork()
	afterFork()
	syscall.ForkLock.Unlock()
	if errno != 0 {
		return 0, nil, fmt.Errorf("fork: %w", errno)
	}
	switch {
	case c.errno == 0:
		return int(id), nil, nil
	case c.at == stepDirectory && r.dir != "": // the job made it, and may have closed it
		message := fmt.Sprintf("glovebox: the directory can't be entered: %v", c.errno)
		return int(id), &execFailure{message: message, exitCode: 126}, nil
	case c.at != stepExec:
		return 0, nil, fmt.Errorf("start program: %s: %w", stepNames[c.at], c.errno)
	}
	refusal, err := r.execFailed(c.errno)
	return int(id), refusal, err
}

// execFailed turns an errno into a message and an exit code, as shells do. Any other error is the
// agent's own.
func (r *run) execFailed(err error) (*execFailure, error) {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return nil, err
	}
	code, why := 126, errno.Error()
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR:
		code, why = 127, "command not found"
	case syscall.E2BIG:
		why = "argument list too long"
	}
	return &execFailure{message: fmt.Sprintf("glovebox: %s: %s", r.argv[0], why), exitCode: code}, nil
}

// child makes everything that the process needs until its exec. An errno among the errors is the
// job's own fault.
func (r *run) child(g group, p pipes) (*child, error) {
	c := &child{
		streams: [3]uintptr{p.stdin.Fd(), p.jobOut.Fd(), p.jobErr.Fd()},
		control: noControl,
		groups:  g.procs[:],
		dir:     &[]byte(cmp.Or(r.dir, workDir) + "\x00")[0],
		id:      jobID,
		umask:   0o022,
		zero:    &[]byte("0")[0],
		self:    unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3},
	}
	if r.control != nil {
		c.control = r.control.Fd()
	}
	if r.control == nil || r.limitControl { // a prepared process gives itself the limits of its program
		c.limits = limitsOf(r.limits)
	}
	if r.forks {
		c.id = 0
		c.kept[0].Effective = 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID
		c.kept[0].Permitted = c.kept[0].Effective
	}
	if r.testID != 0 { // what a wipe might miss is for nobody else
		c.id, c.umask = r.testID, 0o077
	}
	var err error
	if c.bounding, err = boundingSet(); err != nil {
		return nil, err
	}
	if r.forks { // an exec by root leaves what is not dropped here
		c.bounding = slices.DeleteFunc(slices.Clone(c.bounding), func(capability uintptr) bool {
			return capability == unix.CAP_SETGID || capability == unix.CAP_SETUID
		})
	}
	if c.filter, err = filter(r.noIPC, r.noInternet); err != nil {
		return nil, err
	}
	if hostKernel {
		c.groups, c.keepGroups, c.hostFilter = nil, true, hostFilter()
		boundByHost(c.limits)
	}
	if c.paths, err = syscall.SlicePtrFromStrings(candidates(r.argv[0], r.env["PATH"])); err != nil {
		return nil, err
	}
	c.paths = c.paths[:len(c.paths)-1]
	if c.argv, err = syscall.SlicePtrFromStrings(r.argv); err != nil {
		return nil, err
	}
	c.env, err = syscall.SlicePtrFromStrings(environ(r.env))
	return c, err
}

// candidates returns the paths that execve is to try for file: in the directories of path, in
// their order.
func candidates(file, path string) []string {
	if strings.Contains(file, "/") {
		return []string{file}
	}
	var list []string
	for _, dir := range strings.Split(path, ":") {
		if dir == "" {
			dir = "."
		}
		list = append(list, dir+"/"+file)
	}
	return list
}

// boundingSet returns the capabilities that a program could get back; it loses them all.
var boundingSet = sync.OnceValues(readBoundingSet) //nolint:gochecknoglobals // the process's own, which nothing changes

func readBoundingSet() ([]uintptr, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, fmt.Errorf("read bounding set: %v", err) //nolint:errorlint // an errno would be the program's fault
	}
	_, rest, _ := strings.Cut(string(status), "\nCapBnd:")
	word, _, _ := strings.Cut(rest, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(word), 16, 64)
	if err != nil {
		return nil, fmt.Errorf("parse bounding set: %w", err)
	}
	var list []uintptr
	for c := range uintptr(64) {
		if set&(1<<c) != 0 {
			list = append(list, c)
		}
	}
	return list, nil
}

// limit is one of a process's resource limits, by the name that getrlimit has for it.
type limit struct {
	name     string
	resource uintptr
	value    syscall.Rlimit
}

// limitsOf returns a program's resource limits. There is none on address space unless the job asks for one:
// node and scientific Python reserve far more than they use. The agent watches memory instead.
func limitsOf(l job.Limits) []limit {
	of := func(name string, resource uintptr, value uint64) limit {
		return limit{name, resource, syscall.Rlimit{Cur: value, Max: value}}
	}
	list := []limit{
		of("CORE", unix.RLIMIT_CORE, 0),
		of("FSIZE", unix.RLIMIT_FSIZE, uint64(l.FileMB)<<20),
		of("CPU", unix.RLIMIT_CPU, uint64(l.CPUMS/1000+2)), // for one process; the agent counts them all
		of("NOFILE", unix.RLIMIT_NOFILE, uint64(l.OpenFiles)),
		of("NPROC", unix.RLIMIT_NPROC, uint64(l.Processes-1)), // the kernel counts the processes that a user has made, and the first is root's
	}
	if l.AddressSpaceMB > 0 {
		list = append(list, of("AS", unix.RLIMIT_AS, uint64(l.AddressSpaceMB)<<20))
	}
	if l.StackMB > 0 {
		list = append(list, of("STACK", unix.RLIMIT_STACK, uint64(l.StackMB)<<20))
	}
	return list
}
