package doctor

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// processFloor is the first kernel that counts the processes of each user namespace for itself.
const processFloor = "5.14"

// isolation says what programs here are isolated by, and what that needs.
func (r *report) isolation() {
	if r.Isolation.Or() == job.GVisor {
		r.ok("isolation", "gvisor: each program has a kernel of its own")
		return
	}
	r.warning("isolation", string(r.Isolation)+": programs run on this host's kernel, for code that is trusted; limits are soft", "glovebox dev, without --isolation, for code of anybody")
}

// processNamespaces looks at what keeps a worker from making namespaces where no Podman does it.
func (r *report) processNamespaces() {
	knob := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			return "" // not one of this kernel
		}
		return strings.TrimSpace(string(b))
	}
	switch {
	case knob("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		r.problem("user namespaces", "forbidden to ordinary users", "sysctl -w kernel.unprivileged_userns_clone=1")
	case knob("/proc/sys/user/max_user_namespaces") == "0":
		r.problem("user namespaces", "none allowed", "sysctl -w user.max_user_namespaces=28633")
	case knob("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		r.problem("user namespaces", "AppArmor forbids them to programs without a profile, and glovebox-agent has none",
			"a profile with `userns,` for it, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
	default:
		r.ok("user namespaces", "allowed; the worker says at its start whether it gets all that it needs")
	}
}

// offered says which isolations the workers of an API give, where there is any but gVisor.
func (r *report) offered(list []producer.Runtime) {
	by := map[job.Isolation][]string{}
	for _, l := range list {
		by[l.Isolation.Or()] = append(by[l.Isolation.Or()], l.Name)
	}
	for _, i := range job.Isolations() {
		if names := by[i]; i != job.GVisor && len(names) > 0 {
			slices.Sort(names)
			r.warning("isolation", fmt.Sprintf("%s offers some in isolation %s, for jobs that accept it: %s", r.URL, i, strings.Join(names, ", ")), "")
		}
	}
}
