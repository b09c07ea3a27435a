package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// NotOfferedError is what Start fails with for a job whose runtime or image the worker
// doesn't offer. Nothing was written: HandOver says where the job goes.
type NotOfferedError struct {
	// Name of the runtime, as the job has it, or of the image; with the isolation that the job accepts at the least, as fleet.OfferName
	// has it.
	Name     string
	Priority job.Priority
	// Placement of the job, "" for none.
	Placement string
}

func (e *NotOfferedError) Error() string {
	return fmt.Sprintf("this worker does not offer %q", e.Name)
}

const (
	// leastUnoffered and mostUnoffered bound for how long a job waits until it is looked
	// for a worker again, which is for as long as it has waited already.
	leastUnoffered = 5 * time.Second
	mostUnoffered  = 5 * time.Minute
	// unofferedPatience is how long a job waits for a worker that offers what it needs,
	// as long as for the end of an outage.
	unofferedPatience = outagePatience
	// unofferedGap is the longest time between two looks that belong to the same wait. Of that, mostUnoffered is the delay; the rest is for
	// the tenant's backlog, at whose end the job lines up, and the queue. In a longer time it may have been offered.
	unofferedGap = outageGap
)

// HandOver gives a job that its worker doesn't offer to those that do: it puts a task into
// a queue of theirs, and tells them. Where none lives the job leaves the queue, and its
// tenant's window, until it is looked for one again: after 5 s at first, at last every 5
// minutes. After a day of this it ends as internal_error; a start, and a time without a look of more
// than unofferedGap, have the day begin anew. It reports whether a worker was told.
func (s *Store) HandOver(ctx context.Context, run queue.Run, e *NotOfferedError) (told bool, err error) {
	for _, name := range fleet.OffersFor(e.Name) {
		name = fleet.OfferIn(name, e.Placement)
		told, err = s.Fleet.Wanted(ctx, name)
		if err != nil {
			return false, fmt.Errorf("hand job over: %w", err)
		}
		if told {
			return true, s.Queue.Enqueue(ctx, queue.RunTask(run.ID, run.Epoch, e.Priority, time.Time{}).HandedOver(name))
		}
	}
	return false, s.unoffered(ctx, run, e)
}

func (s *Store) unoffered(ctx context.Context, run queue.Run, e *NotOfferedError) error {
	tenant, ok := job.TenantOf(run.ID)
	if !ok {
		return job.ErrNotFound
	}
	now := s.now()
	answer, err := unofferedScript.Run(ctx, s.rdb, tenant, script.Args{
		"id": run.ID, "epoch": run.Epoch, "now": now, "window": s.windowOrNone(ctx, tenant), "due": now.Add(sweepDelay),
	}).Slice()
	if err != nil {
		return fmt.Errorf("put off a job that no worker offers: %w", err)
	}
	switch answer[0].(string) {
	case "exhausted":
		return s.EndUnrun(ctx, run.ID, run.Epoch, job.InternalError, &job.Error{
			Code: job.CodeUnavailable, Message: fmt.Sprintf("no worker has offered %.300q for a day", e.Name),
		})
	case "ok":
		list, _ := answer[1].([]any)
		if err := s.enqueueReleased(ctx, list); err != nil {
			s.log.Warn("jobs released, their tasks are left to the sweeper", "tenant", tenant, "error", err)
		}
	}
	return nil
}

// LookedForAgain is when a worker is looked for again that offers what the job needs, as none did the last time; zero if it doesn't wait for that.
func (s *Store) LookedForAgain(ctx context.Context, r Record) (time.Time, error) {
	if r.Unoffered.IsZero() {
		return time.Time{}, nil
	}
	at, err := s.rdb.ZScore(ctx, laterKey(r.Tenant), r.ID).Result()
	if errors.Is(err, redis.Nil) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read when a worker is looked for again: %w", err)
	}
	return time.UnixMilli(int64(at)), nil
}

// EndHandedOver ends the jobs that wait for somebody who offers the name, as internal_error: nobody will.
// It returns how many there were.
func (s *Store) EndHandedOver(ctx context.Context, name string, problem *job.Error) (ended int, err error) {
	err = s.Queue.DrainHandedOver(ctx, name, func(run queue.Run) error {
		if err := s.EndUnrun(ctx, run.ID, run.Epoch, job.InternalError, problem); err != nil && !errors.Is(err, job.ErrNotFound) {
			return fmt.Errorf("end job %s, whose runtime nobody offers: %w", run.ID, err)
		}
		ended++
		return nil
	})
	return ended, err
}
