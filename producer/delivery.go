package producer

import (
	"context"
	"errors"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// Delivery is one webhook message to one endpoint, over all its attempts.
type Delivery struct {
	ID string `json:"id" doc:"The message's webhook-id, the same at every attempt."`
	// JobID or BatchID is what the message is about.
	JobID   string `json:"job_id,omitempty"`
	BatchID string `json:"batch_id,omitempty"`
	Event   string `json:"event" example:"job.completed"`
	URL     string `json:"url"`
	State   string `json:"state" enum:"pending,delivered,failed,gone" doc:"failed: every attempt of the schedule was; gone: the endpoint answered 410."`
	// Attempt is the number of the attempt that is due, from 1; once final, of the last.
	Attempt    int        `json:"attempt" doc:"Number of the attempt that is due, or once final of the last."`
	CreatedAt  time.Time  `json:"created_at"`
	NextAt     *time.Time `json:"next_at,omitempty" doc:"When the next attempt is due."`
	LastAt     *time.Time `json:"last_at,omitempty" doc:"When the last attempt was made."`
	LastStatus int        `json:"last_status,omitempty" doc:"HTTP status of the last answer, absent if there was none."`
	LastError  string     `json:"last_error,omitempty" doc:"Why the last attempt failed."`
}

// Deliveries lists the webhook messages of a job: none before it has ended, or where
// nobody is to be told.
func (c *Client) Deliveries(ctx context.Context, id string) ([]Delivery, error) {
	if !c.owns(id) {
		return nil, job.ErrNotFound
	}
	r, err := c.records.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.deliveriesOf(ctx, id, job.EventCompleted, r.Callback)
}

// BatchDeliveries lists the webhook messages of a batch itself: none before it has
// ended, or where nobody is to be told.
func (c *Client) BatchDeliveries(ctx context.Context, id string) ([]Delivery, error) {
	b, err := c.batch(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.deliveriesOf(ctx, id, job.EventBatchCompleted, b.Callback)
}

func (c *Client) deliveriesOf(ctx context.Context, id, event, callback string) ([]Delivery, error) {
	list := []Delivery{}
	if callback == "" {
		return list, nil
	}
	d, err := c.records.GetDelivery(ctx, c.tenant, record.DeliveryID(id, event, callback))
	if errors.Is(err, record.ErrNoDelivery) {
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	wire := Delivery{
		ID: d.ID, JobID: d.JobID, BatchID: d.BatchID, Event: d.Event, URL: d.URL, State: string(d.State), Attempt: d.Attempt,
		CreatedAt: d.Created, LastStatus: d.LastStatus, LastError: d.LastError,
	}
	if d.State == record.Pending {
		wire.NextAt = &d.Due
	}
	if !d.Sent.IsZero() {
		wire.LastAt = &d.Sent
	}
	return append(list, wire), nil
}
