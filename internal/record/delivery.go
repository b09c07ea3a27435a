package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// deliveriesInLine is how many of a tenant's may be pending for the next to be none of
// its backlog: what four endpoints take at once.
const deliveriesInLine = 16

// deliveryLog is how many attempts the record of a delivery tells of.
const deliveryLog = 3

// Delivery is one webhook message to one endpoint, over all its attempts.
type Delivery struct {
	ID, Tenant, Event string
	// URL of the callback that it goes to; of one to an endpoint, the endpoint's as it is now, "" once
	// the endpoint is deleted.
	URL string
	// EndpointID is the endpoint that it goes to, "" for a callback.
	EndpointID string
	// Disabled is whether its tenant has the endpoint disabled.
	Disabled bool
	// Headers are the endpoint's own, which each message has.
	Headers SealedHeaders
	// JobID, BatchID, RunID, Budget (see [ParseBudget]) or News (see [ParseNews]) is what the message is about, if anything.
	JobID, BatchID, RunID, Budget, News string
	State                               DeliveryState
	// Attempt is the number of the attempt that is due, from 1; once final, of the last.
	Attempt int
	// Before is how many attempts were made before somebody asked for it again: the schedule
	// began anew behind them.
	Before int
	// Waits is how often it waited for its endpoint.
	Waits int
	// Once is whether it is tried once only, as a test is.
	Once      bool
	Due, Sent time.Time
	// Faulty is when it was due first that was put off by faults of ours since; else zero.
	Faulty  time.Time
	Created time.Time
	// LastStatus is the HTTP status of the last answer, 0 if there was none, and
	// LastError why the last attempt failed, in words fit for the tenant.
	LastStatus int
	LastError  string
	// Log is what is told of the last attempts, the oldest first.
	Log []job.DeliveryAttempt
	// Signing is what signs messages to it now.
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
var ErrNoDelivery = job.ErrNoDelivery

// Subject is the job, batch, run, budget or news that the message is about, "" for a test.
func (d Delivery) Subject() string { return d.JobID + d.BatchID + d.RunID + d.Budget + d.News }

// MessageID is the message's webhook-id, the same at all endpoints.
func (d Delivery) MessageID() string {
	if d.EndpointID == "" || d.Subject() == "" {
		return d.ID
	}
	return MessageID(d.Subject(), d.Event)
}

// IsEvent reports whether it goes to nobody yet, but to each endpoint that wants the event.
func (d Delivery) IsEvent() bool { return d.URL == "" && d.EndpointID == "" }

// Signer is what has the secret that signs messages to it: its endpoint, or its tenant.
func (d Delivery) Signer() string {
	if d.EndpointID != "" {
		return d.EndpointID
	}
	return d.Tenant
}

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
	settings := ""
	if id := f["endpoint"]; id != "" {
		var err error
		if settings, err = s.rdb.HGet(ctx, endpointsKey(tenant), id).Result(); err != nil && !errors.Is(err, redis.Nil) {
			return Delivery{}, fmt.Errorf("read endpoint of delivery: %w", err)
		}
	}
	return s.parseDelivery(tenant, did, f, settings, signing.Val(), undone.Val())
}

func (s *Store) parseDelivery(tenant, did string, f map[string]string, settings string, signing map[string]string, undone int64) (Delivery, error) {
	r := fields{of: "delivery " + did, f: f}
	d := Delivery{
		ID: did, Tenant: tenant, JobID: f["job"], BatchID: f["batch"], RunID: f["run"], Budget: f["budget"], News: f["news"], URL: f["url"], Event: f["event"], State: DeliveryState(f["state"]),
		Attempt: int(r.number("attempt")), Before: int(r.number("base")), Waits: int(r.number("waits")), Once: f["once"] == "1",
		Due: r.at("due"), Sent: r.at("sent"), Faulty: r.at("faulty"), Created: r.at("created"),
		LastStatus: int(r.number("status")), LastError: f["error"], Undone: undone, Backlog: f["backlog"] == "1", EndpointID: f["endpoint"],
	}
	runOf, isRun := job.TenantOfRun(d.RunID)
	_, isBudget := ParseBudget(tenant, d.Budget)
	_, isNews := ParseNews(tenant, d.News)
	if of, ok := job.TenantOfBatch(d.BatchID); ok && of != tenant || isRun && runOf != tenant || d.JobID != "" && !ofTenant(d.JobID, tenant) || d.Budget != "" && !isBudget || d.News != "" && !isNews {
		// A worker may have written it: it is not to be told, and signed, in this tenant's name.
		s.unreadable.PassOver("a delivery", fmt.Errorf("delivery %.100q of tenant %s is about nothing of its", did, tenant))
		return Delivery{}, ErrNoDelivery
	}
	of := ""
	if d.EndpointID != "" {
		of = d.EndpointID + ":"
		d.URL = ""
	}
	if settings != "" {
		var e EndpointSettings
		r.fail("endpoint", json.Unmarshal([]byte(settings), &e))
		d.URL, d.Disabled, d.Headers = e.URL, e.Disabled, e.Sealed
	}
	var err error
	if d.Signing, err = parseSigning(tenant, of, signing); err != nil {
		return Delivery{}, err
	}
	for name, entry := range f {
		var a job.DeliveryAttempt
		if n, ok := strings.CutPrefix(name, "a"); ok && isNumber(n) && json.Unmarshal([]byte(entry), &a) == nil {
			d.Log = append(d.Log, a)
		}
	}
	slices.SortFunc(d.Log, func(a, b job.DeliveryAttempt) int { return a.Number - b.Number })
	return d, r.err
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}

// enqueueDeliveries gives a task to each delivery that a script says it has released: id,
// attempt, waits, backlog and when. What can't be enqueued is the sweeper's work.
func (s *Store) enqueueDeliveries(ctx context.Context, tenant string, released any) {
	var tasks []queue.Task
	list, _ := released.([]any)
	for _, one := range list {
		f, _ := one.([]any)
		if len(f) != 5 {
			continue
		}
		id, attempt, waits, backlog, at := fmt.Sprint(f[0]), wholeNumber(f[1]), wholeNumber(f[2]), fmt.Sprint(f[3]) == "1", wholeNumber(f[4])
		turn := queue.Turn{Attempt: int(attempt), Waits: int(waits)}
		tasks = append(tasks, queue.DeliverTask(tenant, id, turn, backlog, time.UnixMilli(at)))
	}
	if err := s.Queue.EnqueueAll(ctx, tasks); err != nil {
		s.log.Warn("deliveries released, their tasks are left to the sweeper", "tenant", tenant, "error", err)
	}
}

// wholeNumber reads what a script answers: a number, or text that is one; 0 where it is neither.
func wholeNumber(v any) int64 {
	n, _ := strconv.ParseInt(fmt.Sprint(v), 10, 64)
	return n
}
