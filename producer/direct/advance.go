package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/pipelines"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/templates"
	"github.com/glovebox-run/glovebox/job"
)

// canceledReads is how long a run that is canceled waits for what its outputs point at. It is less than a look may take.
const canceledReads = 5 * time.Second

// liveRun is a run that is being looked at.
type liveRun struct {
	record.Run

	pipeline job.Pipeline
	state    pipelines.State
	// needs are steps that have ended, by name, with what their jobs have left, which takes kept bytes. memory is for that.
	needs  map[string]keptNeed
	kept   int64
	memory *reservation
}

// readRun reads what is stored of a run.
func readRun(r record.Run) (*liveRun, error) {
	l := &liveRun{Run: r, state: pipelines.State{Cancel: r.Cancel != "", Steps: map[string]pipelines.StepState{}}, needs: map[string]keptNeed{}}
	if err := json.Unmarshal(r.Pipeline, &l.pipeline); err != nil {
		return nil, fmt.Errorf("read pipeline of run %s: %w", r.ID, err)
	}
	for name := range l.pipeline.Steps {
		text, decided := r.Verdicts[name]
		if !decided {
			continue
		}
		state := pipelines.StepState{Items: map[int]pipelines.Item{}}
		if err := json.Unmarshal(text, &state.Verdict); err != nil {
			return nil, fmt.Errorf("read step %s of run %s: %w", name, r.ID, err)
		}
		for i, item := range r.Items[name] {
			if i >= 0 && i < state.Verdict.Count { // else a worker has made it up
				state.Items[i] = pipelines.Item{Try: item.Try, Status: item.Status}
			}
		}
		l.state.Steps[name] = state
	}
	return l, nil
}

// Advancer is [Client.Advance] for all tenants. What it takes of memory is bounded, however many runs are looked at. A look that has
// its run waits for results, so the two have each their own, and one that has a result waits for nothing.
type Advancer struct {
	client              *Client
	runs, results, kept bounded
}

const (
	// advanceMemory is what runs of all tenants take at once, and as much again the results that they read: of two of the largest runs, and
	// of four of the largest results.
	advanceMemory = 64 << 20
	// keptMemory is what looks at once keep of what jobs have left: two looks that keep much, and any number of others.
	keptMemory = 2 * lookKeeps
)

// Advancer returns one for all tenants.
func (c *Client) Advancer() *Advancer {
	return &Advancer{c, newBounded(advanceMemory), newBounded(advanceMemory), newBounded(keptMemory)}
}

// Advance is [Client.Advance].
func (a *Advancer) Advance(ctx context.Context, id string, now time.Time) error {
	tenant, _ := job.TenantOfRun(id)
	return a.client.ForAnswer(tenant, a.results).advanceWithin(ctx, a.runs, a.kept, id, now)
}

// Advance does what is to be done in a run of the Client's tenant at that time. Any number of processes may
// call it at once, and each may die at any step: what is decided first about a step stays, a job's id comes
// from its step, index and try, and only somebody who has seen every end settles or ends the run.
func (c *Client) Advance(ctx context.Context, id string, now time.Time) error {
	return c.advanceWithin(ctx, c.memory, c.memory, id, now)
}

// advanceWithin is Advance that takes memory for the run, and for what jobs have left, from somewhere else.
func (c *Client) advanceWithin(ctx context.Context, memory, kept Memory, id string, now time.Time) error {
	held := &reservation{Memory: memory}
	defer func() { held.keep(0) }()
	var failed error
	for range job.MaxSteps + stepsAtOnce { // each look decides about steps whose needs had ended before it: of a chain one
		held.keep(0)
		r, err := c.takeRun(ctx, held, id)
		if err != nil {
			return err
		}
		more, err := c.As(r.By).advance(ctx, r, kept, now)
		if errors.Is(err, record.ErrRunStale) {
			continue
		}
		if failed = err; !more {
			break
		}
	}
	return failed // it was put off: it is looked at again
}

// advance does what follows from a run as it was read, and reports whether there may be more. One step that can't go on, as
// what it reads is away, holds up none that can.
func (c *Client) advance(ctx context.Context, r record.Run, kept Memory, now time.Time) (more bool, err error) {
	if r.State != job.Running { // its entry is left: this takes it out
		return false, c.records.EndRun(ctx, r, record.RunEnd{Status: r.State})
	}
	if r.Cancel == "" && !now.Before(r.Deadline) {
		return true, c.records.CancelRun(ctx, r.ID, record.RunOverdue)
	}
	l, err := readRun(r)
	if err != nil {
		return false, err
	}
	l.memory = &reservation{Memory: kept}
	defer func() { l.memory.keep(0) }()
	d, refused := c.definitions.Parse(r.Pipeline, l.pipeline)
	if refused != nil && r.Cancel == "" { // an older version has begun it: nothing more of it can be, and its jobs are stopped
		return true, c.records.CancelRun(ctx, r.ID, record.RunRefused)
	}
	actions := pipelines.Next(l.pipeline, l.state)
	if len(actions) == 0 || r.Cancel != "" {
		if err := c.findLost(ctx, l); err != nil {
			return false, err
		}
		actions = pipelines.Next(l.pipeline, l.state)
	}
	if refused == nil {
		readersLast(d, actions)
	}
	var stop []string
	var waits bool
	var failed []error
	for _, a := range actions {
		switch a.Do {
		case pipelines.End:
			if refused != nil {
				return false, c.endRefused(ctx, l, a.Status, refused)
			}
			return false, c.endRun(ctx, d, l, a.Status)
		case pipelines.Decide:
			if err = c.decide(ctx, d, l, a.Step); job.CodeOf(err) == job.CodeQuotaExceeded {
				waits, err = true, nil
				break
			}
			more = more || err == nil
		case pipelines.Create:
			var done, refused bool
			done, refused, err = c.createStep(ctx, d, l, a, now)
			waits, more = waits || !done, more || refused
		case pipelines.Stop:
			stop = append(stop, r.JobID(a.Step, a.Index, a.Try))
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(stop) > 0 {
		if err := c.records.CancelRunJobs(ctx, r, stop); err != nil {
			failed = append(failed, err)
		}
	}
	if more || waits || failed != nil {
		return more, errors.Join(failed...) // what waits is looked at again after record.RunRetry
	}
	return false, c.records.SettleRun(ctx, r)
}

// readersLast has what reads nothing that other steps have left done first: a bucket that is away takes all the time of a look.
func readersLast(d *pipelines.Definition, actions []pipelines.Action) {
	reads := func(a pipelines.Action) int {
		if slices.ContainsFunc(d.Steps[a.Step].Needs, func(need string) bool { return d.Reads(a.Step, need) }) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(actions, func(a, b pipelines.Action) int { return reads(a) - reads(b) })
}

// findLost takes jobs that are waited for, and have no record, for ended: a worker that was taken over may have
// deleted one, or noted one that never was.
func (c *Client) findLost(ctx context.Context, l *liveRun) error {
	var ids []string
	var found []func(job.Status)
	for name, state := range l.state.Steps {
		for i, item := range state.Items {
			if !item.Status.Final() {
				ids = append(ids, l.JobID(name, i, item.Try))
				found = append(found, func(status job.Status) {
					item.Status = status
					state.Items[i] = item
				})
			}
		}
	}
	states, err := c.records.RunJobStates(ctx, l.Run, ids)
	for i, status := range states {
		if status == "" {
			found[i](job.InternalError)
		} else {
			found[i](status)
		}
	}
	return err
}

func (c *Client) decide(ctx context.Context, d *pipelines.Definition, l *liveRun, name string) error {
	known, err := c.contextOf(ctx, d, l, name)
	if err != nil {
		return err
	}
	verdict := d.Decide(name, l.state, known, l.state.Begun())
	err = c.records.DecideStep(ctx, l.Run, name, verdict)
	if errors.Is(err, record.ErrRunFull) {
		verdict = pipelines.Verdict{Word: pipelines.Fail, Why: "what the run's steps have one job for each of is too large: up to 2 MiB together"}
		err = c.records.DecideStep(ctx, l.Run, name, verdict)
	}
	if err != nil {
		return err
	}
	l.state.Steps[name] = pipelines.StepState{Verdict: verdict, Items: map[int]pipelines.Item{}}
	return nil
}

// createStep makes a job of a step, unless it was made before. One that can't be made is refused, which ends
// it; one for which there is no room waits.
func (c *Client) createStep(ctx context.Context, d *pipelines.Definition, l *liveRun, a pipelines.Action, now time.Time) (done, refused bool, err error) {
	err = c.tryStep(ctx, d, l, a, now)
	if errors.Is(err, errDisabled) || errors.Is(err, job.ErrEnded) {
		// A tenant that is disabled may be enabled again, and its deadline bounds how long that is waited for. A run that was canceled meanwhile is
		// looked at again at once, and one whose items only say so, which a worker may have written, is not looked at without end.
		return false, false, nil
	}
	switch job.CodeOf(err) {
	case job.CodeUnavailable, job.CodeInternal, job.CodeTimeout:
		return false, false, err
	case job.CodeQuotaExceeded, job.CodeNoRuntimes:
		return false, false, nil
	case "":
		return err == nil, false, err
	}
	return true, true, c.records.RefuseItem(ctx, l.Run, a.Step, a.Index, a.Try, err.Error())
}

func (c *Client) tryStep(ctx context.Context, d *pipelines.Definition, l *liveRun, a pipelines.Action, now time.Time) error {
	known, err := c.contextOf(ctx, d, l, a.Step)
	if err != nil {
		return err
	}
	if why := d.Gone(a.Step, known); why != "" { // since it was decided
		return &job.Error{Code: job.CodeInputGone, Message: why}
	}
	spec, err := c.stepSpec(ctx, d, l, a, known)
	if err != nil {
		return err
	}
	if spec.Metadata == nil {
		spec.Metadata = map[string]string{}
	}
	spec.Metadata[job.RunKey], spec.Metadata[job.StepKey] = l.ID, a.Step
	if d.Steps[a.Step].Each != nil {
		spec.Metadata[job.StepKey] = fmt.Sprintf("%s[%d]", a.Step, a.Index)
	}
	if retry := d.Steps[a.Step].Retry; retry != nil && a.Try > 1 && retry.DelaySeconds > 0 {
		spec.RunAt = toMS(now.Add(time.Duration(retry.DelaySeconds) * time.Second))
	}
	n := record.NewJob{ID: l.JobID(a.Step, a.Index, a.Try), Step: a.Step, Index: a.Index, Try: a.Try}
	head, done, err := c.makeOfProblem(ctx, spec.Problem)
	if err != nil {
		return err
	}
	defer done()
	if err := c.prepare(ctx, &n, spec, head, l.pipeline.Callback); err != nil {
		return err
	}
	var sent func(error)
	n.Trace, sent = c.tracer.SendOfRun(ctx, l.ID, l.Trace, n.ID)
	created, err := c.records.AddToRun(ctx, l.Run, []record.NewJob{n})
	if err == nil {
		err = created[0].Err
	}
	sent(err)
	return err
}

// stepSpec is the job of a step, or of the template that it runs.
func (c *Client) stepSpec(ctx context.Context, d *pipelines.Definition, l *liveRun, a pipelines.Action, known pipelines.Context) (job.Spec, error) {
	step, verdict := d.Steps[a.Step], l.state.Steps[a.Step].Verdict
	if step.Template == "" {
		return d.Spec(a.Step, verdict, a.Index, known)
	}
	params, err := d.TemplateParams(a.Step, verdict, a.Index, known)
	if err != nil {
		return job.Spec{}, err
	}
	t, err := c.Template(ctx, step.Template)
	if err != nil {
		return job.Spec{}, err
	}
	schema, err := templates.Parse(t.Params)
	if err == nil {
		err = schema.Check(params)
	}
	if err != nil {
		return job.Spec{}, err
	}
	return templates.Fill(t, params)
}

func (c *Client) endRun(ctx context.Context, d *pipelines.Definition, l *liveRun, status pipelines.StepStatus) error {
	params, err := paramsOf(l)
	if err != nil && l.Cancel == "" {
		return err
	}
	reading := ctx
	if l.Cancel != "" { // it ends with what can be read: a bucket that is away doesn't hold it up
		var cancel context.CancelFunc
		reading, cancel = context.WithTimeout(ctx, canceledReads)
		defer cancel()
	}
	var failed error
	var notes, faulty []string
	steps := func(yield func(pipelines.Context) bool) { // one after the other: all of them may have left 64 MiB, and in memory many times that
		for _, name := range slices.Sorted(maps.Keys(l.pipeline.Steps)) {
			need := l.state.Need(l.pipeline, name)
			if d.OutputsRead(name) {
				l.makeRoom([]string{name})
				read, _, err := c.need(reading, l, name, mostKept)
				if err != nil && l.Cancel == "" {
					failed = err
					return
				} else if err == nil {
					need = read
				}
			}
			if need.Fault != "" {
				faulty = append(faulty, name)
			}
			if !yield(pipelines.Context{Params: params, Needs: map[string]pipelines.Need{name: need}}) {
				return
			}
		}
	}
	end := record.RunEnd{Status: job.Status(status)}
	var left []string
	if end.Outputs, left = d.Outputs(steps, record.MaxInline); left != nil { // the jobs have them
		notes = append(notes, fmt.Sprintf("outputs that had no room in the %d bytes of all: %s", record.MaxInline, strings.Join(left, ", ")))
	}
	if failed != nil {
		return failed
	}
	if faulty != nil {
		notes = append(notes, "steps whose jobs left too much to be read for outputs: "+strings.Join(faulty, ", "))
	}
	end.Note = strings.Join(notes, "; ")
	return c.noteEnd(ctx, l, end)
}

// endRefused ends a run whose pipeline this version doesn't take: as failed, unless it is canceled for something else. Its outputs
// are of no definition that is known here.
func (c *Client) endRefused(ctx context.Context, l *liveRun, status pipelines.StepStatus, refused error) error {
	if l.Cancel == record.RunRefused {
		status = pipelines.Failed
	}
	return c.noteEnd(ctx, l, record.RunEnd{Status: job.Status(status), Outputs: []byte(`{}`), Note: "this version of Glovebox refuses the pipeline: " + refused.Error()})
}

func (c *Client) noteEnd(ctx context.Context, l *liveRun, e record.RunEnd) error {
	// The span comes first: this process may die between the two, and the spans of the run's jobs are below it. Sent twice it has the same id.
	c.tracer.Run(ctx, l.Trace, l.ID, l.Name, string(e.Status), l.Created, time.Now())
	return c.records.EndRun(ctx, l.Run, e)
}
