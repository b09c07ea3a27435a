package podman

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/errorhandling"
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
	// imageAnnotation tells glovebox-runtime (erofs.go) of which image a container is.
	imageAnnotation = "run.glovebox.image"
	// namePrefix is that of every container's name.
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
	created, err := containers.CreateWithSpec(p.with(ctx), p.spec(name, plan, image.id), nil)
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

// spec is the whole of the container: what docs/security.md promises of it is set here.
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
		// the job's. (Podman 4 refuses uid= and gid=.)
		tmpfs("/work", l.DiskMB, "0777"),
		tmpfs("/tmp", l.DiskMB, "1777"),
		tmpfs("/dev/shm", plan.shmMB, "1777"),
	}

	// runsc applies none of these under rootless Podman: glovebox-runtime does, where the
	// host delegates cgroups. The agent's own limits and the worker's never rely on it.
	b := boundsOf(l).starting()
	b.memory += plan.preloadMB() << 20
	s.ResourceLimits = b.resources()
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

// backstop is after how long Podman itself kills the container of a run that ctx bounds.
// A service that dies while it makes a container forgets that it has a sandbox by now,
// which nobody but conmon's clock ends then.
func (p *Sandboxes) backstop(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return p.config.Backstop
	}
	return min(max(time.Until(end), 0)+backstopSlack, p.config.Backstop) // 0 would be never
}

// lateCreate is for how long the service may go on with a creation that was given up.
const lateCreate = 3 * time.Second

// removal is what has to be thought of as a container goes.
type removal struct {
	// retryAfter is after what time it goes once more, because it may not exist yet.
	retryAfter time.Duration
	// unsettled: the service may have died as it made the sandbox.
	unsettled bool
}

// remove destroys the container, now and with force, in the background: nobody waits
// for it but Close. It is tried again until the container is gone; what even that
// leaves, Reap finds.
func (p *Sandboxes) remove(name string, r removal) {
	p.background.Go(func() {
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.active, name)
		}()
		p.removeRetrying(name, r.unsettled)
		if r.retryAfter > 0 && sleep(p.removals, r.retryAfter) {
			p.removeRetrying(name, false)
		}
	})
}

func (p *Sandboxes) removeRetrying(name string, unsettled bool) {
	ctx, cancel := context.WithTimeout(p.removals, time.Minute)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		var err error
		if unsettled {
			err = p.settle(ctx, name)
		}
		if err == nil {
			err = p.removeOnce(ctx, name)
		}
		if err == nil {
			return
		}
		if !sleep(ctx, pause) {
			p.config.Log.Error("remove container", "container", name, "error", err)
			return
		}
	}
}

// sandboxless are the states of a container of which Podman believes that it has no sandbox: as
// good as new, or one whose last has ended.
var sandboxless = map[string]bool{"created": true, "exited": true, "stopped": true}

// settle destroys the sandbox that Podman's service was making for the container as it
// died: no removal would reach it. Our OCI runtime, asked for another, destroys the
// first, then gets no pipes for the second, and makes none. It fails when Podman doesn't
// answer.
func (p *Sandboxes) settle(ctx context.Context, name string) error {
	found, err := containers.Inspect(p.with(ctx), name, nil)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at container %s: %w", name, err)
	}
	if found.State == nil || !sandboxless[found.State.Status] {
		return nil
	}
	err = containers.ContainerInit(p.with(ctx), name, nil)
	var answer *errorhandling.ErrorModel
	if err != nil && !errors.As(err, &answer) {
		return fmt.Errorf("settle container %s: %w", name, err)
	}
	if err != nil && !strings.Contains(err.Error(), refusedPipes) { // it goes as it is
		p.config.Log.Warn("container could not be settled before its removal", "container", name, "error", err)
	}
	return nil
}

// refusedPipes is in what glovebox-runtime says (redirect) where nobody waits for the sandbox that it is to make.
const refusedPipes = "for the pipes of container"

func (p *Sandboxes) removeOnce(ctx context.Context, name string) error {
	options := new(containers.RemoveOptions).WithForce(true).WithIgnore(true).WithTimeout(0).WithVolumes(true)
	reports, err := containers.Remove(p.with(ctx), name, options)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove container %s: %w", name, err)
	}
	for _, r := range reports {
		if r.Err != nil && !isNotFound(r.Err) {
			return fmt.Errorf("remove container %s: %w", name, r.Err)
		}
	}
	return nil
}

func isNotFound(err error) bool {
	var model *errorhandling.ErrorModel
	return errors.As(err, &model) && model.ResponseCode == http.StatusNotFound
}
