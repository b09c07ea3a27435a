package producer

import (
	"context"
	"net/http"
	"net/url"

	"github.com/glovebox-run/glovebox/job"
)

// Metering says what a tenant's jobs used. Safe for concurrent use.
type Metering interface {
	// Usage returns what jobs used that ended from one day to another, as "2026-11-30" in UTC. Without to it is until
	// today, without from since the first of to's month. It fails with job.Invalid.
	Usage(ctx context.Context, from, to string) (job.UsageReport, error)
	// UsageEvents returns the days of these that are over, as CloudEvents.
	UsageEvents(ctx context.Context, from, to string) ([]job.UsageEvent, error)
}

var _ Metering = (*Client)(nil)

// Usage is [Metering.Usage].
func (c *Client) Usage(ctx context.Context, from, to string) (job.UsageReport, error) {
	return c.usage(ctx, "/v1/usage", from, to)
}

// UsageEvents is [Metering.UsageEvents].
func (c *Client) UsageEvents(ctx context.Context, from, to string) (events []job.UsageEvent, err error) {
	err = c.json(ctx, http.MethodGet, "/v1/usage/events?"+days(from, to), 0, nil, &events)
	return events, err
}

// TenantUsageEvents is [Metering.UsageEvents] of a tenant, for the operator.
func (c *Client) TenantUsageEvents(ctx context.Context, tenant, from, to string) (events []job.UsageEvent, err error) {
	if !job.ValidTenant(tenant) {
		return nil, job.ErrNoTenant
	}
	err = c.json(ctx, http.MethodGet, "/v1/admin/tenants/"+tenant+"/usage/events?"+days(from, to), 0, nil, &events)
	return events, err
}

func days(from, to string) string { return url.Values{"from": {from}, "to": {to}}.Encode() }

// TenantUsage is [Tenants.TenantUsage].
func (c *Client) TenantUsage(ctx context.Context, tenant, from, to string) (job.UsageReport, error) {
	if !job.ValidTenant(tenant) {
		return job.UsageReport{}, job.ErrNoTenant // "..", say, would mean another URL
	}
	return c.usage(ctx, "/v1/admin/tenants/"+tenant+"/usage", from, to)
}

func (c *Client) usage(ctx context.Context, path, from, to string) (job.UsageReport, error) {
	var u job.UsageReport
	err := c.json(ctx, http.MethodGet, path+"?"+days(from, to), 0, nil, &u)
	return u, err
}
