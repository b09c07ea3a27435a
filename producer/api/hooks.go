package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type hookInput struct {
	ID string `path:"id" doc:"The hook's id."`
}

type createHookOutput struct {
	Location string `header:"Location" doc:"The hook's own URL, to which its sender posts."`
	Body     producer.NewHook
}

type newHookOutput struct{ Body producer.NewHook }

type hookOutput struct{ Body job.Hook }

type hooksOutput struct{ Body producer.HookList }

type hookDeliveriesOutput struct{ Body producer.HookDeliveryList }

// hookRoutes make hooks; deliverRoute is what their senders use.
func (a *API) hookRoutes(mux *listedMux, h huma.API, d documenter) {
	create := d.operation("create-hook", http.MethodPost, "/v1/hooks", "Make a hook",
		"A hook starts a template with what GitHub, GitLab, Stripe, Slack and others post to it, or a sender of your own. Each request is verified with the hook's secret; the same delivery once more, within 7 days, is answered with the job of the first.",
		d.answers(201, "The hook, and the secret if Glovebox made it", d.schema(producer.NewHook{})), d.problems(400, 401, 409, 413, 415, 422, 503))
	create.DefaultStatus = http.StatusCreated
	create.MaxBodyBytes = recordBody
	create.RequestBody = jsonBody()
	huma.Register(h, create, a.createHook)
	create.RequestBody.Content["application/json"].Schema = d.schema(producer.HookRequest{})

	huma.Register(h, d.operation("list-hooks", http.MethodGet, "/v1/hooks", "List hooks",
		"The tenant's hooks, the oldest first, without their secrets.", d.problems(401, 503)), a.listHooks)
	huma.Register(h, d.operation("get-hook", http.MethodGet, "/v1/hooks/{id}", "Get a hook",
		"A hook's settings, without its secrets.", d.problems(401, 404, 503)), a.getHook)
	change := d.operation("change-hook", http.MethodPut, "/v1/hooks/{id}", "Change a hook",
		"Replaces a hook's settings; its id, sender and secrets stay.",
		d.answers(200, "The hook", d.schema(job.Hook{})), d.problems(400, 401, 404, 413, 415, 422, 503))
	change.MaxBodyBytes = recordBody
	change.RequestBody = jsonBody()
	huma.Register(h, change, a.changeHook)
	change.RequestBody.Content["application/json"].Schema = d.schema(job.HookSettings{})
	remove := d.operation("delete-hook", http.MethodDelete, "/v1/hooks/{id}", "Delete a hook",
		"Deletes a hook. Its URL answers 404 from then on; jobs that it started go on.", d.problems(401, 404, 503))
	remove.DefaultStatus = http.StatusNoContent
	huma.Register(h, remove, a.deleteHook)
	rotate := d.operation("rotate-hook", http.MethodPost, "/v1/hooks/{id}/rotate", "Rotate a hook's secret",
		"Gives a hook a new secret. The one before is good beside it for expire_seconds. 409 while two are good, unless that is 0.",
		d.answers(200, "The hook, and the secret if Glovebox made it", d.schema(producer.NewHook{})), d.problems(400, 401, 404, 409, 413, 415, 422, 503))
	rotate.MaxBodyBytes = recordBody
	rotate.RequestBody = jsonBody()
	huma.Register(h, rotate, a.rotateHook)
	rotate.RequestBody.Content["application/json"].Schema = d.schema(producer.HookRotateRequest{})
	huma.Register(h, d.operation("list-hook-deliveries", http.MethodGet, "/v1/hooks/{id}/deliveries", "List deliveries to a hook",
		"The last 100 requests to a hook that were verified, the newest first: what each started, or why not.", d.problems(401, 404, 503)), a.hookDeliveries)
	a.deliverRoute(mux, h.OpenAPI(), d)
}

func (a *API) createHook(ctx context.Context, _ *struct{}) (*createHookOutput, error) {
	request, done, err := readBody[producer.HookRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	made, err := a.tenantClient(ctx).CreateHook(ctx, request)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &createHookOutput{Location: made.Path, Body: made}, nil
}

func (a *API) changeHook(ctx context.Context, in *hookInput) (*hookOutput, error) {
	settings, done, err := readBody[job.HookSettings](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	changed, err := a.tenantClient(ctx).ChangeHook(ctx, in.ID, settings)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &hookOutput{changed}, nil
}

func (a *API) rotateHook(ctx context.Context, in *hookInput) (*newHookOutput, error) {
	request, done, err := readBody[producer.HookRotateRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	rotated, err := a.tenantClient(ctx).RotateHook(ctx, in.ID, request)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &newHookOutput{rotated}, nil
}

func (a *API) listHooks(ctx context.Context, _ *struct{}) (*hooksOutput, error) {
	list, err := a.tenantClient(ctx).ListHooks(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &hooksOutput{producer.HookList{Hooks: list}}, nil
}

func (a *API) getHook(ctx context.Context, in *hookInput) (*hookOutput, error) {
	found, err := a.tenantClient(ctx).Hook(ctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &hookOutput{found}, nil
}

func (a *API) deleteHook(ctx context.Context, in *hookInput) (*struct{}, error) {
	if err := a.tenantClient(ctx).DeleteHook(ctx, in.ID); err != nil {
		return nil, a.problem(ctx, err)
	}
	return nil, nil //nolint:nilnil // huma's way to answer nothing
}

func (a *API) hookDeliveries(ctx context.Context, in *hookInput) (*hookDeliveriesOutput, error) {
	list, err := a.tenantClient(ctx).HookDeliveries(ctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &hookDeliveriesOutput{producer.HookDeliveryList{Deliveries: list}}, nil
}
