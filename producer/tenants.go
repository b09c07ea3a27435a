package producer

import (
	"context"

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

var _ Tenants = (*HTTP)(nil)

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
