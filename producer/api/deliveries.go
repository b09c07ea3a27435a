package api

import (
	"context"

	"github.com/glovebox-run/glovebox/producer"
)

type deliveriesInput struct {
	Job string `query:"job" required:"true" doc:"The job whose webhook messages to list."`
}

type deliveriesOutput struct {
	Body struct {
		Deliveries []producer.Delivery `json:"deliveries" nullable:"false"`
	}
}

func (a *API) deliveries(ctx context.Context, in *deliveriesInput) (*deliveriesOutput, error) {
	list, err := a.tenantClient(ctx).Deliveries(ctx, in.Job)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	out := &deliveriesOutput{}
	out.Body.Deliveries = list
	return out, nil
}
