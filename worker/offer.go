package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// wantedTTL is how long after the last one a worker serves jobs that others handed over because
// they lack a runtime or image.
const wantedTTL = time.Hour

// handOver gives a job whose runtime or image this worker doesn't offer to workers that do.
func (w *Worker) handOver(life context.Context, run queue.Run, e *record.NotOfferedError) error {
	log := w.Log.With("job_id", run.ID, "epoch", run.Epoch, "wants", e.Name)
	told, err := w.Records.HandOver(life, run, e)
	if err != nil {
		log.Warn("job is not for this worker and could not be handed over, its task comes back", "error", err)
		return err
	}
	w.Metrics.Lacked(told)
	if told {
		log.Debug("job handed over to workers that offer what it needs")
	} else {
		log.Warn("job waits: no worker offers its runtime or image")
	}
	return nil
}

// serveWanted starts to take the jobs that other workers hand over because they lack the runtime
// or image of that name.
func (w *Worker) serveWanted(name string) {
	switch name {
	case fleet.PoolsOffer:
		w.lookForPools()
		return
	case fleet.ImagesOffer:
		select {
		case w.imagesCame <- struct{}{}:
		default: // it is about to look
		}
		return
	}
	w.mu.Lock()
	_, known := w.wanted[name]
	w.wanted[name] = time.Now()
	w.mu.Unlock()
	if known {
		return
	}
	w.Log.Info("worker also takes jobs that others lack the runtime or image for", "worker", w.ID, "name", name)
	w.restartConsumer()
}

// expireWanted stops serving the names for which no job has come for wantedTTL.
func (w *Worker) expireWanted() {
	w.mu.Lock()
	before := len(w.wanted)
	for name, last := range w.wanted {
		if time.Since(last) > wantedTTL {
			delete(w.wanted, name)
		}
	}
	forgotten := len(w.wanted) < before
	w.mu.Unlock()
	if forgotten {
		w.restartConsumer()
	}
}

func (w *Worker) restartConsumer() {
	if err := w.consumer.restart(); err != nil {
		w.Log.Error("worker could not change which queues it serves", "worker", w.ID, "error", err)
	}
}

// queues returns those that this worker serves.
func (w *Worker) queues() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([]string, 0, len(w.wanted)+len(w.pools))
	for name := range w.wanted {
		names = append(names, name)
	}
	for _, placement := range w.pools {
		names = append(names, queue.Pool(placement))
	}
	if len(w.Only) > 0 {
		return queue.JobsOf(names)
	}
	return queue.JobsWith(names)
}

// offered are the names of the runtimes and images that this worker offers.
func (w *Worker) offered() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.names
}

// noLongerOffers reports whether the job failed because its image has left this host since the
// worker last said what it offers. The worker then says what it still offers.
func (w *Worker) noLongerOffers(ctx context.Context, j record.Record, cause error) bool {
	if !errors.Is(cause, sandbox.ErrNoImage) && !errors.Is(cause, sandbox.ErrImageRefused) {
		return false
	}
	bounded, cancel := context.WithTimeout(ctx, loopTimeout)
	defer cancel()
	if err := w.publish(bounded); err != nil {
		w.Log.Warn("worker could not say what it offers", "worker", w.ID, "error", err)
	}
	return !slices.Contains(w.offered(), cmp.Or(j.Image, j.Runtime))
}
