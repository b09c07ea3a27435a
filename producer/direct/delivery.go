package direct

import (
	"context"
	"errors"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// Deliveries lists the webhook messages of a job: none before it has ended, or where
// nobody is to be told.
func (c *Client) Deliveries(ctx context.Context, id string) ([]producer.Delivery, error) {
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
func (c *Client) BatchDeliveries(ctx context.Context, id string) ([]producer.Delivery, error) {
	b, err := c.batch(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.deliveriesOf(ctx, id, job.EventBatchCompleted, b.Callback)
}

func (c *Client) deliveriesOf(ctx context.Context, id, event, callback string) ([]producer.Delivery, error) {
	list := []producer.Delivery{}
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
	wire := producer.Delivery{
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
