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

// TenantUsage is [producer.Tenants.TenantUsage].
func (c *Client) TenantUsage(ctx context.Context, tenant, from, to string) (job.UsageReport, error) {
	if _, err := c.TenantWebhooks(ctx, tenant); err != nil { // it is there
		return job.UsageReport{}, err
	}
	return c.For(tenant).Usage(ctx, from, to)
}
