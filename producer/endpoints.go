package producer

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Endpoints are the URLs that a tenant has told of all its jobs and batches. Safe for
// concurrent use. Methods fail with job.ErrNoEndpoint for an endpoint that the tenant doesn't have.
type Endpoints interface {
	// CreateEndpoint makes one. It fails with job.Invalid or job.ErrTooManyEndpoints.
	CreateEndpoint(ctx context.Context, s job.EndpointSettings) (NewEndpoint, error)
	// ListEndpoints lists them, the oldest first.
	ListEndpoints(ctx context.Context) ([]job.Endpoint, error)
	// GetEndpoint returns one.
	GetEndpoint(ctx context.Context, id string) (job.Endpoint, error)
	// ChangeEndpoint changes what of its settings the change names, or fails with job.Invalid.
	ChangeEndpoint(ctx context.Context, id string, change EndpointChange) (job.Endpoint, error)
	// DeleteEndpoint forgets one, with all that is known of it.
	DeleteEndpoint(ctx context.Context, id string) error
	// EndpointSecrets returns what signs messages to it, as WebhookSecrets does.
	EndpointSecrets(ctx context.Context, id string) ([]WebhookSecret, error)
	// RotateEndpointSecret is RotateWebhookSecret for what signs messages to it.
	RotateEndpointSecret(ctx context.Context, id string, keep time.Duration) ([]WebhookSecret, error)
	// TestEndpoint posts a message to it that is a test, at once and once, and returns the
	// delivery, which GetDelivery tells more of.
	TestEndpoint(ctx context.Context, id string) (Delivery, error)
	// EndpointAttempts lists attempts at deliveries to it, the newest first.
	EndpointAttempts(ctx context.Context, id string, o AttemptOptions) (AttemptPage, error)
	// RecoverEndpoint has deliveries to it that have failed made once more, under their
	// message ids, and returns how many these are. It may be called again until it returns 0.
	RecoverEndpoint(ctx context.Context, id string, since time.Time) (int, error)
	// GetDelivery returns a delivery, or job.ErrNoDelivery.
	GetDelivery(ctx context.Context, id string) (Delivery, error)
	// Redeliver has a delivery made once more, under its message id, or now if it is to be tried
	// later. It fails with job.ErrNoDelivery, or with job.ErrPending while it is being made.
	Redeliver(ctx context.Context, id string) (Delivery, error)
}

var _ Endpoints = (*Client)(nil)

const (
	// MaxAttemptPage is how many attempts a page has at most, and DefaultAttemptPage unless told otherwise.
	MaxAttemptPage     = 200
	DefaultAttemptPage = 50
	// MaxRecover is how many deliveries one call of RecoverEndpoint has made once more, at most.
	MaxRecover = 10_000
)

// EndpointChange is what PATCH /v1/endpoints/{id} takes: what is nil stays as it is.
type EndpointChange struct {
	URL         *string             `json:"url,omitempty"`
	Description *string             `json:"description,omitempty"`
	Events      *[]string           `json:"events,omitempty" doc:"In the place of those that it has; none for all."`
	Filter      *job.EndpointFilter `json:"filter,omitempty" doc:"In the place of the one that it has; {} for none."`
	Disabled    *bool               `json:"disabled,omitempty" doc:"false also enables an endpoint that was disabled for its failures."`
}

// Apply changes settings.
func (c EndpointChange) Apply(s *job.EndpointSettings) {
	if c.URL != nil {
		s.URL = *c.URL
	}
	if c.Description != nil {
		s.Description = *c.Description
	}
	if c.Events != nil {
		s.Events = *c.Events
	}
	if c.Filter != nil {
		s.Filter = c.Filter
	}
	if c.Disabled != nil {
		s.Disabled = *c.Disabled
	}
}

// NewEndpoint is an endpoint with what signs messages to it.
type NewEndpoint struct {
	job.Endpoint
	Secret    string `json:"secret" doc:"Signs messages to the endpoint (v1): give it to the receiver. GET /v1/endpoints/{id}/secret shows it again." example:"whsec_…"`
	PublicKey string `json:"public_key" doc:"Verifies signatures of version v1a, and can make none." example:"whpk_…"`
}

// EndpointList is what GET /v1/endpoints answers.
type EndpointList struct {
	Endpoints []job.Endpoint `json:"endpoints" nullable:"false" doc:"The tenant's endpoints, the oldest first."`
}

// AttemptOptions say which attempts to list.
type AttemptOptions struct {
	// Limit is how many at most. Defaults to DefaultAttemptPage.
	Limit int
	// Cursor is the Next of the page before.
	Cursor string
}

// AttemptPage is a part of a list of attempts.
type AttemptPage struct {
	Attempts []job.DeliveryAttempt `json:"attempts" nullable:"false" doc:"Attempts at deliveries to the endpoint, the newest first: the last 500 are known."`
	Next     string                `json:"next_cursor,omitempty" doc:"The cursor of the next page; absent on the last."`
}

// RecoverRequest is what POST /v1/endpoints/{id}/recover takes.
type RecoverRequest struct {
	Since time.Time `json:"since" doc:"Deliveries that failed at this time or later." example:"2026-11-20T09:00:00Z"`
}

// Recovered is what it answers.
type Recovered struct {
	Deliveries int `json:"deliveries" doc:"How many deliveries are made once more: 10,000 at most, so ask again until it is 0."`
}

// CreateEndpoint is [Endpoints.CreateEndpoint].
func (c *Client) CreateEndpoint(ctx context.Context, s job.EndpointSettings) (NewEndpoint, error) {
	var e NewEndpoint
	err := c.send(ctx, http.MethodPost, endpointsPath, s, &e)
	return e, err
}

// ListEndpoints is [Endpoints.ListEndpoints].
func (c *Client) ListEndpoints(ctx context.Context) ([]job.Endpoint, error) {
	var list EndpointList
	err := c.json(ctx, http.MethodGet, endpointsPath, 0, nil, &list)
	return list.Endpoints, err
}

// GetEndpoint is [Endpoints.GetEndpoint].
func (c *Client) GetEndpoint(ctx context.Context, id string) (job.Endpoint, error) {
	var e job.Endpoint
	err := c.ofEndpoint(ctx, http.MethodGet, id, "", nil, &e)
	return e, err
}

// ChangeEndpoint is [Endpoints.ChangeEndpoint].
func (c *Client) ChangeEndpoint(ctx context.Context, id string, change EndpointChange) (job.Endpoint, error) {
	var e job.Endpoint
	err := c.ofEndpoint(ctx, http.MethodPatch, id, "", change, &e)
	return e, err
}

// DeleteEndpoint is [Endpoints.DeleteEndpoint].
func (c *Client) DeleteEndpoint(ctx context.Context, id string) error {
	if _, ok := job.TenantOfEndpoint(id); !ok {
		return job.ErrNoEndpoint
	}
	res, err := c.do(ctx, http.MethodDelete, endpointsPath+"/"+id)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// EndpointSecrets is [Endpoints.EndpointSecrets].
func (c *Client) EndpointSecrets(ctx context.Context, id string) ([]WebhookSecret, error) {
	var list WebhookSecretList
	err := c.ofEndpoint(ctx, http.MethodGet, id, "/secret", nil, &list)
	return list.Secrets, err
}

// RotateEndpointSecret is [Endpoints.RotateEndpointSecret].
func (c *Client) RotateEndpointSecret(ctx context.Context, id string, keep time.Duration) ([]WebhookSecret, error) {
	seconds := int64(keep / time.Second)
	var list WebhookSecretList
	err := c.ofEndpoint(ctx, http.MethodPost, id, "/rotate", RotateRequest{&seconds}, &list)
	return list.Secrets, err
}

// TestEndpoint is [Endpoints.TestEndpoint].
func (c *Client) TestEndpoint(ctx context.Context, id string) (Delivery, error) {
	var d Delivery
	err := c.ofEndpoint(ctx, http.MethodPost, id, "/test", struct{}{}, &d)
	return d, err
}

// EndpointAttempts is [Endpoints.EndpointAttempts].
func (c *Client) EndpointAttempts(ctx context.Context, id string, o AttemptOptions) (AttemptPage, error) {
	query := url.Values{}
	if o.Limit != 0 {
		query.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.Cursor != "" {
		query.Set("cursor", o.Cursor)
	}
	var page AttemptPage
	err := c.ofEndpoint(ctx, http.MethodGet, id, "/attempts?"+query.Encode(), nil, &page)
	return page, err
}

// RecoverEndpoint is [Endpoints.RecoverEndpoint].
func (c *Client) RecoverEndpoint(ctx context.Context, id string, since time.Time) (int, error) {
	var r Recovered
	err := c.ofEndpoint(ctx, http.MethodPost, id, "/recover", RecoverRequest{since}, &r)
	return r.Deliveries, err
}

// GetDelivery is [Endpoints.GetDelivery].
func (c *Client) GetDelivery(ctx context.Context, id string) (Delivery, error) {
	var d Delivery
	if !isDeliveryID(id) {
		return d, job.ErrNoDelivery
	}
	err := c.json(ctx, http.MethodGet, "/v1/deliveries/"+id, 0, nil, &d)
	return d, err
}

// Redeliver is [Endpoints.Redeliver].
func (c *Client) Redeliver(ctx context.Context, id string) (Delivery, error) {
	var d Delivery
	if !isDeliveryID(id) {
		return d, job.ErrNoDelivery
	}
	err := c.send(ctx, http.MethodPost, "/v1/deliveries/"+id+"/redeliver", struct{}{}, &d)
	return d, err
}

const endpointsPath = "/v1/endpoints"

// ofEndpoint asks what follows an endpoint's path.
func (c *Client) ofEndpoint(ctx context.Context, method, id, path string, body, into any) error {
	if _, ok := job.TenantOfEndpoint(id); !ok {
		return job.ErrNoEndpoint // "..", say, would mean another URL
	}
	if body == nil {
		return c.json(ctx, method, endpointsPath+"/"+id+path, 0, nil, into)
	}
	return c.send(ctx, method, endpointsPath+"/"+id+path, body, into)
}

// isDeliveryID reports whether a delivery can have that id: it keeps others out of a URL.
func isDeliveryID(id string) bool {
	return url.PathEscape(id) == id && id != "" && id != "." && id != ".."
}
