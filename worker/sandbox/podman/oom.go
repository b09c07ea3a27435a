package podman

import (
	"context"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// oomTimeout is how long Podman may take to notice that a sandbox has ended.
const oomTimeout = 5 * time.Second

// oomKilled reports whether the host's kernel ended the sandbox for its own memory, and the agent
// with it before its last word. The cgroup knows until it is removed, and Podman from then on, which can't tell whose memory it was for.
func (s *service) oomKilled(ctx context.Context, name string, cgroup *hostCgroup) bool {
	if cgroup == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, oomTimeout)
	defer cancel()
	for {
		if cgroup.OOMKilled() {
			return true
		}
		if cgroup.killedForOthers() {
			return false
		}
		c, err := containers.Inspect(s.with(ctx), name, nil)
		if err != nil || c.State == nil {
			return false
		}
		if c.State.OOMKilled || !c.State.Running || !sleep(ctx, memoryPoll) {
			return c.State.OOMKilled
		}
	}
}
