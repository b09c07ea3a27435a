package direct

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// StopTenant is [producer.Tenants.StopTenant].
func (c *Client) StopTenant(ctx context.Context, name string) (producer.Stopped, error) {
	t, err := c.records.ReadTenant(ctx, name)
	if err != nil {
		return producer.Stopped{}, err
	}
	if !t.Terms.Disabled {
		return producer.Stopped{}, job.ErrNotDisabled
	}
	s, err := c.records.StopTenant(ctx, name)
	return producer.Stopped(s), err
}

// CreateTenant is [producer.Tenants.CreateTenant].
func (c *Client) CreateTenant(ctx context.Context, name string, terms job.Terms) (job.Tenant, error) {
	if !job.ValidTenant(name) {
		return job.Tenant{}, job.Invalid{{
			Field: "name", Value: fmt.Sprintf("%.64s", name), Message: "is no name of a tenant", Allowed: "1 to 32 lower-case letters and digits",
		}}
	}
	if err := checkTerms(terms); err != nil {
		return job.Tenant{}, err
	}
	terms.Quotas = terms.Quotas.Or(c.quotas)
	t, err := c.records.CreateTenant(ctx, name, terms)
	return t.Tenant, err
}

// ListTenants is [producer.Tenants.ListTenants].
func (c *Client) ListTenants(ctx context.Context) ([]job.Tenant, error) {
	records, err := c.records.Tenants(ctx)
	list := make([]job.Tenant, len(records))
	for i, t := range records {
		list[i] = t.Tenant
	}
	return list, err
}

// GetTenant is [producer.Tenants.GetTenant].
func (c *Client) GetTenant(ctx context.Context, name string) (job.Tenant, error) {
	t, err := c.records.ReadTenant(ctx, name)
	return t.Tenant, err
}

// SetTerms is [producer.Tenants.SetTerms].
func (c *Client) SetTerms(ctx context.Context, name string, revision int64, terms job.Terms) (job.Tenant, error) {
	if err := checkTerms(terms); err != nil {
		return job.Tenant{}, err
	}
	t, err := c.records.SetTerms(ctx, name, revision, terms)
	return t.Tenant, err
}

// AddToken is [producer.Tenants.AddToken].
func (c *Client) AddToken(ctx context.Context, tenant string, t producer.TokenRequest) (producer.NewToken, error) {
	if problem := job.CheckLabel(t.Label); problem != "" {
		return producer.NewToken{}, job.Invalid{{
			Field: "label", Value: fmt.Sprintf("%.64q", t.Label), Message: problem,
			Allowed: fmt.Sprintf("0 to %d bytes that can be printed", job.MaxLabelBytes),
		}}
	}
	if err := job.CheckScopes(t.Scopes); err != nil {
		return producer.NewToken{}, err
	}
	like := job.Token{Label: t.Label, Scopes: t.Scopes}
	if at := t.ExpiresAt; !at.IsZero() {
		if now := time.Now(); !at.After(now) || at.After(now.Add(job.MaxTokenLife)) {
			return producer.NewToken{}, job.Invalid{{
				Field: "expires_at", Value: at.UTC().Format(time.RFC3339), Message: "is no time at which a token can expire",
				Allowed: "a time within the next ten years, or none",
			}}
		}
		like.ExpiresAt = &at
	}
	secret, known, err := c.records.AddToken(ctx, tenant, like)
	return producer.NewToken{Token: known, Secret: secret}, err
}

// RevokeToken is [producer.Tenants.RevokeToken].
func (c *Client) RevokeToken(ctx context.Context, tenant, id string) error {
	return c.records.RevokeToken(ctx, tenant, id)
}

// checkTerms returns what is wrong with terms as job.Invalid, or nil. Rules are read here, as nothing gets past one that can't be.
func checkTerms(t job.Terms) error {
	if err := t.Check(); err != nil {
		return err
	}
	_, err := policy.Parse("terms.policy", t.Policy)
	return err
}
