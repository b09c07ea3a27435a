package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type setSecretInput struct {
	Name string `path:"name" doc:"The secret's name: the environment variable that it becomes."`
}

type secretInput struct {
	Name string `path:"name" doc:"The secret's name."`
}

type secretOutput struct{ Body job.Secret }

type secretsOutput struct{ Body producer.SecretList }

// secretRoutes are for tenants' own tokens. None of them answers what a secret is.
func (a *API) secretRoutes(h huma.API, d documenter) {
	set := d.operation("set-secret", http.MethodPut, "/v1/secrets/{name}", "Store a secret",
		"Stores a secret for jobs that name it in secrets[], in the place of one of that name. It is sealed to the workers' key: nobody reads it back. Jobs that start from then on have it.",
		d.problems(400, 401, 409, 413, 415, 422, 503))
	set.MaxBodyBytes = recordBody
	set.RequestBody = jsonBody()
	huma.Register(h, set, a.setSecret)
	set.RequestBody.Content["application/json"].Schema = d.schema(producer.SecretRequest{})

	huma.Register(h, d.operation("list-secrets", http.MethodGet, "/v1/secrets", "List secrets",
		"The names of the tenant's secrets and when they were set, never what they are.", d.problems(401, 503)), a.listSecrets)
	remove := d.operation("delete-secret", http.MethodDelete, "/v1/secrets/{name}", "Delete a secret",
		"Jobs that are queued and name it will fail.", d.problems(401, 404, 503))
	remove.DefaultStatus = http.StatusNoContent
	huma.Register(h, remove, a.deleteSecret)
}

func (a *API) setSecret(ctx context.Context, in *setSecretInput) (*secretOutput, error) {
	request, done, err := readBody[producer.SecretRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	s, err := a.tenantClient(ctx).SetSecret(ctx, in.Name, request.Value)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &secretOutput{s}, nil
}

func (a *API) listSecrets(ctx context.Context, _ *struct{}) (*secretsOutput, error) {
	list, err := a.tenantClient(ctx).ListSecrets(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &secretsOutput{producer.SecretList{Secrets: list}}, nil
}

func (a *API) deleteSecret(ctx context.Context, in *secretInput) (*struct{}, error) {
	if err := a.tenantClient(ctx).DeleteSecret(ctx, in.Name); err != nil {
		return nil, a.problem(ctx, err)
	}
	return nil, nil //nolint:nilnil // huma's way to answer nothing
}
