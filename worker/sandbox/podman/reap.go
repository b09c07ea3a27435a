package podman

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// Reap removes the containers of this instance that nobody uses any more: those of
// workers that are not alive, and those of this worker that no Run here is using (an
// earlier process of the same name left them). It also kills sandboxes that Podman itself
// has forgotten. It returns how many it removed, and goes on after an error.
func (p *Sandboxes) Reap(ctx context.Context, alive func(worker string) bool) (int, error) {
	options := new(containers.ListOptions).WithAll(true).WithFilters(map[string][]string{
		"label": {labelInstance + "=" + p.config.Instance},
	})
	before := p.activeContainers()
	list, err := containers.List(p.service.with(ctx), options)
	if err != nil {
		return 0, fmt.Errorf("list containers: %w", err)
	}
	removed := 0
	var errs []error
	for _, c := range list {
		worker := c.Labels[labelWorker]
		if worker == p.config.Worker {
			// What was in use before the listing and is not now was removed meanwhile.
			if now := p.activeContainers(); slices.ContainsFunc(c.Names, func(name string) bool { return before[name] || now[name] }) {
				continue
			}
		} else if alive(worker) {
			continue
		}
		if sandboxless[c.State] { // its worker and the service may have died at once
			if err := p.service.settle(ctx, c.ID); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if err := p.service.removeOnce(ctx, c.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
		p.config.Log.Info("removed a container that nobody used", "container", c.ID, "worker", worker,
			"job_id", c.Labels[labelJob], "epoch", c.Labels[labelEpoch])
	}
	if p.cgroupParent != "" {
		n, err := p.reapCgroups(ctx)
		removed += n
		errs = append(errs, err)
	}
	n, err := p.reaper.reap(ctx)
	return removed + n, errors.Join(append(errs, err)...)
}

// forgottenAge is how long a sandbox that Podman does not know is left alone: it may be about
// to be made.
const forgottenAge = 2 * time.Minute

// reapCgroups removes the cgroups whose container Podman has forgotten, and ends what runs in
// them: a service that was killed while it made a sandbox knows nothing of it.
func (p *Sandboxes) reapCgroups(ctx context.Context) (int, error) {
	dirs, err := os.ReadDir(p.cgroupParent)
	if err != nil {
		return 0, fmt.Errorf("list cgroups: %w", err)
	}
	var old []string
	for _, dir := range dirs {
		if info, err := dir.Info(); err == nil && dir.IsDir() && time.Since(info.ModTime()) > forgottenAge {
			old = append(old, dir.Name())
		}
	}
	if len(old) == 0 {
		return 0, nil
	}
	// After the cgroups were listed, or one that is being made would be taken for forgotten.
	known, err := p.service.known(ctx)
	if err != nil {
		return 0, err
	}
	removed := 0
	var errs []error
	for _, id := range old {
		if known[id] {
			continue
		}
		if err := removeCgroup(ctx, p.cgroupParent, id); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
		p.config.Log.Info("removed a cgroup whose container podman has forgotten", "container", id)
	}
	return removed, errors.Join(errs...)
}

// activeContainers returns the names of the containers that are in use here now.
func (p *Sandboxes) activeContainers() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.active)
}
