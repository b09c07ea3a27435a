package api

import (
	"context"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type deliveriesInput struct {
	Job   string `query:"job" doc:"The job whose webhook messages to list."`
	Batch string `query:"batch" doc:"The batch whose own webhook messages to list, instead of a job's."`
	Run   string `query:"run" doc:"The run of a pipeline whose own webhook messages to list, instead of a job's."`
}

type deliveriesOutput struct {
	Body struct {
		Deliveries []producer.Delivery `json:"deliveries" nullable:"false"`
	}
}

func (a *API) deliveries(ctx context.Context, in *deliveriesInput) (*deliveriesOutput, error) {
	client := a.tenantClient(ctx)
	of, id := client.Deliveries, in.Job
	switch {
	case in.Job+in.Run == "" && in.Batch != "":
		of, id = client.BatchDeliveries, in.Batch
	case in.Job+in.Batch == "" && in.Run != "":
		of, id = client.RunDeliveries, in.Run
	case in.Job == "" || in.Batch+in.Run != "":
		return nil, a.problem(ctx, job.Invalid{{Field: "job", Message: "or batch or run is wanted, and one of them only", Allowed: "the id of a job, of a batch, or of a run"}})
	}
	list, err := of(ctx, id)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	out := &deliveriesOutput{}
	out.Body.Deliveries = list
	return out, nil
}
