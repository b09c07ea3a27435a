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
	job    record.Record
	lost   int // how many inputs were sent that Redis has no more
}

func (w *Worker) interactive(j record.Record) *interactive { return &interactive{worker: w, job: j} }

// Next waits for what comes behind the first n inputs. It bears with a Redis that is away.
func (i *interactive) Next(ctx context.Context, n int) ([]job.Input, error) {
	woken, forget := i.worker.turns.Wait(i.job.ID) // before the first look, or what comes between the two would wake nobody
	defer forget()
	var said await.Rarely
	if n == 0 {
		i.lost = 0
	}
	for {
		list, err := i.look(ctx, n)
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

// look returns what is behind the first n inputs. A signal was for the try at the job that it was sent to: to this one it would come
// as it starts.
func (i *interactive) look(ctx context.Context, n int) ([]job.Input, error) {
	sent, all, err := i.worker.Records.Inputs(ctx, i.job.ID, n-i.lost)
	if err != nil {
		return nil, err
	}
	if missing := n - i.lost - all; missing > 0 {
		i.lost += missing
		i.worker.Log.Warn("Redis has lost input that a job was sent", "job_id", i.job.ID, "epoch", i.job.Epoch, "inputs", missing)
	}
	list := make([]job.Input, len(sent))
	for at, in := range sent {
		if in.Epoch != i.job.Epoch {
			in.Signal = ""
		}
		list[at] = in.Input
	}
	return list, nil
}

// inputRetry is the delay before input that could not be read is read again.
const inputRetry = time.Second
