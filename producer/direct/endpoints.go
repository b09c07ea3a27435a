package direct

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/webhook"
)

// CreateEndpoint is [producer.Endpoints.CreateEndpoint].
func (c *Client) CreateEndpoint(ctx context.Context, s job.EndpointSettings) (producer.NewEndpoint, error) {
	if c.webhookKeys == nil {
		return producer.NewEndpoint{}, errNoWebhookKeys
	}
	terms, err := c.terms(ctx)
	if err != nil {
		return producer.NewEndpoint{}, err
	}
	if err := c.checkEndpoint(s, terms); err != nil {
		return producer.NewEndpoint{}, err
	}
	id := job.NewEndpointID(c.tenant)
	sealed, err := c.sealHeaders(id, s.Headers)
	if err != nil {
		return producer.NewEndpoint{}, err
	}
	s.Headers = nil
	e, err := c.records.CreateEndpoint(ctx, id, record.EndpointSettings{EndpointSettings: s.Filled(), Sealed: sealed})
	if err != nil {
		return producer.NewEndpoint{}, err
	}
	e.Health.State = job.EndpointOK
	if e.Disabled {
		e.Health.State = job.EndpointDisabled
	}
	pairs, err := c.webhookKeys.Pairs(e.ID, record.Signing{Generation: 1}, time.Now())
	if err != nil {
		return producer.NewEndpoint{}, err
	}
	return producer.NewEndpoint{Endpoint: e, Secret: pairs[0].Secret.Reveal(), PublicKey: pairs[0].Key.Public().String()}, nil
}

// checkEndpoint fails with job.Invalid for settings that no endpoint of the tenant can have.
func (c *Client) checkEndpoint(s job.EndpointSettings, terms job.Terms) error {
	if err := s.Check(); err != nil {
		return err
	}
	return c.checkURL("url", s.URL, terms)
}

// checkURL refuses a URL to which nothing could be delivered, or not for this tenant: each attempt
// would say so.
func (c *Client) checkURL(field, url string, terms job.Terms) error {
	check := webhook.CheckURL
	if c.guard != nil {
		check = c.guard.CheckURL
	}
	wrong := job.FieldError{Field: field, Value: fmt.Sprintf("%.120s", url)}
	switch err := check(url); {
	case errors.Is(err, webhook.ErrBlocked):
		wrong.Message, wrong.Allowed = err.Error(), "a host name, a public address, or one that the operator allows"
	case err != nil:
		wrong.Message, wrong.Allowed = err.Error(), "https://host[:port]/path, the host a name or an address"
	case !terms.AllowsCallback(url):
		wrong.Message, wrong.Allowed = "leads to a host that this tenant may not use", fmt.Sprintf("hosts: %.500s", strings.Join(terms.CallbackHosts, ", "))
	default:
		return nil
	}
	return job.Invalid{wrong}
}

// ListEndpoints is [producer.Endpoints.ListEndpoints].
func (c *Client) ListEndpoints(ctx context.Context) ([]job.Endpoint, error) {
	list, err := c.records.Endpoints(ctx, c.tenant)
	if err != nil {
		return nil, err
	}
	if list == nil {
		list = []job.Endpoint{}
	}
	return list, c.records.AddHealth(ctx, c.tenant, list)
}

// GetEndpoint is [producer.Endpoints.GetEndpoint].
func (c *Client) GetEndpoint(ctx context.Context, id string) (job.Endpoint, error) {
	e, err := c.records.Endpoint(ctx, c.tenant, id)
	if err != nil {
		return job.Endpoint{}, err
	}
	list := []job.Endpoint{e}
	err = c.records.AddHealth(ctx, c.tenant, list)
	return list[0], err
}

// ChangeEndpoint is [producer.Endpoints.ChangeEndpoint].
func (c *Client) ChangeEndpoint(ctx context.Context, id string, change producer.EndpointChange) (job.Endpoint, error) {
	terms, err := c.terms(ctx)
	if err != nil {
		return job.Endpoint{}, err
	}
	enable := change.Disabled != nil && !*change.Disabled
	err = c.records.ChangeEndpoint(ctx, c.tenant, id, enable, func(s *record.EndpointSettings) error {
		before := s.URL
		change.Apply(&s.EndpointSettings)
		wrong := s.Check()
		if change.URL != nil || enable { // else it leads where it did, which may not be allowed any more
			wrong = c.checkEndpoint(s.EndpointSettings, terms)
		}
		if wrong != nil {
			return wrong
		}
		s.EndpointSettings = s.Filled()
		switch {
		case change.Headers != nil:
			s.Sealed, err = c.sealHeaders(id, *change.Headers)
			return err
		case !s.Sealed.IsZero() && !sameOrigin(before, s.URL): // they are for one host, and whoever changes the URL is not to learn them
			return job.Invalid{{Field: "headers", Message: "are kept for another host than that of the new URL", Allowed: "headers given anew with the URL, or {}"}}
		}
		return nil
	})
	if err != nil {
		return job.Endpoint{}, err
	}
	return c.GetEndpoint(ctx, id)
}

// DeleteEndpoint is [producer.Endpoints.DeleteEndpoint].
func (c *Client) DeleteEndpoint(ctx context.Context, id string) error {
	return c.records.DeleteEndpoint(ctx, c.tenant, id)
}

// EndpointSecrets is [producer.Endpoints.EndpointSecrets].
func (c *Client) EndpointSecrets(ctx context.Context, id string) ([]producer.WebhookSecret, error) {
	signing, err := c.records.EndpointSigning(ctx, c.tenant, id)
	if err != nil {
		return nil, err
	}
	return c.webhookSecrets(id, signing)
}

// RotateEndpointSecret is [producer.Endpoints.RotateEndpointSecret].
func (c *Client) RotateEndpointSecret(ctx context.Context, id string, keep time.Duration) ([]producer.WebhookSecret, error) {
	return c.rotate(id, keep, func(keep time.Duration) (record.Signing, error) {
		return c.records.RotateEndpointSigning(ctx, c.tenant, id, keep)
	})
}

// TestEndpoint is [producer.Endpoints.TestEndpoint].
func (c *Client) TestEndpoint(ctx context.Context, id string) (producer.Delivery, error) {
	if _, err := c.terms(ctx); err != nil {
		return producer.Delivery{}, err
	}
	did, err := c.records.TestEndpoint(ctx, c.tenant, id)
	if err != nil {
		return producer.Delivery{}, err
	}
	return c.GetDelivery(ctx, did)
}

// EndpointAttempts is [producer.Endpoints.EndpointAttempts].
func (c *Client) EndpointAttempts(ctx context.Context, id string, o producer.AttemptOptions) (producer.AttemptPage, error) {
	if o.Limit == 0 {
		o.Limit = producer.DefaultAttemptPage
	}
	if o.Limit < 1 || o.Limit > producer.MaxAttemptPage {
		return producer.AttemptPage{}, job.Invalid{{Field: "limit", Value: o.Limit, Message: "is out of range", Allowed: fmt.Sprintf("1 to %d", producer.MaxAttemptPage)}}
	}
	if o.Cursor != "" && (!job.ValidEventID(o.Cursor) || strings.Trim(o.Cursor, "0-") == "") { // nothing is before the least
		return producer.AttemptPage{}, job.Invalid{{Field: "cursor", Value: fmt.Sprintf("%.40s", o.Cursor), Message: "is no cursor", Allowed: "the next_cursor of a page"}}
	}
	if _, err := c.records.Endpoint(ctx, c.tenant, id); err != nil {
		return producer.AttemptPage{}, err
	}
	list, next, err := c.records.EndpointAttempts(ctx, c.tenant, id, o.Cursor, o.Limit)
	return producer.AttemptPage{Attempts: list, Next: next}, err
}
