package producer

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Delivery is one webhook message to one endpoint, over all its attempts.
type Delivery struct {
	ID string `json:"id"`
	// MessageID is the message's webhook-id: the same at every attempt, and at all endpoints.
	MessageID string `json:"message_id" doc:"The message's webhook-id, the same at every attempt, and at all endpoints."`
	// EndpointID is the endpoint that it goes to, "" for a callback.
	EndpointID string `json:"endpoint_id,omitempty" doc:"The endpoint that it goes to; absent for a callback."`
	// JobID, BatchID, RunID or SessionID is what the message is about.
	JobID     string `json:"job_id,omitempty"`
	BatchID   string `json:"batch_id,omitempty"`
	RunID     string `json:"run_id,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	Event     string `json:"event" example:"job.completed"`
	URL       string `json:"url"`
	State     string `json:"state" enum:"pending,delivered,failed,gone" doc:"failed: it was given up, after the last attempt of the schedule, say; gone: the endpoint answered 410."`
	// Attempt is the number of the attempt that is due, from 1; once final, of the last.
	Attempt    int        `json:"attempt" doc:"Number of the attempt that is due, or once final of the last."`
	CreatedAt  time.Time  `json:"created_at"`
	NextAt     *time.Time `json:"next_at,omitempty" doc:"When the next attempt is due."`
	LastAt     *time.Time `json:"last_at,omitempty" doc:"When the last attempt was made."`
	LastStatus int        `json:"last_status,omitempty" doc:"HTTP status of the last answer, absent if there was none."`
	LastError  string     `json:"last_error,omitempty" doc:"Why the last attempt failed."`
	// Attempts are the last three, the oldest first.
	Attempts []job.DeliveryAttempt `json:"attempts" nullable:"false" doc:"The last three attempts, the oldest first."`
}

// Deliveries lists the webhook messages of a job, to its callback and to the tenant's endpoints: none
// before it has ended, or where nobody is to be told.
func (c *Client) Deliveries(ctx context.Context, id string) ([]Delivery, error) {
	if !isJobID(id) {
		return nil, job.ErrNotFound
	}
	return c.deliveries(ctx, url.Values{"job": {id}})
}

// BatchDeliveries lists the webhook messages of a batch itself, as Deliveries does of a job.
func (c *Client) BatchDeliveries(ctx context.Context, id string) ([]Delivery, error) {
	if _, ok := job.TenantOfBatch(id); !ok {
		return nil, job.ErrNotFound
	}
	return c.deliveries(ctx, url.Values{"batch": {id}})
}

// RunDeliveries lists the webhook messages of a run of a pipeline itself, as Deliveries does of a job.
func (c *Client) RunDeliveries(ctx context.Context, id string) ([]Delivery, error) {
	if _, ok := job.TenantOfRun(id); !ok {
		return nil, job.ErrNotFound
	}
	return c.deliveries(ctx, url.Values{"run": {id}})
}

// SessionDeliveries is [Sessions.SessionDeliveries].
func (c *Client) SessionDeliveries(ctx context.Context, id string) ([]Delivery, error) {
	if _, ok := job.TenantOfSession(id); !ok {
		return nil, job.ErrNoSession
	}
	return c.deliveries(ctx, url.Values{"session": {id}})
}

func (c *Client) deliveries(ctx context.Context, of url.Values) ([]Delivery, error) {
	var list struct {
		Deliveries []Delivery `json:"deliveries"`
	}
	err := c.json(ctx, http.MethodGet, "/v1/deliveries?"+of.Encode(), 0, nil, &list)
	return list.Deliveries, err
}
