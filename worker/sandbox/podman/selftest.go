package podman

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"

	"github.com/glovebox-run/glovebox/internal/cgroup"
	"github.com/glovebox-run/glovebox/job"
)

// testTimeout bounds the self-test.
const testTimeout = time.Minute

// Enforcement says what enforces the limits of sandboxes.
type Enforcement struct {
	// Hard: the host's kernel bounds every sandbox. Otherwise the agent and the worker watch.
	Hard bool
	// Reason says why limits are not hard, and what to do about it.
	Reason string
}

// SelfTest starts a sandbox and finds out whether its kernel is gVisor's, and whether the
// host's kernel enforces the limits that the sandbox was made with, and those that they are
// changed to. Call it once, before the first Run, which relies on it: where limits are hard, a
// program whose sandbox the kernel doesn't bound is not run.
//
// An error says that no sandbox can be started.
func (p *Sandboxes) SelfTest(ctx context.Context, imageName string) (Enforcement, error) {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	e, err := p.selfTest(ctx, imageName)
	if err != nil {
		return Enforcement{}, fmt.Errorf("test a sandbox: %w", err)
	}
	return e, nil
}

func (p *Sandboxes) selfTest(ctx context.Context, imageName string) (Enforcement, error) {
	// Figures that nobody else would ask for.
	limits := job.Limits{MemoryMB: 61, Processes: 13, CPUs: 1.3}.Filled(job.Limits{})
	w, err := p.start(ctx, time.Now(), plan{image: imageName, limits: limits, shmMB: limits.MemoryMB, jobID: "self-test", backstop: p.backstop(ctx)}, nil)
	if err != nil {
		return Enforcement{}, err
	}
	defer w.close()
	if err := w.session.AwaitReady(ctx, testTimeout); err != nil {
		return Enforcement{}, err
	}
	return p.enforcement(ctx, w.id, boundsOf(limits))
}

// enforcement checks the running sandbox id, which was made with the bounds asked.
func (p *Sandboxes) enforcement(ctx context.Context, id string, asked bounds) (Enforcement, error) {
	c, err := containers.Inspect(p.service.with(ctx), id, nil)
	if err != nil || c.State == nil || c.State.Pid <= 0 {
		return Enforcement{}, errors.Join(errors.New("the sandbox ended by itself"), err)
	}
	path, err := cgroup.Of(fmt.Sprintf("/proc/%d/cgroup", c.State.Pid))
	if err != nil {
		return Enforcement{}, err
	}
	parent := filepath.Join(cgroup.Mount, filepath.Dir(path))
	if filepath.Base(parent) != cgroup.Parent || filepath.Base(path) != id {
		return Enforcement{Reason: fmt.Sprintf("no cgroup of version 2 is delegated to the Podman service (its sandboxes are in %q): "+
			"infra/worker-host.sh sets that up", path)}, nil
	}
	l, err := openCgroup(parent, id)
	if err != nil {
		return Enforcement{Reason: err.Error()}, nil
	}
	defer l.close()
	err = l.check(asked.starting())
	if err == nil {
		err = l.apply(boundsOf(job.Limits{MemoryMB: 67, Processes: 17, CPUs: 0.7}.Filled(job.Limits{})))
	}
	if err != nil {
		return Enforcement{Reason: err.Error()}, nil
	}
	p.cgroupParent = parent
	return Enforcement{Hard: true}, nil
}
