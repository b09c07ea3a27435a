package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/job"
)

// stepName is the argv[0] under which the agent starts itself to become the job.
const stepName = "glovebox-agent-step"

// The step's two descriptors beyond the standard streams. Both close with the exec.
const (
	configFD = 3
	reportFD = 4
	// controlFD is kept by a process that is prepared, and by no other.
	controlFD = 5
)

// stepConfig is what the agent tells the step.
type stepConfig struct {
	Argv   []string   `json:"argv"`
	Env    []string   `json:"env"`
	Path   string     `json:"path"`
	Limits job.Limits `json:"limits"`
	Group  string     `json:"group"`
	// Unbounded: the process will give itself the limits of its program.
	Unbounded bool `json:"unbounded"`
}

// stepReport is what the step tells the agent when it could not become the job.
type stepReport struct {
	Message  string `json:"message"`
	ExitCode int    `json:"exit_code"`
	Fault    bool   `json:"fault"` // Glovebox's failure, not the job's
}

// runStep bounds this process, gives up every right, and becomes the program.
func runStep() int {
	runtime.LockOSThread() // credentials and prctl are the thread's, and exec takes this one's
	report := func(r stepReport) int {
		b, err := json.Marshal(r)
		if err == nil {
			_, err = unix.Write(reportFD, b)
		}
		if err != nil {
			return 72
		}
		return 71
	}
	unix.CloseOnExec(configFD)
	unix.CloseOnExec(reportFD)
	var c stepConfig
	b, err := io.ReadAll(os.NewFile(configFD, "config"))
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return report(stepReport{Fault: true, Message: fmt.Sprintf("read step's configuration: %v", err)})
	}
	if err := (group{name: c.Group}).join(); err != nil {
		return report(stepReport{Fault: true, Message: err.Error()})
	}
	if !c.Unbounded {
		if err := bound(c.Limits); err != nil {
			return report(stepReport{Fault: true, Message: err.Error()})
		}
	}
	if err := giveUpRights(); err != nil {
		return report(stepReport{Fault: true, Message: err.Error()})
	}
	if err := refuseCalls(); err != nil {
		return report(stepReport{Fault: true, Message: err.Error()})
	}
	file, err := lookPath(c.Argv[0], c.Path)
	if err == nil {
		if !c.Unbounded {
			if err := boundProcesses(c.Limits.Processes); err != nil {
				return report(stepReport{Fault: true, Message: err.Error()})
			}
		}
		err = syscall.Exec(file, c.Argv, c.Env) // returns only when it fails
	}
	code := 126
	if errors.Is(err, syscall.ENOENT) {
		code = 127
	}
	return report(stepReport{ExitCode: code, Message: fmt.Sprintf("glovebox: %s: %v", c.Argv[0], says(err))})
}

// says puts the two common errors the way shells do.
func says(err error) string {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return "command not found"
	case errors.Is(err, syscall.E2BIG):
		return "argument list too long"
	}
	return err.Error()
}

// bound sets the resource limits. There is none on address space: node and
// scientific Python reserve far more than they use; the agent watches memory instead.
func bound(l job.Limits) error {
	for _, limit := range limitsOf(l) {
		// syscall's, not x/sys's: it also makes exec keep NOFILE as it is set here.
		if err := syscall.Setrlimit(limit.resource, &syscall.Rlimit{Cur: limit.value, Max: limit.value}); err != nil {
			return fmt.Errorf("limit %s: %w", limit.name, err)
		}
	}
	return nil
}

// limit is one of a process's resource limits, by the name that getrlimit has for it.
type limit struct {
	name     string
	resource int
	value    uint64
}

// limitsOf are a program's, but for the number of processes.
func limitsOf(l job.Limits) []limit {
	return []limit{
		{"CORE", unix.RLIMIT_CORE, 0},
		{"FSIZE", unix.RLIMIT_FSIZE, uint64(l.FileMB) << 20},
		{"CPU", unix.RLIMIT_CPU, uint64(l.CPUMS/1000 + 2)}, // for one process; the agent counts them all
		{"NOFILE", unix.RLIMIT_NOFILE, uint64(l.OpenFiles)},
	}
}

// boundProcesses is the last thing before the exec, because the Go runtime ends this
// process when it can't make a thread.
func boundProcesses(n int64) error {
	limit := syscall.Rlimit{Cur: processesOf(n), Max: processesOf(n)}
	if err := syscall.Setrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
		return fmt.Errorf("limit processes: %w", err)
	}
	return nil
}

// processesOf is RLIMIT_NPROC for n processes: the kernel counts those that a user has
// made, and the first is root's.
func processesOf(n int64) uint64 { return uint64(n - 1) }

// giveUpRights makes this thread uid 1000 with nothing that could bring rights back.
func giveUpRights() error {
	for c := uintptr(0); c <= 63; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, syscall.EINVAL) {
			break // beyond the last capability
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	// gVisor has no ambient set before it knows the operation: EINVAL means there is none.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	// Raw calls, because the syscall package's would change every thread of a process
	// that is about to be replaced.
	if _, _, e := syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
		return fmt.Errorf("drop groups: %w", e)
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESGID, jobID, jobID, jobID); e != 0 {
		return fmt.Errorf("set gid: %w", e)
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESUID, jobID, jobID, jobID); e != 0 {
		return fmt.Errorf("set uid: %w", e)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, e := syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); e != 0 {
		return fmt.Errorf("clear capabilities: %w", e)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	unix.Umask(0o022)
	return nil
}

// lookPath finds file in path, as the job would: with its rights, from its directory.
func lookPath(file, path string) (string, error) {
	if strings.Contains(file, "/") {
		return file, nil
	}
	found := error(syscall.ENOENT)
	for _, dir := range strings.Split(path, ":") {
		if dir == "" {
			dir = "."
		}
		candidate := dir + "/" + file
		info, err := os.Stat(candidate)
		if err != nil || info.IsDir() {
			continue
		}
		if err := unix.Access(candidate, unix.X_OK); err != nil {
			found = err
			continue
		}
		return candidate, nil
	}
	return "", found
}
