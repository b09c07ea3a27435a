// Package deliverer posts signed results to webhooks, beside the api and away from
// the hosts that run hostile code. Beside the api, it alone has the key that tenants'
// webhook secrets come from.
//
// It serves the queue of deliveries, never the queues of jobs: a webhook that is dead
// re-runs nothing, and one that is slow holds no sandbox. The record counts the
// attempts and says when the next one is due; an asynq task only says that one is due
// now. Each attempt carries the same message id and the same body, so a receiver that
// heard an attempt which nobody could note down recognizes the next one.
//
// Endpoints may be slow, dead, or many. Each has a line of its own in the records, of which
// one delivery after the other is released, more at once the better it goes: one that is dead
// holds nobody up, and one that lives is sent what there is as fast as it takes it. Each tenant has a share of the
// attempts that are made at once; what finds no place in that is put off, for longer the more there is and the longer it has been so (limiter.go).
//
// Start at [New], then [Deliverer.Run].
package deliverer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/internal/hookkeys"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/internal/tracing"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/webhook"
)

// Config says what a Deliverer works with.
type Config struct {
	// Records and Client, whose tenant doesn't matter, are the caller's to close.
	Records *record.Store
	Client  *direct.Client
	// Links leads receivers to what a body has no room for; the same as Client's.
	Links *direct.Links
	// Sender makes the attempts. The caller closes it.
	Sender *webhook.Sender
	// Keys are the operator's. What signs a tenant's messages is derived from them.
	Keys *hookkeys.Keys
	// Schedule says when to try again. Defaults to webhook.DefaultSchedule().
	Schedule webhook.Schedule
	// Concurrency is how many attempts are made at once. They are divided among the
	// tenants that have something to deliver, and one to come: a tenant alone may have
	// half. Defaults to 256.
	Concurrency int
	// PerEndpoint is how many of a tenant's may go to one endpoint, or to one host and port of
	// callbacks, once that has shown that it takes them. Defaults to 16.
	PerEndpoint int
	// BodyBytes is how large a message may be before outputs are cut in it; the whole
	// is behind their URLs. Defaults to 256 KiB.
	BodyBytes int
	// MemoryBytes is what messages take together while they are written; a tenant's, half of that. Defaults to 64 MiB. A delivery for which
	// there is none for MemoryPatience, 10 s by default, is put off without an attempt.
	MemoryBytes    int64
	MemoryPatience time.Duration
	// Translate, if set, writes the message of a job in the form of another server whose client submitted it:
	// that is sent by PUT. It reads by the client, which takes memory for what is read. It returns nil for jobs of which the result itself is the message,
	// and fails with [direct.ErrNotYet] where the message has to wait for other jobs.
	Translate func(ctx context.Context, client *direct.Client, r job.Result) ([]byte, error)
	// Interval is how often an idle Deliverer polls, in case a notification was lost. Defaults
	// to 1 s.
	Interval time.Duration
	// Grace is what attempts under way get when the Deliverer ends; what is not
	// finished then is made again by another. Defaults to 30 s.
	Grace time.Duration
	// Tracer makes spans of attempts. Defaults to none.
	Tracer *tracing.Tracer
	// Metrics are what is counted and measured. Defaults to some that nobody reads.
	Metrics *metrics.Deliverer
	// Log defaults to discarding.
	Log *slog.Logger
}

// Deliverer makes the deliveries that are due.
type Deliverer struct {
	Config
	limiter  *tenantLimiter
	messages *direct.Messages
	pace     record.Pace
	seals    *secrets.Keys

	// Attempts under way, which Run waits for: asynq would not.
	mu       sync.Mutex
	stopping bool
	under    sync.WaitGroup
}

// New returns a Deliverer.
func New(c Config) (*Deliverer, error) {
	if c.Records == nil || c.Client == nil || c.Links == nil || c.Sender == nil {
		return nil, errors.New("open deliverer: it needs records, a client, links and a sender")
	}
	if c.Keys == nil {
		return nil, errors.New("open deliverer: there is no key to sign with")
	}
	if c.Schedule.Delays == nil {
		c.Schedule = webhook.DefaultSchedule()
	}
	if c.Concurrency == 0 {
		c.Concurrency = 256
	}
	if c.PerEndpoint == 0 {
		c.PerEndpoint = record.MostAtOnce
	}
	if c.BodyBytes == 0 {
		c.BodyBytes = 256 << 10
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = 64 << 20
	}
	if c.MemoryPatience == 0 {
		c.MemoryPatience = 10 * time.Second
	}
	if c.Interval == 0 {
		c.Interval = time.Second
	}
	if c.Grace == 0 {
		c.Grace = 30 * time.Second
	}
	if c.Metrics == nil {
		c.Metrics = metrics.NewDeliverer(prometheus.NewRegistry())
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	seals, err := c.Keys.Seals()
	if err != nil {
		return nil, fmt.Errorf("open deliverer: %w", err)
	}
	return &Deliverer{
		Config: c, limiter: newTenantLimiter(c.Concurrency), messages: c.Client.Messages(c.MemoryBytes, c.MemoryPatience), pace: PaceOf(c.Schedule, c.PerEndpoint), seals: seals,
	}, nil
}

// Run makes deliveries until ctx ends, then waits for the attempts under way, for
// Grace at most. It may be called once.
func (d *Deliverer) Run(ctx context.Context) error {
	// Attempts outlive ctx by the grace, and then end without being counted.
	attempts, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	c := queue.ServerConfig(d.Concurrency, queue.Deliveries(), d.Interval, d.Log)
	c.ShutdownTimeout = time.Second // when asynq is told, nothing is under way any more
	ownFault := c.RetryDelayFunc
	c.RetryDelayFunc = func(n int, err error, t *asynq.Task) time.Duration {
		var busy busyError
		var fault faultError
		switch {
		case errors.As(err, &busy):
			return busy.wait
		case errors.As(err, &fault):
			return fault.wait
		}
		return ownFault(n, err, t)
	}
	srv := d.Records.Queue.Server(c, nil)
	handler := asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		if !d.begin() {
			return errStopping
		}
		defer d.under.Done()
		err := d.handle(attempts, t)
		var busy busyError
		if err != nil && !errors.As(err, &busy) && attempts.Err() == nil { // asynq says nothing of it
			d.Metrics.Fault()
			d.Log.WarnContext(attempts, "delivery put off by a fault of ours", "task", string(t.Payload()), "error", err)
		}
		return err
	})
	if err := srv.Start(handler); err != nil {
		return fmt.Errorf("start deliverer: %w", err)
	}
	<-ctx.Done()
	srv.Stop()
	d.drain(cut)
	srv.Shutdown()
	return nil
}

var errStopping = errors.New("the deliverer is stopping")

// begin counts an attempt as under way, unless Run waits for the last already.
func (d *Deliverer) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping {
		return false
	}
	d.under.Add(1)
	return true
}

// drain waits for attempts under way, and cuts them when the grace is over.
func (d *Deliverer) drain(cut context.CancelFunc) {
	d.mu.Lock()
	d.stopping = true
	d.mu.Unlock()
	defer time.AfterFunc(d.Grace, cut).Stop()
	d.under.Wait()
}

// handle makes the attempt that a task asks for. It fails only where Glovebox did:
// then asynq calls again, and no attempt is spent.
func (d *Deliverer) handle(ctx context.Context, t *asynq.Task) error {
	var task queue.Deliver
	if err := json.Unmarshal(t.Payload(), &task); err != nil {
		d.Log.ErrorContext(ctx, "task is no delivery", "error", err)
		return nil
	}
	end, ok := d.limiter.begin(task.Tenant, time.Now())
	if !ok {
		return d.putOff(ctx, task)
	}
	sent := false
	defer func() { end(sent) }()
	delivery, err := d.Records.TakeDelivery(ctx, task.Tenant, task.ID, task.Turn, d.pace)
	switch {
	case errors.Is(err, record.ErrNoDelivery), errors.Is(err, record.ErrNotDue):
		return nil
	case errors.Is(err, record.ErrEndpointDisabled), errors.Is(err, record.ErrOverdue):
		return d.note(ctx, delivery, record.Outcome{State: record.Exhausted, Problem: err.Error()})
	case err != nil:
		return err
	case delivery.IsEvent():
		err = d.fanOut(ctx, delivery)
	default:
		sent = true
		err = d.attempt(ctx, delivery)
	}
	if err != nil {
		return d.putOffFault(ctx, delivery, err)
	}
	return nil
}

// putOffFault has a delivery come again that met a fault of ours, without an attempt, or gives it up
// once it has done so for as long as it may wait. That a message can't be written yet is nobody's fault.
func (d *Deliverer) putOffFault(ctx context.Context, delivery record.Delivery, fault error) error {
	since := delivery.Faulty
	if since.IsZero() {
		since = delivery.Due
	}
	wait := faultDelay(time.Since(since))
	err := d.Records.PutOff(context.WithoutCancel(ctx), delivery, wait, d.pace)
	notYet := errors.Is(fault, direct.ErrNotYet)
	if errors.Is(err, record.ErrOverdue) && notYet {
		return d.note(ctx, delivery, record.Outcome{State: record.Exhausted, Problem: "what the message is about has not ended in time", Told: true})
	}
	if errors.Is(err, record.ErrOverdue) {
		d.Log.With(about(delivery)).ErrorContext(ctx, "delivery given up: faults of ours kept it for too long", "delivery_id", delivery.ID, "error", fault)
		return d.note(ctx, delivery, record.Outcome{State: record.Exhausted, Problem: "the message could not be written: a fault of Glovebox's", Told: true})
	}
	if err != nil {
		return faultError{errors.Join(fault, err), wait}
	}
	if ctx.Err() == nil && !notYet {
		d.Metrics.Fault()
		d.Log.With(about(delivery)).WarnContext(ctx, "delivery put off by a fault of ours", "delivery_id", delivery.ID, "wait", wait, "error", fault)
	}
	return nil
}

// putOff has a delivery come again whose tenant makes as many attempts as it may.
func (d *Deliverer) putOff(ctx context.Context, task queue.Deliver) error {
	delivery, err := d.Records.GetDelivery(ctx, task.Tenant, task.ID)
	if errors.Is(err, record.ErrNoDelivery) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.limiter.putOff(delivery, time.Now())
}

// faultError puts a delivery off, without an attempt, because of a fault of ours.
type faultError struct {
	error
	wait time.Duration
}

func (e faultError) Unwrap() error { return e.error }

// faultDelay grows with how long the delivery has been due: the bucket may be away for
// a moment, or one result be unreadable for good.
func faultDelay(overdue time.Duration) time.Duration {
	return min(max(overdue/10, 2*time.Second), 10*time.Minute)
}
