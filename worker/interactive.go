package worker

import (
	"context"
	"time"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// interactive reads what a job is sent while it runs, which its record keeps: a worker that has the job again sends it all again.
type interactive struct {
	worker *Worker
	job    record.Job
}

func (w *Worker) interactive(j record.Job) *interactive { return &interactive{w, j} }

// Next waits for what comes behind the first n inputs. It bears with a Redis that is away.
func (i *interactive) Next(ctx context.Context, n int) ([]job.Input, error) {
	woken, forget := i.worker.turns.Wait(i.job.ID) // before the first look, or what comes between the two would wake nobody
	defer forget()
	var said await.Rarely
	for {
		list, err := i.worker.Records.Inputs(ctx, i.job.ID, n)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case len(list) > 0:
			return list, nil
		case err != nil && said.Now():
			i.worker.Log.Warn("input for a job can't be read, trying again", "job_id", i.job.ID, "epoch", i.job.Epoch, "error", err)
		}
		again := recheckInterval
		if err != nil {
			again = inputRetry
		}
		select {
		case <-woken:
		case <-time.After(again):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// inputRetry is the delay before input that could not be read is read again.
const inputRetry = time.Second
