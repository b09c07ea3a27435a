package podman

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/specgen"
	spec "github.com/opencontainers/runtime-spec/specs-go"
	"go.podman.io/image/v5/manifest"
)

// The labels by which a reaper knows what is whose.
const (
	labelInstance = "run.glovebox.instance"
	labelWorker   = "run.glovebox.worker"
	labelJob      = "run.glovebox.job"
	labelEpoch    = "run.glovebox.epoch"
)

const (
	agentInside = "/glovebox-agent"
	// imageAnnotation tells glovebox-runtime (erofs.go) the image of a container.
	imageAnnotation = "run.glovebox.image"
	// namePrefix begins every container's name.
	namePrefix = "glovebox-"
)

// create makes a container, whose name is in use until remove.
func (p *Sandboxes) create(ctx context.Context, plan plan, image image) (container, error) {
	name := namePrefix + rand.Text()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return container{}, errors.New("create container: closed")
	}
	// Before the container exists, so that no Reap takes it for a dead worker's.
	p.active[name] = true
	p.mu.Unlock()
	created, err := containers.CreateWithSpec(p.service.with(ctx), p.spec(name, plan, image.id), nil)
	if err != nil {
		p.remove(name, removal{retryAfter: lateCreate}) //nolint:contextcheck // a container goes whatever became of its run
		return container{}, fmt.Errorf("create container: %w", err)
	}
	if !containerID.MatchString(created.ID) { // it will be part of a path
		p.remove(name, removal{}) //nolint:contextcheck // as above
		return container{}, fmt.Errorf("create container: podman calls it %.80q, which is no id", created.ID)
	}
	return container{name: name, id: created.ID, image: image, plan: plan}, nil
}

// spec describes the whole container: what docs/security.md promises of it is set here.
func (p *Sandboxes) spec(name string, plan plan, imageID string) *specgen.SpecGenerator {
	l := plan.limits
	s := specgen.NewSpecGenerator(imageID, false)
	yes, no := true, false
	stopTimeout := uint(0)
	kill := syscall.SIGKILL

	s.Name = name
	s.Labels = map[string]string{
		labelInstance: p.config.Instance,
		labelWorker:   p.config.Worker,
		labelJob:      plan.jobID,
		labelEpoch:    strconv.Itoa(plan.epoch),
	}
	s.Annotations = map[string]string{pipesAnnotation: p.pipes.path(), imageAnnotation: imageID}
	// The agent, and nothing of the image's: no entry point, command, user, working
	// directory, environment, volume, health check or stop signal.
	s.Entrypoint = []string{agentInside}
	s.User = "0:0"
	s.WorkDir = "/"
	s.Env = map[string]string{}
	s.UnsetEnvAll = &yes
	s.EnvHost = &no
	s.HTTPProxy = &no
	s.ImageVolumeMode = "ignore"
	s.HealthConfig = &manifest.Schema2HealthConfig{Test: []string{"NONE"}}
	s.Systemd = "false"
	s.Terminal = &no
	s.LogConfiguration = &specgen.LogConfig{Driver: "none"}
	s.StopTimeout = &stopTimeout
	s.StopSignal = &kill
	s.Timeout = uint(plan.backstop / time.Second)

	s.Hostname = "glovebox"
	s.NetNS = specgen.Namespace{NSMode: specgen.NoNetwork}
	s.IpcNS = specgen.Namespace{NSMode: specgen.None} // otherwise /dev/shm is a directory of the host
	s.UseImageHosts = &yes                            // no hosts file, no resolv.conf, no passwd made for it
	s.UseImageResolvConf = &yes
	s.Passwd = &no

	s.CapDrop = []string{"all"}
	s.CapAdd = []string{"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL"}
	s.NoNewPrivileges = &yes
	// runsc applies no profile (its own filter holds the sandbox, and the agent's the job),
	// and Podman's would be more than half of what each of its processes has to parse.
	s.SeccompProfilePath = "unconfined"
	s.ReadOnlyFilesystem = &yes
	s.ReadWriteTmpfs = &no
	s.Mounts = []spec.Mount{
		{
			Destination: agentInside, Type: "bind", Source: p.config.Agent,
			Options: []string{"bind", "ro", "nosuid", "nodev"},
		},
		// The directory is root's, so that its mode stays what it is; what is in it is
		// the job's. (Podman 4 refuses uid= and gid=.) The sticky bit keeps a run from leaving
		// extended attributes on the directory itself: gVisor asks for its owner then.
		tmpfs("/work", l.DiskMB, "1777"),
		tmpfs("/tmp", l.DiskMB, "1777"),
		tmpfs("/dev/shm", plan.shmMB, "1777"),
	}

	// runsc applies none of these under rootless Podman: glovebox-runtime does, where the
	// host delegates cgroups. The agent's own limits and the worker's never rely on it.
	s.ResourceLimits = boundsOf(l).with(plan.preloadMB()).starting().resources()
	return s
}

func tmpfs(path string, sizeMB int64, mode string) spec.Mount {
	return spec.Mount{
		Destination: path, Type: "tmpfs", Source: "tmpfs",
		Options: []string{"rw", "nosuid", "nodev", "notmpcopyup", fmt.Sprintf("size=%dm", sizeMB), "mode=" + mode},
	}
}

// backstopSlack is how long a container may outlive its run before Podman kills it.
const backstopSlack = time.Minute

// backstop is how long the container of a run that ctx bounds may live before Podman itself
// kills it. A service that dies while it makes a container forgets that the container has a
// sandbox by now; only conmon's clock ends that one.
func (p *Sandboxes) backstop(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return p.config.Backstop
	}
	return min(max(time.Until(end), 0)+backstopSlack, p.config.Backstop) // never 0, which means no end
}
