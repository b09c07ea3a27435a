package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sandboxState has the fields of runsc's state file of a sandbox that are read here.
type sandboxState struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	GoferPid int    `json:"goferPid"`
	Spec     struct {
		Annotations map[string]string `json:"annotations"`
		Mounts      []mount           `json:"mounts"`
		Hooks       json.RawMessage   `json:"hooks"`
		Process     struct {
			OOMScoreAdj json.RawMessage `json:"oomScoreAdj"`
		} `json:"process"`
	} `json:"spec"`
	Sandbox *struct {
		ID       string      `json:"id"`
		Pid      int         `json:"pid"`
		Cgroup   savedCgroup `json:"cgroup"`
		Socket   string      `json:"controlSocketPath"`
		Metadata struct {
			Version string `json:"version"`
			Network string `json:"network"`
		} `json:"metricMetadata"`
		MountHints struct {
			Mounts map[string]json.RawMessage `json:"mounts"`
		} `json:"mountHints"`
	} `json:"sandbox"`
	CompatCgroup savedCgroup `json:"compatCgroup"`
	Mounts       []struct {
		Lower int `json:"lower"`
		Upper int `json:"upper"`
	} `json:"goferMountConfs"`
}

// savedCgroup is what runsc keeps of a cgroup that it made; under Glovebox it makes none.
type savedCgroup map[string]json.RawMessage

func (g savedCgroup) none() bool {
	value, unknown := g["cgroupunknown"]
	return unknown && len(g) == 1 && isNull(value)
}

func isNull(value json.RawMessage) bool { return len(value) == 0 || bytes.Equal(value, []byte("null")) }

const (
	// selfOverlay is the first of runsc's kinds of upper layers that may be a file on the
	// host. The kinds before it are: no layer, and memory.
	selfOverlay = 2
	// servedLower is the kind of lower layer that a gofer serves.
	servedLower = 1
)

// stateFile returns the path of runsc's state of the sandbox.
func stateFile(argv []string, id string) string {
	return filepath.Join(stateRoot(argv), id+"_sandbox:"+id+".state")
}

// What runsc calls its two processes of a sandbox.
const (
	sandboxName = "runsc-sandbox"
	goferName   = "runsc-gofer"
)

const (
	// endTimeout is how long a killed process may take to end, on a busy host, and endPause how
	// often that is checked.
	endTimeout = 30 * time.Second
	endPause   = time.Millisecond
)

// errUnusual is why a sandbox is left to runsc.
var errUnusual = errors.New("not a sandbox of the usual kind")

// loadState reads the state of a sandbox of the usual kind: started, alone in its container,
// with nothing of runsc's outside of its own processes and its directory.
func loadState(argv []string, id string) (sandboxState, error) {
	var s sandboxState
	b, err := os.ReadFile(stateFile(argv, id))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, err
	}
	usual := s.ID == id && isNull(s.Spec.Hooks) && s.CompatCgroup.none() &&
		s.Sandbox != nil && s.Sandbox.ID == id && s.Sandbox.Pid > 1 && s.Sandbox.Cgroup.none() && len(s.Sandbox.MountHints.Mounts) == 0
	served := false
	for _, m := range s.Mounts {
		usual = usual && m.Upper < selfOverlay
		served = served || m.Lower == servedLower
	}
	usual = usual && served == (s.GoferPid > 1)
	if socket := filepath.Join(stateRoot(argv), "runsc-"+id+".sock"); usual && s.Sandbox.Socket != "" && s.Sandbox.Socket != socket {
		usual = false // where it would be is runsc's business
	}
	if !usual {
		return s, errUnusual
	}
	return s, nil
}

// killProcess kills a process of a sandbox, if the pid is still that process's, and waits until it
// has ended.
func killProcess(pid int, name, id string, patience time.Duration) error {
	p, err := os.FindProcess(pid) // a descriptor, which can't come to mean another process
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer func() { _ = p.Release() }() // it never fails for one that was found
	if !isProcess(pid, name, id) {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	for deadline := time.Now().Add(patience); isRunning(p); time.Sleep(endPause) {
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d of the sandbox did not end within %s", pid, patience)
		}
	}
	return nil
}

// isRunning reports whether a process has not ended. A zombie has.
func isRunning(p *os.Process) bool {
	f := procStat(p.Pid)
	if len(f) == 0 || p.Signal(syscall.Signal(0)) != nil { // in this order, so that its own file was read
		return false
	}
	return !bytes.HasPrefix(f[0], []byte("Z")) && !bytes.HasPrefix(f[0], []byte("X"))
}

// parentOf returns a process's parent, which for a sandbox is its conmon; 0 if the process has ended.
func parentOf(pid int) int {
	f := procStat(pid)
	if len(f) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(f[1])) // the kernel's
	return parent
}

// procStat returns the fields of /proc/<pid>/stat after the process's name: state, parent and so
// on; none once the process was waited for.
func procStat(pid int) [][]byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
}

// isProcess reports whether pid is the process of this sandbox that runsc calls name. A process
// that has ended has no arguments.
func isProcess(pid int, name, id string) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	argv := strings.Split(string(bytes.TrimRight(b, "\x00")), "\x00")
	return argv[0] == name && slices.Contains(argv, id)
}

// lockState locks a sandbox's state as runsc does, until the file is closed. It fails if another
// process holds the lock.
func lockState(argv []string, id string) (*os.File, error) {
	lock, err := os.Open(strings.TrimSuffix(stateFile(argv, id), ".state") + ".lock")
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock state: %w", err)
	}
	return lock, nil
}

// destroySandbox destroys the sandbox as `runsc delete --force` would, without the start of runsc:
// its processes, and its three files. A sandbox that is unusual in any way is left as it is, and
// the error says so. (runsc's Container.Destroy has more to do only for what loadState refuses:
// cgroups, hooks, overlays in files, mounts that containers share.)
func destroySandbox(argv []string, id string) error {
	s, err := loadState(argv, id)
	if err != nil {
		return err
	}
	lock, err := lockState(argv, id)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := killProcess(s.Sandbox.Pid, sandboxName, id, endTimeout); err != nil {
		return err
	}
	if s.GoferPid > 1 { // there is one
		if err := killProcess(s.GoferPid, goferName, id, endTimeout); err != nil {
			return err
		}
	}
	// The state before the lock: runsc finds the rest by it.
	for _, file := range []string{filepath.Join(stateRoot(argv), "runsc-"+id+".sock"), stateFile(argv, id), lock.Name()} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
