package api

import (
	"context"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type deliveriesInput struct {
	Job     string `query:"job" doc:"The job whose webhook messages to list."`
	Batch   string `query:"batch" doc:"The batch whose own webhook messages to list, instead of a job's."`
	Run     string `query:"run" doc:"The run of a pipeline whose own webhook messages to list, instead of a job's."`
	Session string `query:"session" doc:"The session whose own webhook messages to list, instead of a job's."`
}

type deliveriesOutput struct {
	Body struct {
		Deliveries []producer.Delivery `json:"deliveries" nullable:"false"`
	}
}

func (a *API) deliveries(ctx context.Context, in *deliveriesInput) (*deliveriesOutput, error) {
	client := a.tenantClient(ctx)
	var of func(context.Context, string) ([]producer.Delivery, error)
	id, given := "", 0
	for _, one := range []struct {
		id string
		of func(context.Context, string) ([]producer.Delivery, error)
	}{{in.Job, client.Deliveries}, {in.Batch, client.BatchDeliveries}, {in.Run, client.RunDeliveries}, {in.Session, client.SessionDeliveries}} {
		if one.id != "" {
			id, of, given = one.id, one.of, given+1
		}
	}
	if given != 1 {
		return nil, a.problem(ctx, job.Invalid{{Field: "job", Message: "or batch, run or session is wanted, and one of them only", Allowed: "the id of a job, of a batch, of a run, or of a session"}})
	}
	list, err := of(ctx, id)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	out := &deliveriesOutput{}
	out.Body.Deliveries = list
	return out, nil
}
