package podman

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/errorhandling"
)

// lateCreate is how long the service may go on with a creation that was given up.
const lateCreate = 3 * time.Second

// removal says what is special about the removal of a container.
type removal struct {
	// retryAfter is the delay before the container is removed a second time, as it may not
	// exist yet; 0: once is enough.
	retryAfter time.Duration
	// unsettled: the service may have died while it made the sandbox.
	unsettled bool
}

// remove destroys the container, now and with force, in the background: only Close waits for
// that. It is tried again until the container is gone; Reap finds what even that leaves.
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

// removeRetrying removes the container, and tries again for a minute.
func (p *Sandboxes) removeRetrying(name string, unsettled bool) {
	ctx, cancel := context.WithTimeout(p.removals, time.Minute)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		var err error
		if unsettled {
			err = p.service.settle(ctx, name)
		}
		if err == nil {
			err = p.service.removeOnce(ctx, name)
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

// sandboxless are the states in which a container has no sandbox, as far as Podman knows: it is
// as good as new, or its last sandbox has ended.
var sandboxless = map[string]bool{"created": true, "exited": true, "stopped": true}

// settle destroys the sandbox that Podman's service was making for the container when it
// died, which no removal would reach. It has Podman ask our OCI runtime for another: that
// destroys the first, gets no pipes for the second, and makes none. settle fails when Podman
// doesn't answer.
func (s *service) settle(ctx context.Context, name string) error {
	found, err := containers.Inspect(s.with(ctx), name, nil)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("inspect container %s: %w", name, err)
	}
	if found.State == nil || !sandboxless[found.State.Status] {
		return nil
	}
	err = containers.ContainerInit(s.with(ctx), name, nil)
	var answer *errorhandling.ErrorModel
	if err != nil && !errors.As(err, &answer) {
		return fmt.Errorf("settle container %s: %w", name, err)
	}
	if err != nil && !strings.Contains(err.Error(), refusedPipes) { // it is removed as it is
		s.log.Warn("container could not be settled before its removal", "container", name, "error", err)
	}
	return nil
}

// refusedPipes is a part of what glovebox-runtime says (useWorkerPipes) when nobody waits for the
// sandbox that it is to make.
const refusedPipes = "for the pipes of container"

// removeOnce removes the container; a missing one is no error.
func (s *service) removeOnce(ctx context.Context, name string) error {
	options := new(containers.RemoveOptions).WithForce(true).WithIgnore(true).WithTimeout(0).WithVolumes(true)
	reports, err := containers.Remove(s.with(ctx), name, options)
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
