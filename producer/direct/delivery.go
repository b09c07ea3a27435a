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

// RunDeliveries lists the webhook messages of a run itself: none before it has ended, or where nobody is
// to be told.
func (c *Client) RunDeliveries(ctx context.Context, id string) ([]producer.Delivery, error) {
	if !c.ownsRun(id) {
		return nil, job.ErrNotFound
	}
	callback, err := c.records.CallbackOfRun(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.deliveriesOf(ctx, id, job.EventPipelineCompleted, callback)
}

// SessionDeliveries is [producer.Sessions.SessionDeliveries].
func (c *Client) SessionDeliveries(ctx context.Context, id string) ([]producer.Delivery, error) {
	x, err := c.session(ctx, id)
	if err != nil {
		return nil, err
	}
	ids, err := c.records.SessionDeliveries(ctx, x)
	if err != nil {
		return nil, err
	}
	return c.deliveriesThere(ctx, ids)
}

func (c *Client) deliveriesOf(ctx context.Context, id, event, callback string) ([]producer.Delivery, error) {
	ids, err := c.records.DeliveriesOf(ctx, c.tenant, id, event, callback)
	if err != nil {
		return nil, err
	}
	return c.deliveriesThere(ctx, ids)
}

// deliveriesThere returns the deliveries of these ids, as far as they exist.
func (c *Client) deliveriesThere(ctx context.Context, ids []string) ([]producer.Delivery, error) {
	list := []producer.Delivery{}
	for _, did := range ids {
		d, err := c.GetDelivery(ctx, did)
		switch {
		case errors.Is(err, record.ErrNoDelivery):
		case err != nil:
			return nil, err
		default:
			list = append(list, d)
		}
	}
	return list, nil
}

// GetDelivery is [producer.Endpoints.GetDelivery].
func (c *Client) GetDelivery(ctx context.Context, id string) (producer.Delivery, error) {
	d, err := c.records.GetDelivery(ctx, c.tenant, id)
	if err != nil {
		return producer.Delivery{}, err
	}
	if d.IsEvent() {
		return producer.Delivery{}, job.ErrNoDelivery // it is to become some
	}
	of, _ := record.ParseNews(c.tenant, d.News)
	wire := producer.Delivery{
		ID: d.ID, MessageID: d.MessageID(), EndpointID: d.EndpointID, JobID: d.JobID, BatchID: d.BatchID, RunID: d.RunID, SessionID: of.SessionID, Event: d.Event, URL: d.URL,
		State: string(d.State), Attempt: d.Attempt, CreatedAt: d.Created, LastStatus: d.LastStatus, LastError: d.LastError, Attempts: d.Log,
	}
	if d.State == record.Pending {
		wire.NextAt = &d.Due
	}
	if !d.Sent.IsZero() {
		wire.LastAt = &d.Sent
	}
	if wire.Attempts == nil {
		wire.Attempts = []job.DeliveryAttempt{}
	}
	return wire, nil
}

// Redeliver is [producer.Endpoints.Redeliver].
func (c *Client) Redeliver(ctx context.Context, id string) (producer.Delivery, error) {
	if _, err := c.GetDelivery(ctx, id); err != nil {
		return producer.Delivery{}, err
	}
	words, err := c.records.Redeliver(ctx, c.tenant, []string{id})
	if err != nil {
		return producer.Delivery{}, err
	}
	switch words[0] {
	case record.RedeliverMissing:
		return producer.Delivery{}, job.ErrNoDelivery
	case record.RedeliverFlying:
		return producer.Delivery{}, job.ErrPending
	case record.RedeliverOK, record.RedeliverWaits:
	}
	return c.GetDelivery(ctx, id)
}
