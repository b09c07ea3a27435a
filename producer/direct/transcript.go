package direct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// Transcript is [producer.Sessions.Transcript].
func (c *Client) Transcript(ctx context.Context, session string) iter.Seq2[job.Executed, error] {
	return func(yield func(job.Executed, error) bool) {
		held := &reservation{Memory: c.memory} // the session's environment, and the ids
		defer func() { held.keep(0) }()
		x, err := c.takeSession(ctx, held, session)
		if err != nil {
			yield(job.Executed{}, err)
			return
		}
		list, err := c.executedBefore(ctx, x, held)
		if err != nil {
			yield(job.Executed{}, err)
			return
		}
		line := &reservation{Memory: c.memory}
		reader := c.ForAnswer(c.tenant, line)
		for _, id := range list {
			e, err := reader.execution(ctx, x, id.id)
			if errors.Is(err, job.ErrNotFound) { // purged meanwhile
				continue
			}
			more := yield(e, err) && err == nil
			line.keep(0)
			if !more {
				return
			}
		}
	}
}

// place is an execution, and its number in its session.
type place struct {
	id       string
	sequence int64
}

// placeBytes is more than a place takes.
const placeBytes = 128

// maxForks is from how many sessions, one after the other, a fork goes on whose executions are looked for.
const maxForks = 64

// executedBefore are the executions that have led to what a session is: its own, and before them those of the sessions that it was forked from, as far as these are kept.
func (c *Client) executedBefore(ctx context.Context, x record.Session, memory Memory) ([]place, error) {
	list, err := c.executed(ctx, x, memory)
	for range maxForks {
		if err != nil || x.ForkOf == "" {
			break
		}
		upTo := x.ForkedAt
		if x, err = c.session(ctx, x.ForkOf); errors.Is(err, job.ErrNoSession) {
			return list, nil
		}
		if err != nil {
			break
		}
		var before []place
		if before, err = c.executed(ctx, x, memory); err == nil {
			before = slices.DeleteFunc(before, func(p place) bool { return p.sequence == 0 || p.sequence > upTo })
			list = append(before, list...)
		}
	}
	return list, err
}

// executed are the executions of a session that have ended, in their order. What was never begun comes last.
func (c *Client) executed(ctx context.Context, x record.Session, memory Memory) ([]place, error) {
	var list []place
	for f := (record.Filter{Session: x.ID, Since: x.Created.Add(-clockSkew), Limit: producer.MaxPage}); ; {
		page, err := c.takeListed(ctx, f.Limit)
		if err != nil {
			return nil, err
		}
		jobs, next, err := c.records.List(ctx, c.tenant, f)
		if err == nil {
			err = memory.Take(ctx, int64(len(jobs))*placeBytes)
		}
		for _, j := range jobs {
			if j.State.Final() {
				list = append(list, place{j.ID, j.Sequence})
			}
		}
		page.keep(0)
		if err != nil {
			return nil, err
		}
		if f.After = next; next == "" {
			break
		}
	}
	slices.Reverse(list) // it was newest first
	slices.SortStableFunc(list, func(a, b place) int {
		return cmp.Or(cmp.Compare(min(b.sequence, 1), min(a.sequence, 1)), cmp.Compare(a.sequence, b.sequence))
	})
	return list, nil
}

// execution is one of them, with what it was given if it was begun.
func (c *Client) execution(ctx context.Context, x record.Session, id string) (job.Executed, error) {
	r, err := c.records.Get(ctx, id)
	if err != nil {
		return job.Executed{}, err
	}
	j, err := c.read(ctx, r)
	if err != nil {
		return job.Executed{}, err
	}
	e := job.Executed{Result: *j.Result}
	spec, at := r.Spec, r.Place
	if r.InputRef != "" {
		if spec, at, err = c.storedInput(ctx, r); err != nil {
			return job.Executed{}, fmt.Errorf("read input of execution %s: %w", id, err)
		}
	}
	if spec != nil {
		e.Input = &job.ExecutionInput{
			Code: spec.Source, Context: at.Context, Language: at.Language, Files: spec.Files, Env: x.Settings.Env, Secrets: x.Settings.Secrets, WallMS: spec.Limits.WallMS,
		}
	}
	return e, nil
}

// storedInput is what the execution was given, where the bucket has it.
func (c *Client) storedInput(ctx context.Context, r record.Record) (*job.Spec, record.Place, error) {
	keys, err := artifacts.JobKeys(r.Tenant, r.ID)
	if err != nil {
		return nil, record.Place{}, err
	}
	if !strings.HasPrefix(r.InputRef, keys.Prefix()) { // as of a result
		return nil, record.Place{}, errors.New("the record names an object that is not the execution's")
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	take := func(size int64) error { return c.memory.Take(ctx, answerWeight*size) }
	b, err := c.objects.GetHeld(ctx, r.InputRef, record.MaxInline, take)
	if err != nil {
		return nil, record.Place{}, err
	}
	return record.UnmarshalExecution(b)
}
