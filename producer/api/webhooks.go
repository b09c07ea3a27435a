package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/producer"
)

type webhookSecretsOutput struct{ Body producer.WebhookSecretList }

type webhookKeysOutput struct{ Body producer.WebhookKeyList }

// webhookRoutes show and rotate what signs webhooks: a tenant's own, and any tenant's to
// the operator.
func (a *API) webhookRoutes(h huma.API, d documenter) {
	const (
		shows   = "All secrets and public keys that sign the tenant's webhooks now. The first is the one to verify with from now on; an older one has expires_at while it is rotated."
		rotates = "Makes a new secret and a new public key. Until expire_seconds have passed the ones before sign each message, too, so receivers can change over one by one. 409 while two are valid, unless expire_seconds is 0: then nothing but the new ones signs from now on."
	)
	operator := func(op huma.Operation) huma.Operation {
		delete(op.Responses, "429") // an operator has no quota
		return op
	}
	rotate := func(op huma.Operation) huma.Operation {
		op.MaxBodyBytes = 4 << 10
		op.RequestBody = jsonBody()
		return op
	}
	schema := d.schema(producer.RotateRequest{})

	huma.Register(h, d.operation("get-webhook-secret", http.MethodGet, "/v1/webhook-secret", "Get what signs your webhooks",
		shows, d.problems(401, 503)), a.webhookSecrets)
	huma.Register(h, d.operation("list-webhook-keys", http.MethodGet, "/v1/webhook-keys", "List the public keys of your webhooks",
		"The public keys alone: they verify signatures of version v1a, and can make none.", d.problems(401, 503)), a.webhookKeys)
	own := rotate(d.operation("rotate-webhook-secret", http.MethodPost, "/v1/webhook-secret/rotate", "Rotate what signs your webhooks",
		rotates, d.problems(400, 401, 409, 413, 415, 422, 503)))
	huma.Register(h, own, a.rotateWebhookSecret)
	own.RequestBody.Content["application/json"].Schema = schema

	const path = "/v1/admin/tenants/{name}/webhook-secret"
	huma.Register(h, operator(d.operation("get-tenant-webhook-secret", http.MethodGet, path, "Get what signs a tenant's webhooks",
		shows, d.problems(401, 404, 503))), a.tenantWebhookSecrets)
	tenants := operator(rotate(d.operation("rotate-tenant-webhook-secret", http.MethodPost, path+"/rotate", "Rotate what signs a tenant's webhooks",
		rotates, d.problems(400, 401, 404, 409, 413, 415, 422, 503))))
	huma.Register(h, tenants, a.rotateTenantWebhookSecret)
	tenants.RequestBody.Content["application/json"].Schema = schema
}

func (a *API) webhookSecrets(ctx context.Context, _ *struct{}) (*webhookSecretsOutput, error) {
	return a.showWebhookSecrets(ctx, a.tenantClient(ctx))
}

func (a *API) webhookKeys(ctx context.Context, _ *struct{}) (*webhookKeysOutput, error) {
	list, err := a.tenantClient(ctx).WebhookKeys(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &webhookKeysOutput{producer.WebhookKeyList{Keys: list}}, nil
}

func (a *API) rotateWebhookSecret(ctx context.Context, _ *struct{}) (*webhookSecretsOutput, error) {
	return a.rotateSecretOf(ctx, a.tenantClient(ctx))
}

func (a *API) tenantWebhookSecrets(ctx context.Context, in *tenantInput) (*webhookSecretsOutput, error) {
	tenant, err := a.client.TenantWebhooks(ctx, in.Name)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return a.showWebhookSecrets(ctx, tenant)
}

func (a *API) rotateTenantWebhookSecret(ctx context.Context, in *tenantInput) (*webhookSecretsOutput, error) {
	tenant, err := a.client.TenantWebhooks(ctx, in.Name)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return a.rotateSecretOf(ctx, tenant)
}

func (a *API) showWebhookSecrets(ctx context.Context, of producer.Webhooks) (*webhookSecretsOutput, error) {
	list, err := of.WebhookSecrets(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &webhookSecretsOutput{producer.WebhookSecretList{Secrets: list}}, nil
}

func (a *API) rotateSecretOf(ctx context.Context, of producer.Webhooks) (*webhookSecretsOutput, error) {
	body, done, err := readBody[producer.RotateRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	list, err := of.RotateWebhookSecret(ctx, body.Keep())
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &webhookSecretsOutput{producer.WebhookSecretList{Secrets: list}}, nil
}
