package producer

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Tenants is what an operator can do about who submits jobs. [Client] does it over
// Redis, whatever its own tenant, [HTTP] over the API, with the admin token. Safe for
// concurrent use.
type Tenants interface {
	// CreateTenant makes a tenant that has no token yet. A quota that its terms leave at 0
	// is the operator's for new tenants; SetTerms can lift it. It fails with job.Invalid or
	// job.ErrTenantExists.
	CreateTenant(ctx context.Context, name string, terms job.Terms) (job.Tenant, error)
	// ListTenants lists all of them, by name. A tenant that was never created is not
	// among them, though there may be jobs of it: "default" is such a one.
	ListTenants(ctx context.Context) ([]job.Tenant, error)
	// GetTenant returns a tenant, or job.ErrNoTenant.
	GetTenant(ctx context.Context, name string) (job.Tenant, error)
	// SetTerms replaces the terms of a tenant whose revision it still is. They hold
	// everywhere within a second, for what is submitted from then on. It fails with
	// job.Invalid, job.ErrNoTenant or job.ErrRevision.
	SetTerms(ctx context.Context, name string, revision int64, terms job.Terms) (job.Tenant, error)
	// StopTenant cancels what the tenant, which has to be disabled, has queued, running and
	// open: as much as can be done in some seconds. Whoever wants it all stopped calls it until
	// nothing is left. It fails with job.ErrNoTenant or job.ErrNotDisabled.
	StopTenant(ctx context.Context, name string) (Stopped, error)
	// AddToken makes another token of the tenant: this answer is the only one that has
	// it. It fails with job.Invalid, job.ErrNoTenant or job.ErrTooManyTokens.
	AddToken(ctx context.Context, tenant string, t TokenRequest) (NewToken, error)
	// RevokeToken makes a token worthless, everywhere within a second. It fails with
	// job.ErrNoTenant or job.ErrNoToken.
	RevokeToken(ctx context.Context, tenant, id string) error
	// TenantWebhooks is the tenant's [Webhooks]. It, or what it is asked for, fails with
	// job.ErrNoTenant.
	TenantWebhooks(ctx context.Context, tenant string) (Webhooks, error)
}

var (
	_ Tenants = (*Client)(nil)
	_ Tenants = (*HTTP)(nil)
)

// Stopped is what a call of StopTenant did, and what it left.
type Stopped struct {
	Batches int   `json:"batches" doc:"Batches that this call canceled, with their jobs."`
	Jobs    int   `json:"jobs" doc:"Other queued jobs that it canceled."`
	Asked   int   `json:"asked" doc:"Running jobs whose workers it asked to stop."`
	Queued  int64 `json:"queued" doc:"Jobs that are queued still."`
	Running int64 `json:"running" doc:"Jobs that run still."`
}

// StopTenant is [Tenants.StopTenant].
func (c *Client) StopTenant(ctx context.Context, name string) (Stopped, error) {
	t, err := c.records.ReadTenant(ctx, name)
	if err != nil {
		return Stopped{}, err
	}
	if !t.Terms.Disabled {
		return Stopped{}, job.ErrNotDisabled
	}
	s, err := c.records.StopTenant(ctx, name)
	return Stopped(s), err
}

// NewToken is a token on the only occasion on which it is shown.
type NewToken struct {
	job.Token

	Secret string `json:"token" doc:"The token itself. Nobody can read it again." example:"gb_acme_…"`
}

// CreateTenant is [Tenants.CreateTenant].
func (c *Client) CreateTenant(ctx context.Context, name string, terms job.Terms) (job.Tenant, error) {
	if !job.ValidTenant(name) {
		return job.Tenant{}, job.Invalid{{
			Field: "name", Value: fmt.Sprintf("%.64s", name), Message: "is no name of a tenant", Allowed: "1 to 32 lower-case letters and digits",
		}}
	}
	if err := terms.Check(); err != nil {
		return job.Tenant{}, err
	}
	terms.Quotas = terms.Quotas.Or(c.quotas)
	t, err := c.records.CreateTenant(ctx, name, terms)
	return t.Tenant, err
}

// ListTenants is [Tenants.ListTenants].
func (c *Client) ListTenants(ctx context.Context) ([]job.Tenant, error) {
	records, err := c.records.Tenants(ctx)
	list := make([]job.Tenant, len(records))
	for i, t := range records {
		list[i] = t.Tenant
	}
	return list, err
}

// GetTenant is [Tenants.GetTenant].
func (c *Client) GetTenant(ctx context.Context, name string) (job.Tenant, error) {
	t, err := c.records.ReadTenant(ctx, name)
	return t.Tenant, err
}

// SetTerms is [Tenants.SetTerms].
func (c *Client) SetTerms(ctx context.Context, name string, revision int64, terms job.Terms) (job.Tenant, error) {
	if err := terms.Check(); err != nil {
		return job.Tenant{}, err
	}
	t, err := c.records.SetTerms(ctx, name, revision, terms)
	return t.Tenant, err
}

// AddToken is [Tenants.AddToken].
func (c *Client) AddToken(ctx context.Context, tenant string, t TokenRequest) (NewToken, error) {
	if problem := job.CheckLabel(t.Label); problem != "" {
		return NewToken{}, job.Invalid{{
			Field: "label", Value: fmt.Sprintf("%.64q", t.Label), Message: problem,
			Allowed: fmt.Sprintf("0 to %d bytes that can be printed", job.MaxLabelBytes),
		}}
	}
	if err := job.CheckScopes(t.Scopes); err != nil {
		return NewToken{}, err
	}
	like := job.Token{Label: t.Label, Scopes: t.Scopes}
	if at := t.ExpiresAt; !at.IsZero() {
		if now := time.Now(); !at.After(now) || at.After(now.Add(job.MaxTokenLife)) {
			return NewToken{}, job.Invalid{{
				Field: "expires_at", Value: at.UTC().Format(time.RFC3339), Message: "is no time at which a token can expire",
				Allowed: "a time within the next ten years, or none",
			}}
		}
		like.ExpiresAt = &at
	}
	secret, known, err := c.records.AddToken(ctx, tenant, like)
	return NewToken{known, secret}, err
}

// RevokeToken is [Tenants.RevokeToken].
func (c *Client) RevokeToken(ctx context.Context, tenant, id string) error {
	return c.records.RevokeToken(ctx, tenant, id)
}
