package direct

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// RateLimit is what a tenant's quota of requests says to one request. Without such a
// quota it is zero.
type RateLimit struct {
	// Quota is the number of requests that Window is for.
	Quota  int64
	Window time.Duration
	// Remaining requests that would be admitted at once, Reset the time until all of
	// Quota would.
	Remaining int64
	Reset     time.Duration
	// Wait is how long a request that is refused had better wait.
	Wait time.Duration
}

// errDisabled answers every request of a tenant that is disabled.
var errDisabled = &job.Error{Code: job.CodeForbidden, Message: "this tenant is disabled; its operator knows why"}

// ErrTokenExpired means that a token was good once.
var ErrTokenExpired = errors.New("the token has expired")

// Authenticate returns whose token it is, and what is known of it, as far as the records
// know, or job.ErrNoTenant, or ErrTokenExpired. A token that was revoked less than a second ago
// may still be good.
func (c *Client) Authenticate(ctx context.Context, token string) (tenant string, known job.Token, err error) {
	tenant, ok := job.TenantOfToken(token)
	if !ok {
		return "", known, job.ErrNoTenant
	}
	t, err := c.records.Tenant(ctx, tenant)
	if err != nil {
		return "", known, err
	}
	known, ok = t.Token(token)
	switch {
	case !ok:
		return "", job.Token{}, job.ErrNoTenant
	case known.Expired(time.Now()):
		return "", known, ErrTokenExpired
	}
	c.records.NoteUse(tenant, known.ID) //nolint:contextcheck // nobody waits for it
	return tenant, known, nil
}

// TokenByID returns what is known of the tenant's token of that id. It fails with job.ErrNoTenant where there is none (any more), or with
// ErrTokenExpired.
func (c *Client) TokenByID(ctx context.Context, id string) (job.Token, error) {
	t, err := c.records.Tenant(ctx, c.tenant)
	if err != nil {
		return job.Token{}, err
	}
	i := slices.IndexFunc(t.Tokens, func(known job.Token) bool { return known.ID == id })
	switch {
	case i < 0:
		return job.Token{}, job.ErrNoTenant
	case t.Tokens[i].Expired(time.Now()):
		return job.Token{}, ErrTokenExpired
	}
	return t.Tokens[i], nil
}

// Knows reports whether a token names a tenant that this process has heard of.
func (c *Client) Knows(token string) bool {
	tenant, ok := job.TenantOfToken(token)
	return ok && c.records.KnowsTenant(tenant)
}

// Admit counts one request of the Client's tenant. It fails with a *job.Error: forbidden
// if the tenant is disabled, rate_limited beyond its quota.
func (c *Client) Admit(ctx context.Context) (RateLimit, error) {
	terms, err := c.terms(ctx)
	quota := terms.Quotas.RequestsPerMinute
	if err != nil || quota == 0 {
		return RateLimit{}, err
	}
	r, err := c.records.TakeRequest(ctx, c.tenant, quota)
	if err != nil {
		return RateLimit{}, err
	}
	a := RateLimit{Quota: quota, Window: record.RateWindow, Remaining: r.Remaining, Reset: r.Reset, Wait: r.Wait}
	if r.Wait > 0 {
		return a, &job.Error{
			Code:    job.CodeRateLimited,
			Message: fmt.Sprintf("the tenant's quota requests_per_minute (%d) is used up for now", quota),
		}
	}
	return a, nil
}

// Enabled fails with a *job.Error, forbidden, if the Client's tenant is disabled.
func (c *Client) Enabled(ctx context.Context) error {
	_, err := c.terms(ctx)
	return err
}

// terms of the Client's tenant: those without any bound where it was never created.
func (c *Client) terms(ctx context.Context) (job.Terms, error) {
	t, err := c.records.Tenant(ctx, c.tenant)
	switch {
	case errors.Is(err, job.ErrNoTenant):
		return job.Terms{}, nil
	case err != nil:
		return job.Terms{}, err
	case t.Terms.Disabled:
		return job.Terms{}, errDisabled
	}
	return t.Terms, nil
}

// allowsRuntime reports whether terms name the runtime, by its name or an alias.
func allowsRuntime(terms job.Terms, r fleet.Runtime) bool {
	for _, name := range append([]string{r.Name}, r.Aliases...) {
		if terms.AllowsRuntime(name) {
			return true
		}
	}
	return false
}
