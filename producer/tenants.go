package producer

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Tenants is what an operator can do about who submits jobs. [Client] does it over the API,
// with the admin token; direct.Client over Redis, whatever its own tenant. Safe for concurrent
// use.
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
	// TenantUsage is [Metering.Usage] of a tenant. It fails with job.ErrNoTenant, too.
	TenantUsage(ctx context.Context, tenant, from, to string) (job.UsageReport, error)
	// TenantWebhooks is the tenant's [Webhooks]. It, or what it is asked for, fails with
	// job.ErrNoTenant.
	TenantWebhooks(ctx context.Context, tenant string) (Webhooks, error)
}

var _ Tenants = (*Client)(nil)

// Stopped is what a call of StopTenant did, and what it left.
type Stopped struct {
	Batches int   `json:"batches" doc:"Batches that this call canceled, with their jobs."`
	Jobs    int   `json:"jobs" doc:"Other queued jobs that it canceled."`
	Asked   int   `json:"asked" doc:"Running jobs whose workers it asked to stop."`
	Queued  int64 `json:"queued" doc:"Jobs that are queued still."`
	Running int64 `json:"running" doc:"Jobs that run still."`
}

// NewToken is a token on the only occasion on which it is shown.
type NewToken struct {
	job.Token

	Secret string `json:"token" doc:"The token itself. Nobody can read it again." example:"gb_acme_…"`
}

// TenantList is what GET /v1/admin/tenants answers.
type TenantList struct {
	Tenants []job.Tenant `json:"tenants" nullable:"false"`
}

// TenantRequest is what POST /v1/admin/tenants takes.
type TenantRequest struct {
	Name  string    `json:"name" doc:"1 to 32 lower-case letters and digits." example:"acme"`
	Terms job.Terms `json:"terms,omitzero"`
}

// TermsRequest is what PUT /v1/admin/tenants/{name} takes.
type TermsRequest struct {
	Revision int64     `json:"revision" doc:"The revision that the new terms are based on."`
	Terms    job.Terms `json:"terms" doc:"The new terms, whole."`
}

// TokenRequest is what POST /v1/admin/tenants/{name}/tokens takes.
type TokenRequest struct {
	Label string `json:"label,omitempty" doc:"What you call it: up to 64 bytes." example:"ci"`
	// Scopes are what the token may do. None means all.
	Scopes []job.Scope `json:"scopes,omitempty" doc:"What the token may do: submit, read, approve, manage. None means all of them." example:"[\"submit\",\"read\"]"`
	// ExpiresAt is when the token becomes worthless. Defaults to never.
	ExpiresAt time.Time `json:"expires_at,omitzero" doc:"When the token becomes worthless, at most ten years ahead; absent for never." example:"2027-01-01T00:00:00Z"`
}

const tenantsPath = "/v1/admin/tenants"

// CreateTenant is [Tenants.CreateTenant].
func (c *Client) CreateTenant(ctx context.Context, name string, terms job.Terms) (job.Tenant, error) {
	var t job.Tenant
	err := c.send(ctx, http.MethodPost, tenantsPath, TenantRequest{name, terms}, &t)
	return t, err
}

// ListTenants is [Tenants.ListTenants].
func (c *Client) ListTenants(ctx context.Context) ([]job.Tenant, error) {
	var list TenantList
	err := c.json(ctx, http.MethodGet, tenantsPath, 0, nil, &list)
	return list.Tenants, err
}

// GetTenant is [Tenants.GetTenant].
func (c *Client) GetTenant(ctx context.Context, name string) (job.Tenant, error) {
	var t job.Tenant
	if !job.ValidTenant(name) {
		return t, job.ErrNoTenant // "..", say, would mean another URL
	}
	err := c.json(ctx, http.MethodGet, tenantsPath+"/"+name, 0, nil, &t)
	return t, err
}

// SetTerms is [Tenants.SetTerms].
func (c *Client) SetTerms(ctx context.Context, name string, revision int64, terms job.Terms) (job.Tenant, error) {
	var t job.Tenant
	if !job.ValidTenant(name) {
		return t, job.ErrNoTenant
	}
	err := c.send(ctx, http.MethodPut, tenantsPath+"/"+name, TermsRequest{revision, terms}, &t)
	return t, err
}

// StopTenant is [Tenants.StopTenant].
func (c *Client) StopTenant(ctx context.Context, name string) (Stopped, error) {
	var s Stopped
	if !job.ValidTenant(name) {
		return s, job.ErrNoTenant
	}
	err := c.json(ctx, http.MethodPost, tenantsPath+"/"+name+"/stop", 0, nil, &s)
	return s, err
}

// AddToken is [Tenants.AddToken].
func (c *Client) AddToken(ctx context.Context, tenant string, t TokenRequest) (NewToken, error) {
	var made NewToken
	if !job.ValidTenant(tenant) {
		return made, job.ErrNoTenant
	}
	err := c.send(ctx, http.MethodPost, tenantsPath+"/"+tenant+"/tokens", t, &made)
	return made, err
}

// RevokeToken is [Tenants.RevokeToken].
func (c *Client) RevokeToken(ctx context.Context, tenant, id string) error {
	switch {
	case !job.ValidTenant(tenant):
		return job.ErrNoTenant
	case id == "" || id == "." || id == "..":
		return job.ErrNoToken
	}
	res, err := c.do(ctx, http.MethodDelete, tenantsPath+"/"+tenant+"/tokens/"+url.PathEscape(id))
	if err != nil {
		return err
	}
	return res.Body.Close()
}
