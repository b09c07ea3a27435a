package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// flightLife is how long a delivery that was released may take until its attempt begins,
	// and attemptLife how long the attempt may: then its place is another's.
	flightLife  = time.Minute
	attemptLife = 45 * time.Second
	// laneLife is how long it is known how a callback's host does, after the last attempt.
	laneLife = 48 * time.Hour
	// waitCheck is how often a delivery that waits is looked at, should its lane have
	// forgotten it, or the delivery be too old.
	waitCheck = time.Hour
	// probeInterval is how often an endpoint that is disabled is tried.
	probeInterval = 24 * time.Hour
	// disableAfter is how long nothing has to succeed for an endpoint to be disabled, and
	// failingGap how long there may be no attempt in that time: longer than any of the schedule.
	disableAfter = 5 * 24 * time.Hour
	failingGap   = 36 * time.Hour
)

// MostAtOnce is how many attempts are made at once at one endpoint that takes them, unless a
// deliverer is told otherwise.
const MostAtOnce = 16

// Pace says how fast the deliveries to one endpoint may be made.
type Pace struct {
	// Most attempts at once. As many may be made only after some have succeeded: it is 1 at first, and
	// after each failure, and twice as many after each success.
	Most int
	// Pauses are how long no attempt begins after one failure, two in a row, and so on; the
	// last holds for all further ones.
	Pauses []time.Duration
	// Patience is how long a delivery may wait before it is given up.
	Patience time.Duration
}

// Errors of TakeDelivery, which all mean that there is no attempt to make.
var (
	// ErrNotDue is answered where the attempt was made before, and where the delivery waits for its endpoint.
	ErrNotDue = errors.New("the delivery is not due")
	// ErrEndpointDisabled and ErrOverdue come with the delivery, which the caller gives up.
	ErrEndpointDisabled = errors.New("the endpoint is disabled, as nothing could be delivered to it")
	ErrOverdue          = errors.New("the endpoint took nothing for as long as a message is kept for it")
)

// TakeDelivery begins an attempt at a delivery. Where its endpoint has no room for one more,
// the delivery waits, and an attempt that ends releases it.
func (s *Store) TakeDelivery(ctx context.Context, tenant, did string, turn queue.Turn, p Pace) (Delivery, error) {
	if !job.ValidTenant(tenant) {
		return Delivery{}, ErrNoDelivery
	}
	now := s.now()
	answer, err := takeDeliveryScript.Run(ctx, s.rdb, tenant, script.Args{
		"id": did, "attempt": turn.Attempt, "waits": turn.Waits, "now": now, "most": p.Most, "over": now.Add(attemptLife), "again": now.Add(waitCheck), "patience": p.Patience,
	}).Slice()
	if err != nil {
		return Delivery{}, fmt.Errorf("take delivery: %w", err)
	}
	word, _ := answer[0].(string)
	switch word {
	case "missing":
		s.enqueueDeliveries(ctx, tenant, answer[1])
		return Delivery{}, ErrNoDelivery
	case "stale":
		return Delivery{}, ErrNotDue
	case "waits":
		s.enqueueDeliveries(ctx, tenant, answer[1])
		return Delivery{}, ErrNotDue
	}
	settings, _ := answer[2].(string)
	d, err := s.parseDelivery(tenant, did, pairs(answer[1]), settings, pairs(answer[3]), wholeNumber(answer[4]))
	switch {
	case err != nil:
		return Delivery{}, err
	case word == "disabled":
		return d, ErrEndpointDisabled
	case word == "overdue":
		return d, ErrOverdue
	}
	return d, nil
}

// pairs is a hash as scripts answer it.
func pairs(answer any) map[string]string {
	list, _ := answer.([]any)
	f := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		f[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
	}
	return f
}

// Outcome is what an attempt at a delivery came to.
type Outcome struct {
	State DeliveryState
	// Status is the HTTP status of the answer, 0 if there was none.
	Status int
	// Problem is why it failed, in words fit for the tenant.
	Problem string
	// Response begins as the answer did: it may be shown.
	Response string
	// Next is when the next attempt is due, of one that is Pending.
	Next time.Time
	// Began is zero where nothing was sent: then it says nothing of the endpoint.
	Began time.Time
	Took  time.Duration
	// Told is whether an outcome without an attempt is told of as if it were one: a fault of ours.
	Told bool
}

// Attempted records what an attempt at a delivery came to. With state Pending the
// next attempt is enqueued for Next. An attempt that was recorded already changes nothing.
func (s *Store) Attempted(ctx context.Context, d Delivery, o Outcome, p Pace) error {
	entry, err := logEntry(d, o, s.now())
	if err != nil {
		return fmt.Errorf("record attempt at delivery: %w", err)
	}
	url := ""
	if d.EndpointID == "" {
		url = d.URL
	}
	pauses := make([]any, len(p.Pauses))
	for i, pause := range p.Pauses {
		pauses[i] = pause.Milliseconds()
	}
	answer, err := deliverScript.Run(ctx, s.lasting, d.Tenant, script.Args{
		"id": d.ID, "attempt": d.Attempt, "now": s.now(), "state": string(o.State), "due": o.Next, "status": o.Status, "problem": o.Problem, "retention": s.retention,
		"began": o.Began, "entry": entry, "endpoint": d.EndpointID, "url": url, "most": p.Most,
		"disabled_event": newsOfAttempt(d, job.EventEndpointDisabled), "enabled_event": newsOfAttempt(d, job.EventEndpointEnabled),
	}, pauses...).Slice()
	if err != nil {
		return fmt.Errorf("record attempt at delivery: %w", err)
	}
	if answer[0] == "stale" {
		return nil
	}
	s.enqueueDeliveries(ctx, d.Tenant, answer[2])
	told, _ := answer[3].(string)
	s.enqueueFirstDelivery(ctx, d.Tenant, told)
	if answer[0] != "ok" {
		return nil
	}
	s.observer.Attempted(d, o.State, s.now())
	if o.State == Pending {
		next, turn := time.UnixMilli(wholeNumber(answer[1])), queue.Turn{Attempt: d.Attempt + 1, Waits: d.Waits}
		if err := s.Queue.Enqueue(ctx, queue.DeliverTask(d.Tenant, d.ID, turn, d.Backlog, next)); err != nil {
			s.log.Warn("next delivery attempt is left to the sweeper", "delivery_id", d.ID, "error", err)
		}
	}
	return nil
}

// PutOff has a delivery come again after wait that met a fault of ours. Others have its place at its
// endpoint meanwhile. It fails with ErrOverdue where the delivery has waited for too long.
func (s *Store) PutOff(ctx context.Context, d Delivery, wait time.Duration, p Pace) error {
	url := ""
	if d.EndpointID == "" {
		url = d.URL
	}
	now := s.now()
	answer, err := putOffScript.Run(ctx, s.rdb, d.Tenant, script.Args{
		"id": d.ID, "attempt": d.Attempt, "waits": d.Waits, "now": now, "due": now.Add(wait), "endpoint": d.EndpointID, "url": url, "most": p.Most, "patience": p.Patience,
	}).Slice()
	switch {
	case err != nil:
		return fmt.Errorf("put off delivery: %w", err)
	case answer[0] == "overdue":
		return ErrOverdue
	case answer[0] == "ok":
		s.enqueueDeliveries(ctx, d.Tenant, answer[1])
	}
	return nil
}

// logEntry is what is told of the attempt later, as JSON; "" where there is nothing to tell.
func logEntry(d Delivery, o Outcome, now time.Time) (string, error) {
	switch {
	case o.Began.IsZero() && !o.Told:
		return "", nil
	case o.Began.IsZero():
		o.Began = now
	}
	a := job.DeliveryAttempt{
		JobID: d.JobID, BatchID: d.BatchID, RunID: d.RunID, Event: d.Event, Number: d.Attempt, At: o.Began.UTC().Truncate(time.Millisecond), MS: o.Took.Milliseconds(),
		Status: o.Status, Error: o.Problem, Response: o.Response, State: string(o.State),
	}
	if o.State == Pending {
		next := o.Next.UTC().Truncate(time.Millisecond)
		a.NextAt = &next
	}
	b, err := job.Marshal(a)
	return string(b), err
}

// Redeliver makes deliveries due that are done, under their message ids, and those due now that were
// to be tried later. It returns of each what became of it: RedeliverOK, or why not.
func (s *Store) Redeliver(ctx context.Context, tenant string, ids []string) ([]Redelivered, error) {
	rest := make([]any, len(ids))
	for i, id := range ids {
		rest[i] = id
	}
	now := s.now()
	answer, err := redeliverScript.Run(ctx, s.lasting, tenant, script.Args{"now": now, "again": now.Add(waitCheck)}, rest...).Slice()
	if err != nil {
		return nil, fmt.Errorf("deliver once more: %w", err)
	}
	s.enqueueDeliveries(ctx, tenant, answer[1])
	words, _ := answer[0].([]any)
	list := make([]Redelivered, len(words))
	for i, word := range words {
		list[i] = Redelivered(fmt.Sprint(word))
	}
	return list, nil
}

// Redelivered is what became of a delivery that was asked for again.
type Redelivered string

// The answers of Redeliver.
const (
	RedeliverOK      Redelivered = "ok"
	RedeliverWaits   Redelivered = "waits"   // it is due anyway
	RedeliverFlying  Redelivered = "flying"  // it is being attempted
	RedeliverMissing Redelivered = "missing" // there is no such delivery, or its endpoint is deleted
)

// FanOut makes of an event a delivery to each of these endpoints. The event is gone then. A delivery whose
// endpoint has no room waits, as in [Store.TakeDelivery]. News is not told beyond the tenant's quota bytes_recorded.
func (s *Store) FanOut(ctx context.Context, event Delivery, endpoints []string, p Pace) error {
	rest := make([]any, 0, 2*len(endpoints))
	for _, id := range endpoints {
		rest = append(rest, DeliveryID(event.Subject(), event.Event, id), id)
	}
	most := int64(0)
	if event.News != "" {
		terms, err := s.terms(ctx, event.Tenant)
		if err != nil {
			return fmt.Errorf("make deliveries of event: %w", err)
		}
		most = s.mostRecorded(terms)
	}
	now := s.now()
	answer, err := fanOutScript.Run(ctx, s.rdb, event.Tenant, script.Args{
		"id": event.ID, "now": now, "most": p.Most, "again": now.Add(waitCheck), "expires_by": now.Add(s.retention), "most_recorded": most,
	}, rest...).Slice()
	if err != nil {
		return fmt.Errorf("make deliveries of event: %w", err)
	}
	made, _ := answer[0].(string)
	s.enqueueFirstDelivery(ctx, event.Tenant, made)
	s.enqueueDeliveries(ctx, event.Tenant, answer[1])
	if refused := wholeNumber(answer[2]); refused > 0 {
		s.log.Info("endpoints are not told of news, as the tenant's quota bytes_recorded is full", "tenant", event.Tenant, "event", event.Event, "endpoints", refused)
	}
	return nil
}

// unmarshalAttempt reads what logEntry wrote.
func unmarshalAttempt(text string) (a job.DeliveryAttempt, err error) {
	err = json.Unmarshal([]byte(text), &a)
	return a, err
}
