package worker

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// errDrainedByOperator is the reason of a pause that ends when the operator says so.
var errDrainedByOperator = errors.New("drained by its operator, until `glovebox fleet resume`")

// obey pauses the worker once its operator has drained it. That it is resumed, the next probe finds. Users of Redis
// that are older than the worker may not read it: then nobody has drained it.
func (w *Worker) obey(ctx context.Context) error {
	drained, err := w.Records.Fleet.Drained(ctx, w.ID)
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"):
		if w.disobeying.Now() {
			w.Log.Warn("whether the worker is drained can't be read: load the users of `glovebox redis-acl` into Redis anew", "worker", w.ID, "error", err)
		}
	case err != nil:
		return err
	}
	if w.drained.Swap(drained) != drained {
		w.Metrics.Drained(drained)
		if drained {
			w.pause(errDrainedByOperator)
		}
	}
	return nil
}
