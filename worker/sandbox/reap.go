package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// Reap removes the containers of this instance that nobody uses any more: those of
// workers that are not alive, and those of this worker that no Run here is using (an
// earlier process of the same name left them). It returns how many it removed, and
// goes on after an error.
func (p *Podman) Reap(ctx context.Context, alive func(worker string) bool) (int, error) {
	options := new(containers.ListOptions).WithAll(true).WithFilters(map[string][]string{
		"label": {labelInstance + "=" + p.config.Instance},
	})
	before := p.inUse()
	list, err := containers.List(p.with(ctx), options)
	if err != nil {
		return 0, fmt.Errorf("list containers: %w", err)
	}
	removed := 0
	var errs []error
	for _, c := range list {
		worker := c.Labels[labelWorker]
		if worker == p.config.Worker {
			// What was in use before the listing and is not now was removed meanwhile.
			if now := p.inUse(); slices.ContainsFunc(c.Names, func(name string) bool { return before[name] || now[name] }) {
				continue
			}
		} else if alive(worker) {
			continue
		}
		if c.State == stateCreated { // its worker and the service may have died at once
			if err := p.settle(ctx, c.ID); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if err := p.removeOnce(ctx, c.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
		p.config.Log.Info("removed a container that nobody used", "container", c.ID, "worker", worker,
			"job_id", c.Labels[labelJob], "epoch", c.Labels[labelEpoch])
	}
	return removed, errors.Join(errs...)
}

// inUse are the names of the containers that are in use here now.
func (p *Podman) inUse() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.running)
}
