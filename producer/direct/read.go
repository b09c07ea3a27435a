package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const (
	// maxResult bounds result.json: two streams of 64 KiB and results of 256 KiB, which JSON may make six
	// times as long, charts of 256 KiB, compile output, metadata, and hundreds of artifacts.
	maxResult = 8 << 20
	// outage is how long a Wait bears with a Redis or bucket that doesn't answer.
	outage     = 30 * time.Second
	retryDelay = 250 * time.Millisecond
	// lookAgain is when a Wait that nobody woke looks for itself: Redis delivers a
	// message at most once, and a connection that broke without a word brings none.
	lookAgain = 15 * time.Second
	// bucketTimeout bounds one read or write of a spec or result in the bucket: a bucket
	// that hangs must not hold a request, or a place in the deliverer, for minutes.
	bucketTimeout = 30 * time.Second
)

// errNoResult means that what a record has for a result is none.
var errNoResult = errors.New("the result is unreadable")

// unreadable reports whether a result is not to be had, or its record is spoiled: to ask again changes nothing, as it
// may while Redis or the bucket is away.
func unreadable(err error) bool {
	return errors.Is(err, errNoResult) || errors.Is(err, record.ErrUnreadable) || errors.Is(err, artifacts.ErrNotFound) || errors.Is(err, artifacts.ErrTooLarge)
}

// Get is [producer.Jobs.Get].
func (c *Client) Get(ctx context.Context, id string) (producer.Job, error) {
	if !c.owns(id) {
		return producer.Job{}, job.ErrNotFound
	}
	r, err := c.records.Get(ctx, id)
	if err != nil {
		return producer.Job{}, err
	}
	return c.read(ctx, r)
}

// read brings the result of a record that has ended.
func (c *Client) read(ctx context.Context, r record.Record) (producer.Job, error) {
	j := producer.Job{Summary: wireSummary(r)}
	if !r.State.Final() {
		j.Waits = c.waits(ctx, r)
		return j, nil
	}
	result, err := c.result(ctx, r)
	if err != nil {
		return producer.Job{}, fmt.Errorf("read result of job %s: %w", r.ID, err)
	}
	if c.links != nil {
		if result, err = c.links.Absolute(result, r.Expires()); err != nil {
			return producer.Job{}, err
		}
	}
	j.Result = &result
	return j, nil
}

// result is the stored result, its URLs still relative. A large one takes memory, which one that can't be read gives back.
func (c *Client) result(ctx context.Context, r record.Record) (result job.Result, err error) {
	held := &reservation{Memory: c.memory}
	defer func() {
		if err != nil {
			held.keep(0)
		}
	}()
	take := func(size int64) error {
		if size <= smallResult {
			return nil
		}
		return held.Take(ctx, answerWeight*size)
	}
	b := r.Result
	switch {
	case b != nil:
		if err := take(int64(len(b))); err != nil {
			return job.Result{}, err
		}
	case r.ResultRef == "":
		return job.Result{}, fmt.Errorf("%w: the record has none", errNoResult)
	default:
		keys, err := artifacts.JobKeys(r.Tenant, r.ID)
		if err != nil {
			return job.Result{}, err
		}
		if !strings.HasPrefix(r.ResultRef, keys.Prefix()) { // a worker wrote it, and may read less of the bucket than the api
			return job.Result{}, fmt.Errorf("%w: the record names an object that is not the job's", errNoResult)
		}
		ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
		defer cancel()
		if b, err = c.objects.GetHeld(ctx, r.ResultRef, maxResult, take); err != nil {
			return job.Result{}, err
		}
	}
	if err := json.Unmarshal(b, &result); err != nil {
		return job.Result{}, fmt.Errorf("%w: decode: %w", errNoResult, err)
	}
	result.ID = r.ID // links are signed for it, and a worker wrote the result
	if result.Metadata == nil {
		result.Metadata = r.Metadata
	}
	if result.Artifacts == nil {
		result.Artifacts = []job.Artifact{}
	}
	return result, nil
}

// Result returns the result of a job that has ended as [Client.Get] would, whosever it is,
// and until when it is kept. The deliverer calls it, which serves every tenant.
func (c *Client) Result(ctx context.Context, id string) (result job.Result, expires time.Time, err error) {
	r, err := c.records.Get(ctx, id)
	if err != nil {
		return job.Result{}, time.Time{}, err
	}
	j, err := c.read(ctx, r)
	if err != nil {
		return job.Result{}, time.Time{}, err
	}
	if j.Result == nil {
		return job.Result{}, time.Time{}, fmt.Errorf("read result of job %s: it is %s", r.ID, r.State)
	}
	return *j.Result, r.Expires(), nil
}

func wireSummary(r record.Record) job.Summary {
	w := job.Summary{
		ID: r.ID, Status: r.State, Runtime: job.Runtime{Name: r.Runtime, Image: r.Image}, Priority: r.Priority,
		Timing: r.Timing(), Attempt: r.Attempts, Problem: r.Problem, Metadata: r.Metadata,
	}
	w.Placement, _ = job.ParseLabels(r.Placement, job.MaxPlacement) // what a worker has made of it is shown to nobody
	if r.State == job.Held && r.Hold != nil {
		hold := r.Hold.Hold
		w.Hold = &hold
	}
	return w
}

// Wait is [producer.Jobs.Wait]. It is woken by Redis and bears with outages of up to 30 s.
func (c *Client) Wait(ctx context.Context, id string) (producer.Job, error) {
	if !c.owns(id) {
		return producer.Job{}, job.ErrNotFound
	}
	return await(ctx, c.done, id, func(ctx context.Context) (producer.Job, bool, error) {
		j, err := c.Get(ctx, id)
		return j, j.Ended(), err
	})
}

// await looks at a job or a batch until it has ended. done wakes it.
func await[T any](ctx context.Context, done *record.Listener, id string, look func(context.Context) (v T, ended bool, err error)) (T, error) {
	// Before the first look at the record, or an end between the two would be missed.
	woken, stop := done.Wait(id)
	defer stop()
	var none T
	var failing time.Time
	for {
		v, ended, err := look(ctx)
		delay := lookAgain
		switch {
		case ctx.Err() != nil:
			return none, ctx.Err()
		case err == nil && ended, errors.Is(err, job.ErrNotFound), errors.Is(err, job.ErrNoSession), unreadable(err):
			return v, err
		case err == nil:
			failing = time.Time{}
		case !failing.IsZero() && time.Since(failing) > outage:
			return none, err
		default:
			delay = retryDelay
			if failing.IsZero() {
				failing = time.Now()
			}
		}
		select {
		case <-woken:
		case <-time.After(delay):
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}
