package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type endpointInput struct {
	ID string `path:"id" doc:"The endpoint's id."`
}

type attemptsInput struct {
	ID     string `path:"id" doc:"The endpoint's id."`
	Limit  string `query:"limit" doc:"How many attempts at most: 1 to 200, 50 by default."`
	Cursor string `query:"cursor" doc:"The next_cursor of the page before."`
}

type deliveryInput struct {
	ID string `path:"id" doc:"The delivery's id."`
}

type newEndpointOutput struct {
	Location string `header:"Location"`
	Body     producer.NewEndpoint
}

type (
	endpointOutput  struct{ Body job.Endpoint }
	endpointsOutput struct{ Body producer.EndpointList }
	attemptsOutput  struct{ Body producer.AttemptPage }
	recoveredOutput struct{ Body producer.Recovered }
	deliveryOutput  struct{ Body producer.Delivery }
)

// endpointRoutes are a tenant's endpoints, what was delivered to them, and how to have it
// delivered once more.
func (a *API) endpointRoutes(h huma.API, d documenter) {
	const path = "/v1/endpoints"
	withBody := func(op huma.Operation) huma.Operation {
		op.MaxBodyBytes = smallBody
		op.RequestBody = jsonBody()
		return op
	}
	create := withBody(d.operation("create-endpoint", http.MethodPost, path, "Create an endpoint",
		"From now on, the events of all the tenant's jobs and batches that it wants are posted to it, besides each job's own callback. It has a secret of its own. A tenant has 32 endpoints at most.",
		d.problems(400, 401, 409, 413, 415, 422, 503)))
	create.DefaultStatus = http.StatusCreated
	huma.Register(h, create, a.createEndpoint)
	create.RequestBody.Content["application/json"].Schema = d.schema(job.EndpointSettings{})

	huma.Register(h, d.operation("list-endpoints", http.MethodGet, path, "List endpoints",
		"The tenant's endpoints and how deliveries to them go.", d.problems(401, 503)), a.listEndpoints)
	huma.Register(h, d.operation("get-endpoint", http.MethodGet, path+"/{id}", "Get an endpoint", "", d.problems(401, 404, 503)), a.getEndpoint)

	change := withBody(d.operation("change-endpoint", http.MethodPatch, path+"/{id}", "Change an endpoint",
		"What the body doesn't name stays as it is. Deliveries that are pending go where the endpoint leads then.", d.problems(400, 401, 404, 413, 415, 422, 503)))
	huma.Register(h, change, a.changeEndpoint)
	change.RequestBody.Content["application/json"].Schema = d.schema(producer.EndpointChange{})

	remove := d.operation("delete-endpoint", http.MethodDelete, path+"/{id}", "Delete an endpoint",
		"Forgets the endpoint, its secret and its attempts. Deliveries to it that are pending fail.", d.problems(401, 404, 503))
	remove.DefaultStatus = http.StatusNoContent
	huma.Register(h, remove, a.deleteEndpoint)

	huma.Register(h, d.operation("get-endpoint-secret", http.MethodGet, path+"/{id}/secret", "Get what signs messages to an endpoint",
		"All secrets and public keys that sign messages to the endpoint now. The first is the one to verify with from now on.", d.problems(401, 404, 503)), a.endpointSecrets)
	rotate := withBody(d.operation("rotate-endpoint-secret", http.MethodPost, path+"/{id}/rotate", "Rotate what signs messages to an endpoint",
		"Makes a new secret and a new public key. Until expire_seconds have passed the ones before sign each message, too. 409 while two are valid, unless expire_seconds is 0.",
		d.problems(400, 401, 404, 409, 413, 415, 422, 503)))
	huma.Register(h, rotate, a.rotateEndpointSecret)
	rotate.RequestBody.Content["application/json"].Schema = d.schema(producer.RotateRequest{})

	test := d.operation("test-endpoint", http.MethodPost, path+"/{id}/test", "Test an endpoint",
		"Posts endpoint.test to the endpoint, at once and once, even where it is disabled. GET /v1/deliveries/{id} tells how that went. A success enables an endpoint that was disabled for its failures.",
		d.problems(401, 404, 503))
	test.DefaultStatus = http.StatusAccepted
	huma.Register(h, test, a.testEndpoint)

	huma.Register(h, d.operation("list-endpoint-attempts", http.MethodGet, path+"/{id}/attempts", "List attempts at an endpoint",
		"The last 500 attempts at deliveries to the endpoint, the newest first: what was answered, how long it took, and how the answer began.", d.problems(401, 404, 422, 503)), a.endpointAttempts)
	recoverOp := withBody(d.operation("recover-endpoint", http.MethodPost, path+"/{id}/recover", "Deliver once more what failed, or the past",
		"Has deliveries to the endpoint that failed since a time made once more, under their message ids, as long as the results are kept: 10,000 at most, so ask again until none is left. With which: all, of all that has ended since then and that the endpoint was not told of, as of a new one; ask again with next_cursor until there is none. A refusal (429, bytes_recorded) comes behind what was made.",
		d.problems(400, 401, 404, 413, 415, 422, 429, 503)))
	huma.Register(h, recoverOp, a.recoverEndpoint)
	recoverOp.RequestBody.Content["application/json"].Schema = d.schema(producer.RecoverRequest{})

	huma.Register(h, d.operation("get-delivery", http.MethodGet, "/v1/deliveries/{id}", "Get a webhook message",
		"A delivery, with its last three attempts.", d.problems(401, 404, 503)), a.delivery)
	again := d.operation("redeliver", http.MethodPost, "/v1/deliveries/{id}/redeliver", "Deliver a webhook message once more",
		"Has the delivery made once more, under its message id, or now if it is to be tried later. 409 while it is being made.", d.problems(401, 404, 409, 503))
	again.DefaultStatus = http.StatusAccepted
	huma.Register(h, again, a.redeliver)
}

func (a *API) createEndpoint(ctx context.Context, _ *struct{}) (*newEndpointOutput, error) {
	settings, done, err := readBody[job.EndpointSettings](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	e, err := a.tenantClient(ctx).CreateEndpoint(ctx, settings)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &newEndpointOutput{"/v1/endpoints/" + e.ID, e}, nil
}

func (a *API) listEndpoints(ctx context.Context, _ *struct{}) (*endpointsOutput, error) {
	list, err := a.tenantClient(ctx).ListEndpoints(ctx)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &endpointsOutput{producer.EndpointList{Endpoints: list}}, nil
}

func (a *API) getEndpoint(ctx context.Context, in *endpointInput) (*endpointOutput, error) {
	e, err := a.tenantClient(ctx).GetEndpoint(ctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &endpointOutput{e}, nil
}

func (a *API) changeEndpoint(ctx context.Context, in *endpointInput) (*endpointOutput, error) {
	change, done, err := readBody[producer.EndpointChange](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	e, err := a.tenantClient(ctx).ChangeEndpoint(ctx, in.ID, change)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &endpointOutput{e}, nil
}

func (a *API) deleteEndpoint(ctx context.Context, in *endpointInput) (*struct{}, error) {
	if err := a.tenantClient(ctx).DeleteEndpoint(ctx, in.ID); err != nil {
		return nil, a.problem(ctx, err)
	}
	return nil, nil //nolint:nilnil // huma's way to answer nothing
}

func (a *API) endpointSecrets(ctx context.Context, in *endpointInput) (*webhookSecretsOutput, error) {
	list, err := a.tenantClient(ctx).EndpointSecrets(ctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &webhookSecretsOutput{producer.WebhookSecretList{Secrets: list}}, nil
}

func (a *API) rotateEndpointSecret(ctx context.Context, in *endpointInput) (*webhookSecretsOutput, error) {
	body, done, err := readBody[producer.RotateRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	list, err := a.tenantClient(ctx).RotateEndpointSecret(ctx, in.ID, body.Keep())
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &webhookSecretsOutput{producer.WebhookSecretList{Secrets: list}}, nil
}

func (a *API) testEndpoint(ctx context.Context, in *endpointInput) (*deliveryOutput, error) {
	d, err := a.tenantClient(ctx).TestEndpoint(ctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &deliveryOutput{d}, nil
}

func (a *API) endpointAttempts(ctx context.Context, in *attemptsInput) (*attemptsOutput, error) {
	o := producer.AttemptOptions{Cursor: in.Cursor}
	if in.Limit != "" {
		n, err := strconv.Atoi(in.Limit)
		if err != nil || n == 0 {
			return nil, a.problem(ctx, job.Invalid{{
				Field: "limit", Value: clip(in.Limit), Message: "is no number of attempts", Allowed: "1 to " + strconv.Itoa(producer.MaxAttemptPage),
			}})
		}
		o.Limit = n
	}
	page, err := a.tenantClient(ctx).EndpointAttempts(ctx, in.ID, o)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &attemptsOutput{page}, nil
}

func (a *API) recoverEndpoint(ctx context.Context, in *endpointInput) (*recoveredOutput, error) {
	request, done, err := readBody[producer.RecoverRequest](ctx, a)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	defer done()
	made, err := a.tenantClient(ctx).RecoverEndpoint(ctx, in.ID, request)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &recoveredOutput{made}, nil
}

func (a *API) delivery(ctx context.Context, in *deliveryInput) (*deliveryOutput, error) {
	d, err := a.tenantClient(ctx).GetDelivery(ctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &deliveryOutput{d}, nil
}

func (a *API) redeliver(ctx context.Context, in *deliveryInput) (*deliveryOutput, error) {
	d, err := a.tenantClient(ctx).Redeliver(ctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &deliveryOutput{d}, nil
}
