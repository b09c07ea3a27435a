package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// NotOfferedError is what Start fails with for a job whose runtime or image the worker
// doesn't offer. Nothing was written: HandOver says where the job goes.
type NotOfferedError struct {
	// Name of the runtime, as the job has it, or of the image.
	Name     string
	Priority job.Priority
}

func (e *NotOfferedError) Error() string {
	return fmt.Sprintf("this worker does not offer %q", e.Name)
}

// wantedChannel, then a name: workers that offer it listen there, so that whoever
// publishes hears from Redis how many of them live.
const wantedChannel = "gb:wanted:"

const (
	// leastUnoffered and mostUnoffered bound for how long a job waits until it is looked
	// for a worker again, which is for as long as it has waited already.
	leastUnoffered = 5 * time.Second
	mostUnoffered  = 5 * time.Minute
	// unofferedPatience is how long a job waits for a worker that offers what it needs,
	// as long as for the end of an outage.
	unofferedPatience = outagePatience
)

// HandOver gives a job that its worker doesn't offer to those that do: it puts a task into
// a queue of theirs, and tells them. Where none lives the job leaves the queue, and its
// tenant's window, until it is looked for one again: after 5 s at first, at last every 5
// minutes, and after a day it ends as internal_error. It reports whether a worker was told.
func (s *Store) HandOver(ctx context.Context, run queue.Run, e *NotOfferedError) (told bool, err error) {
	listening, err := s.rdb.Publish(ctx, wantedChannel+e.Name, "").Result()
	if err != nil {
		return false, fmt.Errorf("hand job over: %w", err)
	}
	if listening > 0 {
		return true, s.Queue.Enqueue(ctx, queue.RunTask(run.ID, run.Epoch, e.Priority, time.Time{}).HandedOver(e.Name))
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
		return s.EndWithout(ctx, run.ID, run.Epoch, job.InternalError, &job.Error{
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

// Offer is what a worker says that it offers, for as long as it lives.
type Offer struct {
	pubsub  *redis.PubSub
	running sync.WaitGroup

	mu     sync.Mutex
	names  []string
	closed bool
}

// Offer listens for jobs that other workers have no runtime or image for, and calls wanted
// with the name of what is wanted; one call at a time. The caller closes the Offer; ctx
// only bounds the first attempt to subscribe.
func (s *Store) Offer(ctx context.Context, wanted func(name string)) *Offer {
	o := &Offer{pubsub: s.rdb.Subscribe(ctx)}
	received := o.pubsub.Channel(redis.WithChannelHealthCheckInterval(redisconn.HealthCheck))
	o.running.Go(func() {
		for m := range received {
			wanted(strings.TrimPrefix(m.Channel, wantedChannel))
		}
	})
	return o
}

// Set says which names are offered from now on.
func (o *Offer) Set(ctx context.Context, names []string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var add, remove []string
	for _, name := range names {
		if !slices.Contains(o.names, name) {
			add = append(add, wantedChannel+name)
		}
	}
	for _, name := range o.names {
		if !slices.Contains(names, name) {
			remove = append(remove, wantedChannel+name)
		}
	}
	// What it subscribed to, it subscribes to again with each new connection, also where
	// the first call failed: so what is noted is what was asked for.
	o.names = slices.Clone(names)
	if o.closed {
		return nil
	}
	var errs []error
	if len(add) > 0 {
		errs = append(errs, o.pubsub.Subscribe(ctx, add...))
	}
	if len(remove) > 0 {
		errs = append(errs, o.pubsub.Unsubscribe(ctx, remove...))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("listen for jobs that others hand over: %w", err)
	}
	return nil
}

// Names are those that were set last.
func (o *Offer) Names() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.names
}

// Close ends the subscription: nothing is handed to this worker any more. Names stays what
// it is. It may be called again.
func (o *Offer) Close() error {
	o.mu.Lock()
	again := o.closed
	o.closed = true
	o.mu.Unlock()
	if again {
		return nil
	}
	err := o.pubsub.Close()
	o.running.Wait()
	return err
}
