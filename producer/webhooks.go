package producer

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Webhooks is what a tenant has that proves its webhooks: secrets that it shares with
// Glovebox, and public keys. Safe for concurrent use.
type Webhooks interface {
	// WebhookSecrets returns all that sign the tenant's messages now. The first is the one
	// to verify with from now on.
	WebhookSecrets(ctx context.Context) ([]WebhookSecret, error)
	// WebhookKeys returns the public keys alone.
	WebhookKeys(ctx context.Context) ([]WebhookKey, error)
	// RotateWebhookSecret makes a new secret and a new key. The ones before sign for keep
	// longer, whole seconds up to MaxWebhookKeep; with 0 only the new ones sign from now on.
	// It fails with job.Invalid, or with job.ErrRotating while two are valid, unless keep is 0.
	RotateWebhookSecret(ctx context.Context, keep time.Duration) ([]WebhookSecret, error)
}

var _ Webhooks = (*Client)(nil)

const (
	// DefaultWebhookKeep is how long a secret signs beside a new one.
	DefaultWebhookKeep = 24 * time.Hour
	// MaxWebhookKeep is the longest that it may.
	MaxWebhookKeep = 7 * 24 * time.Hour
)

// WebhookKey is a public key that verifies webhooks, signatures of version v1a.
type WebhookKey struct {
	PublicKey string     `json:"public_key" doc:"Verifies signatures of version v1a (Ed25519), and can make none." example:"whpk_…"`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"When it signs no more; absent as long as it has not been rotated."`
}

// WebhookSecret is a secret that verifies webhooks, signatures of version v1, and the key
// of the same generation.
type WebhookSecret struct {
	Secret string `json:"secret" doc:"Signs and verifies signatures of version v1 (HMAC-SHA256): whoever has it can sign." example:"whsec_…"`
	WebhookKey
}

// WebhookSecretList is what GET /v1/webhook-secret answers.
type WebhookSecretList struct {
	Secrets []WebhookSecret `json:"secrets" doc:"All that sign the tenant's messages now. The first is the one to use from now on." nullable:"false"`
}

// WebhookKeyList is what GET /v1/webhook-keys answers.
type WebhookKeyList struct {
	Keys []WebhookKey `json:"keys" doc:"The public keys of all that sign the tenant's messages now." nullable:"false"`
}

// RotateRequest is what POST /v1/webhook-secret/rotate takes.
type RotateRequest struct {
	ExpireSeconds *int64 `json:"expire_seconds,omitempty" doc:"How long the secret until now signs beside the new one: 0 to 604800, 86400 by default. With 0 nothing but the new one signs from now on." example:"86400"`
}

// Keep is what the request says, or the default.
func (r RotateRequest) Keep() time.Duration {
	if r.ExpireSeconds == nil {
		return DefaultWebhookKeep
	}
	const most = int64(math.MaxInt64 / time.Second)
	return time.Duration(min(max(*r.ExpireSeconds, -most), most)) * time.Second
}

const webhookSecretPath = "/v1/webhook-secret"

// WebhookSecrets is [Webhooks.WebhookSecrets].
func (c *Client) WebhookSecrets(ctx context.Context) ([]WebhookSecret, error) {
	return tenantWebhooks{c, webhookSecretPath}.WebhookSecrets(ctx)
}

// WebhookKeys is [Webhooks.WebhookKeys].
func (c *Client) WebhookKeys(ctx context.Context) ([]WebhookKey, error) {
	var list WebhookKeyList
	err := c.json(ctx, http.MethodGet, "/v1/webhook-keys", 0, nil, &list)
	return list.Keys, err
}

// RotateWebhookSecret is [Webhooks.RotateWebhookSecret].
func (c *Client) RotateWebhookSecret(ctx context.Context, keep time.Duration) ([]WebhookSecret, error) {
	return tenantWebhooks{c, webhookSecretPath}.RotateWebhookSecret(ctx, keep)
}

// TenantWebhooks is [Tenants.TenantWebhooks].
func (c *Client) TenantWebhooks(_ context.Context, tenant string) (Webhooks, error) {
	if !job.ValidTenant(tenant) {
		return nil, job.ErrNoTenant // "..", say, would mean another URL
	}
	return tenantWebhooks{c, tenantsPath + "/" + tenant + "/webhook-secret"}, nil
}

// tenantWebhooks is [Webhooks] at a path: a tenant's own, or the operator's for it.
type tenantWebhooks struct {
	client *Client
	path   string
}

func (t tenantWebhooks) WebhookSecrets(ctx context.Context) ([]WebhookSecret, error) {
	var list WebhookSecretList
	err := t.client.json(ctx, http.MethodGet, t.path, 0, nil, &list)
	return list.Secrets, err
}

func (t tenantWebhooks) WebhookKeys(ctx context.Context) ([]WebhookKey, error) {
	secrets, err := t.WebhookSecrets(ctx)
	list := make([]WebhookKey, len(secrets))
	for i, s := range secrets {
		list[i] = s.WebhookKey
	}
	return list, err
}

func (t tenantWebhooks) RotateWebhookSecret(ctx context.Context, keep time.Duration) ([]WebhookSecret, error) {
	seconds := int64(keep / time.Second)
	var list WebhookSecretList
	err := t.client.send(ctx, http.MethodPost, t.path+"/rotate", RotateRequest{&seconds}, &list)
	return list.Secrets, err
}
