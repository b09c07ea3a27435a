package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/job"
)

const (
	publishInterval = time.Minute
	reapInterval    = 10 * time.Second
	// toldDelay is how long a loop that is told of something waits for more of it: so it runs once a second at most, however often it is told.
	toldDelay = time.Second
	// maxPauseReason bounds the reason of a pause that a beat carries.
	maxPauseReason = 300
	// loopTimeout bounds each run of a background loop, should Podman hang.
	loopTimeout = time.Minute
)

// startLoops starts the background loops: beating, publishing runtimes and keys, removing what
// dead workers left in Podman, and monitoring Podman and S3. They end with ctx, and the monitor
// with accepting: a worker that takes no more jobs has nothing to pause.
func (w *Worker) startLoops(ctx, accepting context.Context) *sync.WaitGroup {
	var loops sync.WaitGroup
	everyOr := func(interval time.Duration, told <-chan struct{}, name string, do func(context.Context) error) {
		loops.Go(func() {
			tick := time.NewTicker(interval)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				case <-told:
					select {
					case <-ctx.Done():
						return
					case <-time.After(toldDelay):
					}
				}
				bounded, cancel := context.WithTimeout(ctx, loopTimeout)
				err := do(bounded)
				cancel()
				if err != nil && ctx.Err() == nil {
					w.Log.Warn("background loop failed, it goes on", "loop", name, "error", err)
				}
			}
		})
	}
	every := func(interval time.Duration, name string, do func(context.Context) error) {
		everyOr(interval, nil, name, do)
	}
	every(fleet.BeatInterval, "beat", w.beat)
	every(fleet.BeatInterval, "obey the operator", w.obey)
	every(fleet.BeatInterval, "keep warm what the operator asks for", w.keepAsked)
	every(fleet.BeatInterval, "follow placements in use", w.followPools)
	everyOr(publishInterval, w.imagesCame, "publish runtimes and key", w.publish)
	every(reapInterval, "reap sandboxes", w.reap)
	loops.Go(func() { w.monitor(accepting) })
	return &loops
}

// beat says that this worker lives and which jobs it runs.
func (w *Worker) beat(ctx context.Context) error {
	w.mu.Lock()
	jobs := make([]string, 0, len(w.active))
	for run := range w.active {
		jobs = append(jobs, run.ID)
	}
	w.mu.Unlock()
	beat := fleet.Worker{ID: w.ID, Host: hostname(), Version: w.Version, Started: processStart, Labels: w.Labels, Only: w.Only, Concurrency: w.Concurrency, Jobs: jobs, Warm: map[string]int{}, WarmRoom: w.warmRoom(), Drained: w.drained.Load()}
	for _, r := range w.Runtimes.List() {
		if n := w.Sandboxes.WarmOf(r.Image()); n > 0 {
			beat.Warm[r.Name] = n
		}
	}
	if why := w.paused(); why != nil {
		beat.Paused = agentwire.Printable(why.Error(), maxPauseReason)
	}
	return w.Records.Fleet.Beat(ctx, beat)
}

// publish says which runtimes and images this worker can run, those that are in Podman's store,
// and with which key it signs results.
func (w *Worker) publish(ctx context.Context) error {
	w.publishing.Lock()
	defer w.publishing.Unlock()
	if w.Signer != nil { // before the first job: no result may have an unknown key
		if err := w.Records.Fleet.PublishKey(ctx, w.Signer.Key()); err != nil {
			return err
		}
	}
	if w.Secrets != nil {
		if err := w.Records.Fleet.PublishSecretsKey(ctx, w.Secrets.Public()); err != nil {
			return err
		}
	}
	list, names, err := w.builtRuntimes(ctx)
	if err != nil {
		return err
	}
	if w.OnRuntimes != nil {
		var built []string
		for _, r := range list {
			built = append(built, r.Image)
		}
		w.OnRuntimes(built)
	}
	images, err := w.images(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 && w.Isolation != job.GVisor {
		return fmt.Errorf("%w: this host has no runtime's command where a sandbox of isolation %s sees it", await.ErrSettings, w.Isolation)
	}
	if len(list) == 0 && len(images) == 0 {
		return fmt.Errorf("%w: no runtime has an image: build them with `glovebox runtimes build`", await.ErrSettings)
	}
	w.mu.Lock()
	w.names, w.sessionsOf = append(names, images...), nil
	for _, r := range list {
		if r.Sessions {
			w.sessionsOf = append(w.sessionsOf, r.Name)
		}
	}
	w.mu.Unlock()
	if err := w.Records.Fleet.PublishLabels(ctx, w.Labels, w.Only); err != nil {
		return err
	}
	if err := w.followPools(ctx); err != nil {
		return err
	}
	if err := w.sayOffers(ctx); err != nil {
		return err
	}
	w.expireWanted()
	if err := w.sessions.serve(w.sessionQueues()); err != nil {
		return err
	}
	if err := w.Records.Fleet.PublishImages(ctx, images); err != nil {
		return err
	}
	return w.Records.Fleet.PublishRuntimes(ctx, list)
}

// reap removes the sandboxes of workers that are dead.
func (w *Worker) reap(ctx context.Context) error {
	var failed error
	absent := map[string]time.Time{} // each time, and without an error in between: an old absence says nothing of now
	n, err := w.Sandboxes.Reap(ctx, func(worker string) bool {
		_, alive, err := w.Records.Fleet.Worker(ctx, worker)
		if err != nil {
			failed = err
			return true // a worker that may live is left alone
		}
		if alive {
			delete(absent, worker)
			delete(w.absent, worker)
			return true
		}
		since, known := w.absent[worker]
		if !known {
			since = time.Now()
		}
		absent[worker] = since
		return !isGone(since)
	})
	if w.absent = absent; failed != nil {
		w.absent = nil
	}
	if n > 0 {
		w.Log.Info("sandboxes of dead workers removed", "count", n)
	}
	return errors.Join(err, failed)
}

// isGone reports whether a worker has been absent for two beats, as seen here: after a
// restart of Redis, every worker is absent until it beats again.
func isGone(since time.Time) bool { return time.Since(since) > 2*fleet.BeatInterval }
