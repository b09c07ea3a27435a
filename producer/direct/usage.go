package direct

import (
	"context"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Usage is [producer.Metering.Usage].
func (c *Client) Usage(ctx context.Context, from, to string) (job.UsageReport, error) {
	first, last, err := job.UsageRange(from, to, time.Now())
	if err != nil {
		return job.UsageReport{}, err
	}
	return c.records.Usage(ctx, c.tenant, first, last)
}

// UsageEvents is [producer.Metering.UsageEvents]. Without Links events have no source but a path.
func (c *Client) UsageEvents(ctx context.Context, from, to string) ([]job.UsageEvent, error) {
	u, err := c.Usage(ctx, from, to)
	if err != nil {
		return nil, err
	}
	source := "/v1/usage"
	if c.links != nil {
		source = c.links.UsageURL()
	}
	return u.Events(source, c.tenant, time.Now()), nil
}

// TenantUsage is [producer.Tenants.TenantUsage].
func (c *Client) TenantUsage(ctx context.Context, tenant, from, to string) (job.UsageReport, error) {
	if _, err := c.TenantWebhooks(ctx, tenant); err != nil { // it is there
		return job.UsageReport{}, err
	}
	return c.For(tenant).Usage(ctx, from, to)
}
