package direct

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// WebhookSecrets is [producer.Webhooks.WebhookSecrets].
func (c *Client) WebhookSecrets(ctx context.Context) ([]producer.WebhookSecret, error) {
	signing, err := c.records.Signing(ctx, c.tenant)
	if err != nil {
		return nil, err
	}
	return c.webhookSecrets(c.tenant, signing)
}

// WebhookKeys is [producer.Webhooks.WebhookKeys].
func (c *Client) WebhookKeys(ctx context.Context) ([]producer.WebhookKey, error) {
	secrets, err := c.WebhookSecrets(ctx)
	list := make([]producer.WebhookKey, len(secrets))
	for i, s := range secrets {
		list[i] = s.WebhookKey
	}
	return list, err
}

// RotateWebhookSecret is [producer.Webhooks.RotateWebhookSecret].
func (c *Client) RotateWebhookSecret(ctx context.Context, keep time.Duration) ([]producer.WebhookSecret, error) {
	return c.rotate(c.tenant, keep, func(keep time.Duration) (record.Signing, error) {
		return c.records.RotateSigning(ctx, c.tenant, keep)
	})
}

// rotate makes a new secret by next, of the tenant or of an endpoint.
func (c *Client) rotate(of string, keep time.Duration, next func(keep time.Duration) (record.Signing, error)) ([]producer.WebhookSecret, error) {
	if c.webhookKeys == nil {
		return nil, errNoWebhookKeys // before something is rotated that could not be shown
	}
	if keep < 0 || keep > producer.MaxWebhookKeep {
		return nil, job.Invalid{{
			Field: "expire_seconds", Value: fmt.Sprintf("%.0f", keep.Seconds()), Message: "is out of range",
			Allowed: fmt.Sprintf("0 to %.0f", producer.MaxWebhookKeep.Seconds()),
		}}
	}
	signing, err := next(keep.Truncate(time.Second))
	if errors.Is(err, job.ErrRotating) {
		return nil, &job.Error{Code: job.CodeRotating, Message: fmt.Sprintf("%s, the older one until %s: wait until then, or rotate with expire_seconds 0, which leaves the new one alone",
			job.ErrRotating.Message, signing.PreviousUntil.Format(time.RFC3339))}
	}
	if err != nil {
		return nil, err
	}
	return c.webhookSecrets(of, signing)
}

var errNoWebhookKeys = errors.New("this client was opened without the operator's webhook key")

// webhookSecrets are those of the tenant, or of an endpoint.
func (c *Client) webhookSecrets(of string, signing record.Signing) ([]producer.WebhookSecret, error) {
	if c.webhookKeys == nil {
		return nil, errNoWebhookKeys
	}
	pairs, err := c.webhookKeys.Pairs(of, signing, time.Now())
	list := make([]producer.WebhookSecret, len(pairs))
	for i, p := range pairs {
		list[i] = producer.WebhookSecret{Secret: p.Secret.Reveal(), WebhookKey: producer.WebhookKey{PublicKey: p.Key.Public().String()}}
		if !p.Expires.IsZero() {
			list[i].ExpiresAt = &pairs[i].Expires
		}
	}
	return list, err
}

// TenantWebhooks is [producer.Tenants.TenantWebhooks].
func (c *Client) TenantWebhooks(ctx context.Context, tenant string) (producer.Webhooks, error) {
	if tenant != c.tenant { // who may have no record, as "default" has none
		if _, err := c.records.ReadTenant(ctx, tenant); err != nil {
			return nil, err
		}
	}
	return c.For(tenant), nil
}
