package podman

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	spec "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/glovebox-run/glovebox/internal/cgroup"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

const (
	// cpuPeriod is the kernel's default, microseconds.
	cpuPeriod = 100_000
	// minCPUs is the least that the agent can do its work with.
	minCPUs = 0.1
	// startCPUs is what a sandbox may use until a job claims it: a start takes the same
	// time whatever the job may use.
	startCPUs = 1.0
)

// bounds are what the host's cgroup lets a whole sandbox use. cmd/glovebox-runtime makes that
// cgroup; the worker adjusts, watches and removes it.
type bounds struct {
	memory int64 // bytes
	pids   int64
	quota  int64 // microseconds of CPU time in each cpuPeriod
}

// boundsOf returns the bounds of a job with these limits.
func boundsOf(l job.Limits) bounds {
	return bounds{
		memory: (l.SandboxMB() + sandbox.CostMB(l)) << 20,
		pids:   4*l.Compile().Processes + 128, // two a process, and as many processes as the agent lets pass
		quota:  int64(max(l.CPUs, minCPUs) * cpuPeriod),
	}
}

// with returns the bounds with so much more memory, MiB.
func (b bounds) with(extraMB int64) bounds {
	b.memory += extraMB << 20
	return b
}

// starting returns the bounds that hold until the job's own are applied.
func (b bounds) starting() bounds {
	b.quota = max(b.quota, int64(startCPUs*cpuPeriod))
	return b
}

// resources returns the bounds in the form in which glovebox-runtime is told them.
func (b bounds) resources() *spec.LinuxResources {
	period := uint64(cpuPeriod)
	return &spec.LinuxResources{
		Memory: &spec.LinuxMemory{Limit: &b.memory},
		Pids:   &spec.LinuxPids{Limit: b.pids},
		CPU:    &spec.LinuxCPU{Period: &period, Quota: &b.quota},
	}
}

// hostCgroup is the host's cgroup of one sandbox, made by glovebox-runtime. Its directory is
// held open, so that the name can't come to mean another.
type hostCgroup struct{ root *os.Root }

func openCgroup(parent, id string) (*hostCgroup, error) {
	root, err := os.OpenRoot(filepath.Join(parent, id))
	if err != nil {
		return nil, fmt.Errorf("open the sandbox's cgroup: %w", err)
	}
	return &hostCgroup{root}, nil
}

func (c *hostCgroup) close() { c.root.Close() }

// files returns the bounds by the cgroup's files that hold them.
func (b bounds) files() map[string]string {
	return map[string]string{
		"memory.max": strconv.FormatInt(b.memory, 10),
		"pids.max":   strconv.FormatInt(b.pids, 10),
		"cpu.max":    fmt.Sprintf("%d %d", b.quota, cpuPeriod),
	}
}

// Bound makes the kernel enforce a job's limits, with so much more memory, MiB.
func (c *hostCgroup) Bound(limits job.Limits, extraMB int64) error {
	return c.apply(boundsOf(limits).with(extraMB))
}

// apply makes the bounds those of the sandbox.
func (c *hostCgroup) apply(b bounds) error {
	for name, value := range b.files() {
		if now, err := c.read(name); err == nil && now == value {
			continue
		}
		if err := c.write(name, value); err != nil {
			return fmt.Errorf("bound the sandbox: %w", err)
		}
	}
	return c.check(b)
}

// check returns nil if the kernel enforces the bounds.
func (c *hostCgroup) check(b bounds) error {
	want := b.files()
	want["memory.oom.group"] = "1" // half a sandbox would be left
	want["memory.swap.max"] = "0"  // memory.max would be no limit
	for name, value := range want {
		now, err := c.read(name)
		if errors.Is(err, fs.ErrNotExist) && name == "memory.swap.max" && !cgroup.Swaps() {
			continue // the kernel doesn't account for swap, and there is none
		}
		if err != nil {
			return fmt.Errorf("check the sandbox's bounds: %w", err)
		}
		if now != value {
			return fmt.Errorf("check the sandbox's bounds: %s is %q, want %q", name, now, value)
		}
	}
	if events, err := c.read("cgroup.events"); err != nil || !strings.Contains(events, "populated 1") {
		return errors.Join(errors.New("check the sandbox's bounds: nothing is in its cgroup"), err)
	}
	return nil
}

func (c *hostCgroup) read(name string) (string, error) {
	b, err := c.root.ReadFile(name)
	return strings.TrimSpace(string(b)), err
}

func (c *hostCgroup) write(name, value string) error {
	f, err := c.root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// OOMKilled reports whether the kernel ended the sandbox because it came to its own limit. It can't tell
// once the cgroup is removed.
func (c *hostCgroup) OOMKilled() bool {
	e := c.memoryEvents()
	return e.killed() && e["oom"] != "0"
}

// killedForOthers reports whether the kernel ended the sandbox as the host, or a cgroup above, was out of memory: that counts as a kill (oom_kill), and
// not as a limit that was reached (oom), see the kernel's admin-guide/cgroup-v2.rst.
func (c *hostCgroup) killedForOthers() bool {
	e := c.memoryEvents()
	return e.killed() && e["oom"] == "0"
}

// reachedLimit reports whether the kernel refused the sandbox memory, or may have. Conmon notes
// that for its container, and Podman never takes the note back.
func (c *hostCgroup) reachedLimit() bool {
	e := c.memoryEvents()
	return e["oom"] != "0" || e["oom_kill"] != "0"
}

// memoryEvents are the counters of memory.events by their names.
type memoryEvents map[string]string

// killed reports whether any of the kernel's OOM killers ended something in the cgroup.
func (e memoryEvents) killed() bool { return e["oom_kill"] != "" && e["oom_kill"] != "0" }

// memoryEvents reads all counters at once. There are none if they can't be read.
func (c *hostCgroup) memoryEvents() memoryEvents {
	text, err := c.read("memory.events")
	if err != nil {
		return nil
	}
	events := memoryEvents{}
	for line := range strings.Lines(text) {
		name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		events[name] = n
	}
	return events
}

const (
	cgroupPoll = 100 * time.Millisecond
	// cgroupMargin is how near to its bound a sandbox counts as one that has reached it.
	cgroupMargin = 2 << 20
)

// watch ends the sandbox when its memory comes to memory.max, after calling over with how much
// that is; it returns then, or when ctx ends. The kernel would end the sandbox, too, but takes
// back the pages of its programs first, again and again, as long as one of them is read: for
// seconds on a fast disk, for minutes on a slow one. wait waits between two looks.
func (c *hostCgroup) watch(ctx context.Context, wait func(context.Context, time.Duration) bool, over func(held int64)) {
	for wait(ctx, cgroupPoll) {
		most, err := c.read("memory.max")
		if err != nil {
			return // it is removed
		}
		limit, err := strconv.ParseInt(most, 10, 64)
		if err != nil {
			return // "max", which no worker writes
		}
		held, err := c.unreclaimable()
		if err != nil {
			return
		}
		if held > limit-cgroupMargin {
			over(held)
			c.kill() //nolint:errcheck // the removal of its container ends it, too
			return
		}
	}
}

// unreclaimable returns the memory, bytes, that the kernel can't take back from the sandbox.
func (c *hostCgroup) unreclaimable() (int64, error) {
	stat, err := c.read("memory.stat")
	if err != nil {
		return 0, err
	}
	var held int64
	for line := range strings.Lines(stat) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch name {
		case "anon", "shmem", "slab_unreclaimable", "kernel_stack", "pagetables":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read memory.stat: %w", err)
			}
			held += n
		}
	}
	return held, nil
}

// kill ends whatever is in the cgroup, where the kernel can (Linux 5.14).
func (c *hostCgroup) kill() error {
	if err := c.write("cgroup.kill", "1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end what is left in the cgroup: %w", err)
	}
	return nil
}

// removeTries is how often the reaper tries, in one pass, to remove a cgroup whose processes
// were killed.
const removeTries = 10

// removeCgroup ends what is left in a cgroup and removes it.
func removeCgroup(ctx context.Context, parent, id string) error {
	c, err := openCgroup(parent, id)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.kill(); err != nil {
		return err
	}
	for range removeTries {
		if err = os.Remove(filepath.Join(parent, id)); err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !sleep(ctx, memoryPoll) {
			break
		}
	}
	return fmt.Errorf("remove cgroup: %w", err)
}
