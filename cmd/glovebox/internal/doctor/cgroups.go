package doctor

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/glovebox-run/glovebox/internal/cgroup"
)

const (
	// hostSetup is the fix for whatever a production worker host lacks.
	hostSetup = "infra/worker-host.sh, where jobs come from strangers"
)

// service is a Podman service that runs on this machine.
type service struct {
	pid int
	// cgroup is the path of its cgroup of version 2, below the mount; "" without one.
	cgroup string
}

// cgroups looks whether the running services of the Podman user can bound sandboxes. It is
// the worker's self-test that proves it.
func (r *report) cgroups(version string, services []service) {
	const soft = "limits are soft, the agent and the worker watch each sandbox"
	switch {
	case version != "v2":
		r.warning("cgroups", version+": "+soft, "boot with systemd.unified_cgroup_hierarchy=1")
	case len(services) == 0:
		r.warning("cgroups", "v2, but no Podman service of "+r.PodmanUser+" runs that could be looked at",
			"start a worker (systemctl start glovebox-worker), then look again")
	}
	if version != "v2" {
		return
	}
	for _, s := range services {
		leaves, missing := delegated(cgroup.Mount, s.cgroup)
		switch {
		case leaves == "":
			r.warning("cgroups", fmt.Sprintf("v2, but none is delegated to the Podman service (process %d): %s", s.pid, soft), hostSetup)
		case len(missing) > 0:
			r.warning("cgroups", fmt.Sprintf("v2, but %s lacks %s: sandboxes can't be made", leaves, strings.Join(missing, ", ")),
				"Delegate=cpu memory pids in the Podman service's unit")
		default:
			r.ok("cgroups", "v2: limits are hard, each sandbox has a cgroup in "+leaves)
		}
	}
}

// delegated returns where a service with this cgroup makes those of its sandboxes, and the
// controllers that are missing there. Nothing is delegated where leaves is "".
func delegated(mount, path string) (leaves string, missing []string) {
	for dir := filepath.Join(mount, path); len(dir) > len(mount); dir = filepath.Dir(dir) {
		leaves = filepath.Join(dir, cgroup.Parent)
		handedDown, err := os.ReadFile(filepath.Join(leaves, "cgroup.subtree_control"))
		if err != nil {
			continue // not this one
		}
		for _, c := range []string{"cpu", "memory", "pids"} {
			if !slices.Contains(strings.Fields(string(handedDown)), c) {
				missing = append(missing, c)
			}
		}
		return leaves, missing
	}
	return "", nil
}

// services are the Podman services of the Podman user, one for each cgroup: a rootless one
// is two processes.
func (r *report) services() []service {
	account, err := user.Lookup(r.PodmanUser)
	if err != nil {
		return nil // r.subordinateIDs says so
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil // only for a bad pattern
	}
	var found []service
	for _, dir := range processes {
		info, err := os.Stat(dir)
		if err != nil {
			continue // it has ended
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || strconv.FormatUint(uint64(st.Uid), 10) != account.Uid {
			continue
		}
		argv, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !isService(argv) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue // no process
		}
		path, err := cgroup.Of(filepath.Join(dir, "cgroup"))
		if err != nil {
			continue // it has ended
		}
		s := service{pid, path}
		if !slices.ContainsFunc(found, func(f service) bool { return f.cgroup == s.cgroup }) {
			found = append(found, s)
		}
	}
	return found
}

// isService reports whether a command line, as /proc has it, is `podman system service`.
func isService(cmdline []byte) bool {
	argv := bytes.Split(cmdline, []byte{0})
	return len(argv) > 2 && filepath.Base(string(argv[0])) == "podman" && string(argv[1]) == "system" && string(argv[2]) == "service"
}
