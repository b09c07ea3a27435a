package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
)

type usageInput struct {
	From string `query:"from" doc:"The first day, in UTC; that of to's month by default." example:"2026-11-01"`
	To   string `query:"to" doc:"The last day; today by default. 366 days at most." example:"2026-11-30"`
}

type tenantUsageInput struct {
	Name string `path:"name" doc:"The tenant's name."`
	From string `query:"from" doc:"The first day, in UTC; that of to's month by default." example:"2026-11-01"`
	To   string `query:"to" doc:"The last day; today by default. 366 days at most." example:"2026-11-30"`
}

type usageOutput struct{ Body job.UsageReport }

// usageRoutes say what jobs used, and what that cost.
func (a *API) usageRoutes(h huma.API, d documenter) {
	const says = "What jobs used that ended on these days, and what that cost by the operator's prices: exactly the sum over their results. Each job is counted once, as it ends. The usage of a day is kept for 400 days."
	huma.Register(h, d.operation("get-usage", http.MethodGet, "/v1/usage", "Get your usage", says, d.problems(401, 422, 503)), a.usage)
	of := d.operation("get-tenant-usage", http.MethodGet, "/v1/admin/tenants/{name}/usage", "Get a tenant's usage", says, d.problems(401, 404, 422, 503))
	delete(of.Responses, "429") // an operator has no quota
	huma.Register(h, of, a.tenantUsage)

	const batch = " As a batch of CloudEvents, one a day with an id that stays, without today, and yesterday until a quarter past midnight UTC: who meters can fetch days twice and counts them once."
	for _, e := range []struct {
		id, path, summary string
		statuses          []int
	}{
		{"get-usage-events", "/v1/usage/events", "Get your usage as CloudEvents", []int{401, 422, 503}},
		{"get-tenant-usage-events", "/v1/admin/tenants/{name}/usage/events", "Get a tenant's usage as CloudEvents", []int{401, 404, 422, 503}},
	} {
		op := d.operation(e.id, http.MethodGet, e.path, e.summary, says+batch, d.problems(e.statuses...))
		op.Responses["200"] = &huma.Response{Description: "The days", Content: map[string]*huma.MediaType{eventBatch: {Schema: d.schema([]job.UsageEvent{})}}}
		if e.path == "/v1/usage/events" {
			huma.Register(h, op, a.usageEvents)
			continue
		}
		delete(op.Responses, "429")
		huma.Register(h, op, a.tenantUsageEvents)
	}
}

// eventBatch is the media type of several CloudEvents.
const eventBatch = "application/cloudevents-batch+json"

type usageEventsOutput struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (a *API) usage(ctx context.Context, in *usageInput) (*usageOutput, error) {
	u, err := a.tenantClient(ctx).Usage(ctx, in.From, in.To)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &usageOutput{u}, nil
}

func (a *API) usageEvents(ctx context.Context, in *usageInput) (*usageEventsOutput, error) {
	events, err := a.tenantClient(ctx).UsageEvents(ctx, in.From, in.To)
	return a.eventsOf(ctx, events, err)
}

func (a *API) tenantUsageEvents(ctx context.Context, in *tenantUsageInput) (*usageEventsOutput, error) {
	if _, err := a.client.TenantUsage(ctx, in.Name, in.From, in.To); err != nil { // it is there
		return nil, a.problem(ctx, err)
	}
	events, err := a.client.For(in.Name).UsageEvents(ctx, in.From, in.To)
	return a.eventsOf(ctx, events, err)
}

func (a *API) eventsOf(ctx context.Context, events []job.UsageEvent, err error) (*usageEventsOutput, error) {
	var b []byte
	if err == nil {
		b, err = job.Marshal(events)
	}
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &usageEventsOutput{eventBatch, b}, nil
}

func (a *API) tenantUsage(ctx context.Context, in *tenantUsageInput) (*usageOutput, error) {
	u, err := a.client.TenantUsage(ctx, in.Name, in.From, in.To)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &usageOutput{u}, nil
}
