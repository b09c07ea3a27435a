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
	// delivery, which GetDelivery tells more of. It fails with a *job.Error of
	// code quota_exceeded where the tenant's records have no room for that.
	TestEndpoint(ctx context.Context, id string) (Delivery, error)
	// EndpointAttempts lists attempts at deliveries to it, the newest first.
	EndpointAttempts(ctx context.Context, id string, o AttemptOptions) (AttemptPage, error)
	// RecoverEndpoint has deliveries to it that have failed made once more, under their message ids, or all that has
	// ended delivered that it was not told of. There may be more to be made: see [Recovered].
	RecoverEndpoint(ctx context.Context, id string, r RecoverRequest) (Recovered, error)
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

// What a [RecoverRequest] asks for.
const (
	RecoverFailed = "failed"
	RecoverAll    = "all"
)

// EndpointChange is what PATCH /v1/endpoints/{id} takes: what is nil stays as it is.
type EndpointChange struct {
	URL         *string             `json:"url,omitempty"`
	Description *string             `json:"description,omitempty"`
	Events      *[]string           `json:"events,omitempty" doc:"In the place of those that it has; none for all."`
	Headers     *map[string]string  `json:"headers,omitempty" doc:"In the place of all that it has; {} for none. Where the URL leads to another host they have to be given anew."`
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
	if c.Headers != nil {
		s.Headers = *c.Headers
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
	Since time.Time `json:"since" doc:"failed: deliveries that failed at this time or later. all: of jobs, batches and runs that were created then or later." example:"2026-11-20T09:00:00Z"`
	Until time.Time `json:"until,omitzero" doc:"And before this time; now by default." example:"2026-11-21T09:00:00Z"`
	Which string    `json:"which,omitempty" enum:"failed,all" doc:"failed, the default: deliveries that failed. all: whatever has ended that the endpoint's events and filter match, so that a new endpoint is told of the past; what it has been told of is left out."`
	// Cursor is the Next of the answer before.
	Cursor string `json:"cursor,omitempty" doc:"With all: next_cursor of the answer before, with which the request is repeated."`
}

// Check returns what is wrong with the request as job.Invalid, or nil. The cursor is not looked at.
func (r RecoverRequest) Check() error {
	var errs job.Invalid
	switch {
	case r.Since.IsZero():
		errs = append(errs, job.FieldError{Field: "since", Message: "is missing", Allowed: "a time, RFC 3339: 2026-11-20T09:00:00Z"})
	case !r.Until.IsZero() && !r.Until.After(r.Since):
		errs = append(errs, job.FieldError{Field: "until", Value: r.Until, Message: "is not after since", Allowed: "a later time, RFC 3339"})
	}
	if r.Which != "" && r.Which != RecoverFailed && r.Which != RecoverAll {
		errs = append(errs, job.FieldError{Field: "which", Value: job.Clip(r.Which, 64), Message: "is not known", Allowed: RecoverFailed + ", " + RecoverAll})
	}
	if r.Cursor != "" && r.Which != RecoverAll {
		errs = append(errs, job.FieldError{Field: "cursor", Value: job.Clip(r.Cursor, 64), Message: "is for which: all", Allowed: "nothing"})
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// Recovered is what it answers.
type Recovered struct {
	Deliveries int `json:"deliveries" doc:"How many deliveries are made: 10,000 at most. Of those that failed, ask again until it is 0."`
	// Next is what to go on with; "" where nothing is left, and where only what failed was asked for.
	Next string `json:"next_cursor,omitempty" doc:"With all: ask again with this as cursor; absent where nothing is left."`
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
func (c *Client) RecoverEndpoint(ctx context.Context, id string, r RecoverRequest) (Recovered, error) {
	var made Recovered
	err := c.ofEndpoint(ctx, http.MethodPost, id, "/recover", r, &made)
	return made, err
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
