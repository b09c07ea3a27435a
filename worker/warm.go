package worker

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// askable is what sandboxes are that can be made before there are programs for them.
type askable interface {
	// Ask has sandboxes wait, as many as there is memory for, in the place of what was asked before.
	Ask(asked []sandbox.Ask)
	// WantedOf is how many sandboxes of an image are to wait, and RoomOf how many could.
	WantedOf(image string) int
	RoomOf(image string) int
}

// keepAsked has sandboxes wait that an operator asked all workers for: this one's part, by what it runs of all
// jobs at once. Users of Redis that are older than the worker may not read it: then nobody has asked. A worker
// that is paused counts for nothing, and keeps what it has.
func (w *Worker) keepAsked(ctx context.Context) error {
	sandboxes, ok := w.Sandboxes.(askable)
	if !ok {
		return nil
	}
	list, err := w.Records.Fleet.Asked(ctx)
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"):
		if w.unasked.Now() {
			w.Log.Warn("what `glovebox warm` asks for can't be read: load the users of `glovebox redis-acl` into Redis anew", "worker", w.ID, "error", err)
		}
	case err != nil:
		return err
	}
	var all int64
	if len(list) > 0 {
		if all, err = w.Records.Fleet.Slots(ctx); err != nil {
			return err
		}
	}
	// Only now: a worker that was paused meanwhile may count for nothing in these already, and would take a part of all that are left.
	if w.paused() != nil {
		return nil //nolint:nilerr // why it is paused is the monitor's to say
	}
	if len(w.Only) > 0 { // it isn't among those that take any job
		all += int64(w.Concurrency)
	}
	var asked []sandbox.Ask
	for _, a := range list {
		if r, ok := w.Runtimes.Lookup(a.Runtime); ok {
			asked = append(asked, sandbox.Ask{
				Image: r.Image(), Count: a.Share(int64(w.Concurrency), all), Since: time.UnixMilli(a.Since), Until: time.UnixMilli(a.Until),
			})
		}
	}
	sandboxes.Ask(asked)
	return nil
}

// warmRoom is how many sandboxes of each runtime could wait here.
func (w *Worker) warmRoom() map[string]int {
	sandboxes, ok := w.Sandboxes.(askable)
	if !ok {
		return nil
	}
	room := map[string]int{}
	for _, r := range w.Runtimes.List() {
		if n := sandboxes.RoomOf(r.Image()); n > 0 {
			room[r.Name] = n
		}
	}
	return room
}
