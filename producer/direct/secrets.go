package direct

import (
	"context"

	"github.com/glovebox-run/glovebox/job"
)

// SetSecret is [producer.Secrets.SetSecret]. The value leaves this process sealed to the workers'
// key.
func (c *Client) SetSecret(ctx context.Context, name, value string) (job.Secret, error) {
	if err := job.CheckSecret(name, value); err != nil {
		return job.Secret{}, err
	}
	if _, err := c.terms(ctx); err != nil {
		return job.Secret{}, err
	}
	key, err := c.records.Fleet.SecretsKey(ctx)
	if err != nil {
		return job.Secret{}, err
	}
	sealed, err := key.Seal(c.tenant, name, []byte(value))
	if err != nil {
		return job.Secret{}, err
	}
	return c.secrets.Set(ctx, c.tenant, name, sealed)
}

// DeleteSecret is [producer.Secrets.DeleteSecret].
func (c *Client) DeleteSecret(ctx context.Context, name string) error {
	return c.secrets.Delete(ctx, c.tenant, name)
}

// ListSecrets is [producer.Secrets.ListSecrets].
func (c *Client) ListSecrets(ctx context.Context) ([]job.Secret, error) {
	return c.secrets.List(ctx, c.tenant)
}
