package worker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// mostPools is how many placements a worker serves at most: asynq asks for tasks of one after the other.
const mostPools = 128

// followPools has this worker serve the placements that are in use and that it has the labels for. Users of Redis that are older than the
// worker may not read them.
func (w *Worker) followPools(ctx context.Context) error {
	if len(w.Labels) == 0 {
		return nil
	}
	w.following.Lock()
	defer w.following.Unlock()
	used, err := w.Records.Fleet.Pools(ctx)
	if redis.HasErrorPrefix(err, "NOPERM") {
		if w.unpooled.Now() {
			w.Log.Warn("which placements are in use can't be read: load the users of `glovebox redis-acl` into Redis anew", "worker", w.ID, "error", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	pools, unserved := servedPools(w.Labels, w.Only, slices.Collect(maps.Keys(used)))
	w.mu.Lock()
	same := slices.Equal(pools, w.pools)
	w.pools = pools
	w.mu.Unlock()
	if same {
		return nil
	}
	if unserved > 0 {
		w.Log.Warn("worker serves not all placements in use that it has the labels for: there are too many", "worker", w.ID, "served", len(pools), "unserved", unserved)
	}
	w.Log.Info("worker serves other placements than before", "worker", w.ID, "placements", pools)
	// All of it is done in any case: the next look finds the same placements, and does nothing.
	w.restartConsumer()
	return errors.Join(w.sayOffers(ctx), w.sessions.serve(w.sessionQueues()))
}

// lookForPools is followPools, for somebody who has said that there are others.
func (w *Worker) lookForPools() {
	ctx, cancel := context.WithTimeout(context.Background(), loopTimeout)
	defer cancel()
	if err := w.followPools(ctx); err != nil {
		w.Log.Warn("worker could not see which placements are in use, it looks again", "worker", w.ID, "error", err)
	}
}

// servedPools are the placements, of those in use, that a worker with such labels serves. One that is kept for some jobs serves the least that
// these name in any case, so that it has a queue. Of more than mostPools it serves those with the fewest labels;
// unserved is how many it leaves.
func servedPools(labels job.Labels, only, used []string) (pools []string, unserved int) {
	if len(only) > 0 {
		least := job.Labels{}
		for _, key := range only {
			least[key] = labels[key]
		}
		pools = append(pools, least.String())
	}
	type served struct {
		placement string
		labels    int
	}
	var found []served
	for _, placement := range used {
		wants, err := job.ParseLabels(placement, job.MaxPlacement)
		if err == nil && len(wants) > 0 && labels.Serves(wants, only) && !slices.Contains(pools, placement) {
			found = append(found, served{placement, len(wants)})
		}
	}
	slices.SortFunc(found, func(a, b served) int {
		return cmp.Or(cmp.Compare(a.labels, b.labels), cmp.Compare(a.placement, b.placement))
	})
	may := min(len(found), mostPools-len(pools))
	for _, f := range found[:may] {
		pools = append(pools, f.placement)
	}
	return pools, len(found) - may
}

// sayOffers says for which jobs this worker has a runtime or image: for those without a placement, unless it is kept for others, and for
// those of each placement that it serves.
func (w *Worker) sayOffers(ctx context.Context) error {
	w.mu.Lock()
	var offers []string
	for _, placement := range append(commonPool(w.Only), w.pools...) {
		for _, name := range w.names {
			offers = append(offers, fleet.OfferIn(name, placement))
		}
	}
	w.mu.Unlock()
	offers = append(offers, fleet.ImagesOffer)
	if len(w.Labels) > 0 {
		offers = append(offers, fleet.PoolsOffer)
	}
	return w.offer.Set(ctx, offers)
}

// commonPool is "", the placement of jobs without one, or nothing for a worker that is kept for others.
func commonPool(only []string) []string {
	if len(only) > 0 {
		return nil
	}
	return []string{""}
}

// sessionQueues are those of the runtimes that this worker offers and that have sessions, for each placement that it serves.
func (w *Worker) sessionQueues() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	queues := map[string]int{}
	for _, placement := range append(commonPool(w.Only), w.pools...) {
		for _, runtime := range w.sessionsOf {
			queues[queue.Sessions(runtime, placement)] = 1
		}
	}
	return queues
}
