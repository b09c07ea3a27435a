package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type tenantInput struct {
	Name string `path:"name" doc:"The tenant's name."`
}

type tokenInput struct {
	Name  string `path:"name" doc:"The tenant's name."`
	Token string `path:"token" doc:"The token's id."`
}

type tenantOutput struct{ Body job.Tenant }

type tenantsOutput struct{ Body producer.TenantList }

type stoppedOutput struct{ Body producer.Stopped }

type tokenOutput struct{ Body producer.NewToken }

// tenantRoutes are the admin API: for the operator's token, not for tenants'.
func (a *API) tenantRoutes(h huma.API, d documenter) {
	admin := func(id, method, path, summary, description string, responses ...map[string]*huma.Response) huma.Operation {
		op := d.operation(id, method, "/v1/admin"+path, summary, description, responses...)
		delete(op.Responses, "429") // an operator has no quota
		return op
	}
	withBody := func(op huma.Operation) huma.Operation {
		op.MaxBodyBytes = recordBody
		op.RequestBody = jsonBody()
		return op
	}

	create := withBody(admin("create-tenant", http.MethodPost, "/tenants", "Create a tenant",
		"The tenant has no token yet.", d.problems(400, 401, 409, 413, 415, 422, 503)))
	create.DefaultStatus = http.StatusCreated
	huma.Register(h, create, a.createTenant)
	create.RequestBody.Content["application/json"].Schema = d.schema(producer.TenantRequest{})

	huma.Register(h, admin("list-tenants", http.MethodGet, "/tenants", "List tenants", "", d.problems(401, 503)), a.listTenants)
	huma.Register(h, admin("get-tenant", http.MethodGet, "/tenants/{name}", "Get a tenant", "", d.problems(401, 404, 503)), a.getTenant)

	update := withBody(admin("set-terms", http.MethodPut, "/tenants/{name}", "Replace a tenant's terms",
		"The terms hold everywhere within a second, for what is submitted from then on. 409 when they are not those of the revision any more.",
		d.problems(400, 401, 404, 409, 413, 415, 422, 503)))
	huma.Register(h, update, a.setTerms)
	update.RequestBody.Content["application/json"].Schema = d.schema(producer.TermsRequest{})

	huma.Register(h, admin("stop-tenant", http.MethodPost, "/tenants/{name}/stop", "Stop what a disabled tenant has",
		"Cancels its open batches and queued jobs, and asks the workers of its running jobs to stop: as much as can be done in some seconds. Ask again until nothing is queued and nothing runs. 409 for a tenant that is not disabled.",
		d.problems(401, 404, 409, 503)), a.stopTenant)

	add := withBody(admin("add-token", http.MethodPost, "/tenants/{name}/tokens", "Make another token of a tenant",
		"This answer is the only one that has the token.", d.problems(400, 401, 404, 409, 413, 415, 422, 503)))
	add.DefaultStatus = http.StatusCreated
	huma.Register(h, add, a.addToken)
	add.RequestBody.Content["application/json"].Schema = d.schema(producer.TokenRequest{})

	revoke := admin("revoke-token", http.MethodDelete, "/tenants/{name}/tokens/{token}", "Revoke a token",
		"The token is worthless everywhere within a second.", d.problems(401, 404, 503))
	revoke.DefaultStatus = http.StatusNoContent
	huma.Register(h, revoke, a.revokeToken)
}

func (a *API) createTenant(ctx context.Context, _ *struct{}) (*tenantOutput, error) {
	body, done, err := readBody[producer.TenantRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	noteOf(ctx).object = clip(body.Name)
	t, err := a.client.CreateTenant(ctx, body.Name, body.Terms)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &tenantOutput{t}, nil
}

func (a *API) listTenants(ctx context.Context, _ *struct{}) (*tenantsOutput, error) {
	list, err := a.client.ListTenants(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &tenantsOutput{producer.TenantList{Tenants: list}}, nil
}

func (a *API) getTenant(ctx context.Context, in *tenantInput) (*tenantOutput, error) {
	t, err := a.client.GetTenant(ctx, in.Name)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &tenantOutput{t}, nil
}

func (a *API) setTerms(ctx context.Context, in *tenantInput) (*tenantOutput, error) {
	body, done, err := readBody[producer.TermsRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	t, err := a.client.SetTerms(ctx, in.Name, body.Revision, body.Terms)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &tenantOutput{t}, nil
}

func (a *API) stopTenant(ctx context.Context, in *tenantInput) (*stoppedOutput, error) {
	s, err := a.client.StopTenant(ctx, in.Name)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &stoppedOutput{s}, nil
}

func (a *API) addToken(ctx context.Context, in *tenantInput) (*tokenOutput, error) {
	body, done, err := readBody[producer.TokenRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	t, err := a.client.AddToken(ctx, in.Name, body)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	noteOf(ctx).object = in.Name + "/" + t.ID
	return &tokenOutput{t}, nil
}

func (a *API) revokeToken(ctx context.Context, in *tokenInput) (*struct{}, error) {
	if err := a.client.RevokeToken(ctx, in.Name, in.Token); err != nil {
		return nil, a.problem(ctx, err)
	}
	return nil, nil //nolint:nilnil // huma's way to answer nothing
}
