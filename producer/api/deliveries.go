package api

import (
	"context"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type deliveriesInput struct {
	Job   string `query:"job" doc:"The job whose webhook messages to list."`
	Batch string `query:"batch" doc:"The batch whose own webhook messages to list, instead of a job's."`
}

type deliveriesOutput struct {
	Body struct {
		Deliveries []producer.Delivery `json:"deliveries" nullable:"false"`
	}
}

func (a *API) deliveries(ctx context.Context, in *deliveriesInput) (*deliveriesOutput, error) {
	if (in.Job == "") == (in.Batch == "") {
		return nil, a.problem(ctx, job.Invalid{{Field: "job", Message: "or batch is wanted, and not both", Allowed: "the id of a job, or of a batch"}})
	}
	of, id := a.tenantClient(ctx).Deliveries, in.Job
	if in.Batch != "" {
		of, id = a.tenantClient(ctx).BatchDeliveries, in.Batch
	}
	list, err := of(ctx, id)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	out := &deliveriesOutput{}
	out.Body.Deliveries = list
	return out, nil
}
