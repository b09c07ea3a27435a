package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// deliveriesInLine is how many of a tenant's may be pending for the next to be none of
// its backlog: what four endpoints take at once.
const deliveriesInLine = 16

// Delivery is one webhook message to one endpoint, over all its attempts.
type Delivery struct {
	ID, Tenant, URL, Event string
	// JobID or BatchID is what the message is about.
	JobID, BatchID string
	State          DeliveryState
	// Attempt is the number of the attempt that is due, from 1; once final, of the last.
	Attempt   int
	Due, Sent time.Time
	Created   time.Time
	// LastStatus is the HTTP status of the last answer, 0 if there was none, and
	// LastError why the last attempt failed, in words fit for the tenant.
	LastStatus int
	LastError  string
	// Signing is what signs the tenant's messages now.
	Signing Signing
	// Undone is how many deliveries of the tenant are pending, this one among them.
	Undone int64
	// Backlog is whether its tasks are in DeliveryBacklogQueue.
	Backlog bool
}

// DeliveryState is where a delivery stands.
type DeliveryState string

// The states of a delivery; all but Pending are final.
const (
	Pending   DeliveryState = "pending"
	Delivered DeliveryState = "delivered"
	Exhausted DeliveryState = "failed" // given up: the schedule is over, the URL can't be posted to, or the result is gone
	Gone      DeliveryState = "gone"   // the endpoint answered 410
)

// ErrNoDelivery is answered for a delivery that does not exist, or no longer.
var ErrNoDelivery = errors.New("no such delivery")

// GetDelivery returns a delivery, or ErrNoDelivery.
func (s *Store) GetDelivery(ctx context.Context, tenant, did string) (Delivery, error) {
	if !job.ValidTenant(tenant) {
		return Delivery{}, ErrNoDelivery
	}
	pipe := s.rdb.Pipeline() // all are in the tenant's slot
	delivery, signing, undone := pipe.HGetAll(ctx, deliveryKey(tenant, did)), pipe.HGetAll(ctx, webhookKey(tenant)), pipe.ZCard(ctx, outboxKey(tenant))
	if _, err := pipe.Exec(ctx); err != nil {
		return Delivery{}, fmt.Errorf("read delivery: %w", err)
	}
	f := delivery.Val()
	if len(f) == 0 {
		return Delivery{}, ErrNoDelivery
	}
	signed, err := parseSigning(tenant, signing.Val())
	if err != nil {
		return Delivery{}, err
	}
	r := fields{of: "delivery " + did, f: f}
	d := Delivery{
		ID: did, Tenant: tenant, JobID: f["job"], BatchID: f["batch"], URL: f["url"], Event: f["event"], State: DeliveryState(f["state"]),
		Attempt: int(r.number("attempt")), Due: r.at("due"), Sent: r.at("sent"), Created: r.at("created"),
		LastStatus: int(r.number("status")), LastError: f["error"], Signing: signed, Undone: undone.Val(), Backlog: f["backlog"] == "1",
	}
	if of, ok := job.TenantOfBatch(d.BatchID); ok && of != tenant || d.JobID != "" && !ofTenant(d.JobID, tenant) {
		// A worker may have written it: it is not to be told, and signed, in this tenant's name.
		s.unreadable.PassOver("a delivery", fmt.Errorf("delivery %.100q of tenant %s is of a job or batch of another's", did, tenant))
		return Delivery{}, ErrNoDelivery
	}
	return d, r.err
}

// Attempted records what an attempt at a delivery came to. With state Pending the
// next attempt is enqueued for next. An attempt that was recorded already changes nothing.
func (s *Store) Attempted(ctx context.Context, d Delivery, state DeliveryState, status int, problem string, next time.Time) error {
	answer, err := deliverScript.Run(ctx, s.rdb, d.Tenant, script.Args{
		"id": d.ID, "attempt": d.Attempt, "now": s.now(), "state": string(state), "due": next, "status": status, "problem": problem, "retention": s.retention,
	}).Text()
	if err != nil {
		return fmt.Errorf("record attempt at delivery: %w", err)
	}
	if answer == "ok" {
		s.observer.Attempted(d, state, s.now())
	}
	if answer == "ok" && state == Pending {
		if err := s.Queue.Enqueue(ctx, queue.DeliverTask(d.Tenant, d.ID, d.Attempt+1, d.Backlog, next)); err != nil {
			s.log.Warn("next delivery attempt is left to the sweeper", "delivery_id", d.ID, "error", err)
		}
	}
	return nil
}
