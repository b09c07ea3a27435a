package podman

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// findProcess opens the sandbox's process, which takes a worker that runs as the Podman user.
// Elsewhere it logs that once, returns nil, and leaves the watch to the agent.
func (s *service) findProcess(ctx context.Context, id string) *process {
	if s.noProcAccess.Load() {
		return nil
	}
	pid, err := s.readPID(id)
	if err != nil && !errors.Is(err, os.ErrPermission) { // it is over, or the file lies elsewhere
		pid, err = s.inspectPID(ctx, id)
	}
	var process *process
	if err == nil {
		process, err = openProcess(pid)
		// The kernel refuses it for a process that is ending, too: that passes with ctx.
		for tries := 0; errors.Is(err, os.ErrPermission) && tries < 50 && sleep(ctx, memoryPoll); tries++ {
			process, err = openProcess(pid)
		}
	}
	if errors.Is(err, os.ErrPermission) && ctx.Err() == nil && s.noProcAccess.CompareAndSwap(false, true) {
		s.log.Warn("sandboxes' memory is watched from inside only: the worker is not the podman user", "error", err)
	}
	if err != nil {
		return nil // it is over: the run finds out
	}
	if !slices.Contains(arguments(pid), id) { // it ended, and another process has its id
		process.close()
		return nil
	}
	return process
}

// readPID reads the id of the sandbox's process where conmon has written it. (Podman tells it,
// too, for some 2 ms of CPU time.)
func (s *service) readPID(id string) (int, error) {
	b, err := os.ReadFile(filepath.Join(s.runRoot, "overlay-containers", id, "userdata", "pidfile"))
	if err != nil {
		return 0, fmt.Errorf("find process: %w", err)
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("find process: pidfile says %.20q", b)
	}
	return pid, nil
}

// inspectPID asks Podman for the id of the sandbox's process.
func (s *service) inspectPID(ctx context.Context, id string) (int, error) {
	c, err := containers.Inspect(s.with(ctx), id, nil)
	if err != nil {
		return 0, fmt.Errorf("find process: %w", err)
	}
	if c.State == nil || c.State.Pid <= 1 {
		return 0, errors.New("find process: podman knows none")
	}
	return c.State.Pid, nil
}

// process is a sandbox as the host sees it. Its directory in /proc is held open, so
// that the id can't come to mean another process.
type process struct {
	proc *os.Root
	host *os.Process // a pidfd
	// file is the name, below proc, of the memory that gVisor gives to its guests. Its
	// mappings are shared by many processes: its blocks are the one true count.
	file string
}

func openProcess(pid int) (*process, error) {
	proc, err := os.OpenRoot("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return nil, fmt.Errorf("open process: %w", err)
	}
	fds, err := proc.Open("fd")
	if err != nil {
		proc.Close()
		return nil, fmt.Errorf("list descriptors: %w", err)
	}
	defer fds.Close()
	names, err := fds.Readdirnames(-1)
	if err != nil {
		proc.Close()
		return nil, fmt.Errorf("list descriptors: %w", err)
	}
	for _, name := range names {
		target, err := proc.Readlink("fd/" + name)
		if err == nil && strings.HasPrefix(target, "/memfd:runsc-memory") {
			host, err := os.FindProcess(pid)
			if err != nil {
				proc.Close()
				return nil, fmt.Errorf("open process: %w", err)
			}
			return &process{proc: proc, host: host, file: "/proc/" + strconv.Itoa(pid) + "/fd/" + name}, nil
		}
	}
	proc.Close()
	return nil, errors.New("find the sandbox's memory: no such descriptor")
}

func (p *process) close() {
	p.proc.Close()
	_ = p.host.Release() // it has no error to tell
}

// kill ends the sandbox. Its memory must just have been read: only while that process lives is
// host certain to be the same.
func (p *process) kill() {
	_ = p.host.Kill() // it may have ended since
}

// memory returns the guests' memory and gVisor's own, bytes.
func (p *process) memory() (int64, error) {
	own, err := p.anonymous() // fails once the process is gone, so comes first
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(p.file)
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("stat the sandbox's memory: no blocks")
	}
	return own + st.Blocks*512, nil
}

// anonymous returns the process's private memory, bytes.
func (p *process) anonymous() (int64, error) {
	f, err := p.proc.Open("status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "RssAnon:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("read status: no RssAnon")
}
