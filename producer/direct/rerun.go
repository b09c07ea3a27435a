package direct

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/glovebox-run/glovebox/internal/pipelines"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// RerunRun is [producer.Runs.RerunRun].
func (c *Client) RerunRun(ctx context.Context, id string, r job.RerunRequest) (job.Run, error) {
	if !c.ownsRun(id) {
		return job.Run{}, job.ErrNotFound
	}
	if err := r.Check(); err != nil {
		return job.Run{}, err
	}
	asked := []byte("rerun " + id + " " + r.From)
	if run, known, err := c.runOfKey(ctx, r.IdempotencyKey, asked); known {
		return run, err
	}
	before, err := c.takeRun(ctx, c.memory, id)
	if err != nil {
		return job.Run{}, err
	}
	if !before.State.Final() {
		return job.Run{}, job.ErrRunNotEnded
	}
	l, err := readRun(before)
	if err != nil {
		return job.Run{}, err
	}
	n := record.NewRun{Template: before.Template, Metadata: before.Metadata, Key: r.IdempotencyKey, Asked: asked, RerunOf: id}
	if n.Kept, n.Verdicts, err = c.keptSteps(ctx, l, r.From); err != nil {
		return job.Run{}, err
	}
	run, err := c.openRun(ctx, n, l.pipeline, before.Params)
	if err != nil {
		return job.Run{}, err
	}
	return c.wireRun(run)
}

// keptSteps are the steps that a repetition of the run takes over, whose jobs are all there still.
func (c *Client) keptSteps(ctx context.Context, l *liveRun, from string) (kept map[string]record.KeptStep, verdicts map[string][]byte, err error) {
	names, err := pipelines.Kept(l.pipeline, l.state, from)
	if err != nil {
		return nil, nil, err
	}
	kept, verdicts = map[string]record.KeptStep{}, map[string][]byte{}
	var ids, of []string // jobs, and the step of each
	for _, name := range slices.Sorted(maps.Keys(names)) {
		step := record.KeptStep{Run: l.ID, Items: map[int]record.RunItem{}}
		if origin := l.Kept[name].Run; origin != "" {
			step.Run = origin
		}
		for i := range l.state.Steps[name].Items { // else a worker has made it up
			item := l.Items[name][i]
			step.Items[i] = item
			ids, of = append(ids, l.JobID(name, i, item.Try)), append(of, name)
		}
		kept[name], verdicts[name] = step, l.Verdicts[name]
	}
	states, err := c.records.RunJobStates(ctx, l.Run, ids)
	if err != nil {
		return nil, nil, err
	}
	for i, state := range states {
		if state != job.Succeeded {
			return nil, nil, job.Invalid{{Field: "from", Value: from, Message: fmt.Sprintf("needs step %s, whose jobs are no longer kept", of[i]), Allowed: "that step, or one before it"}}
		}
	}
	return kept, verdicts, nil
}
