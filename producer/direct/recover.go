package direct

import (
	"context"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const (
	// recoverPage is how many deliveries are asked for again in one step.
	recoverPage = 200
	// recoverLooks is how many jobs, batches and runs one request looks at that asks for the past.
	recoverLooks = 1000
)

// RecoverEndpoint is [producer.Endpoints.RecoverEndpoint].
func (c *Client) RecoverEndpoint(ctx context.Context, id string, r producer.RecoverRequest) (producer.Recovered, error) {
	if err := r.Check(); err != nil {
		return producer.Recovered{}, err
	}
	e, err := c.records.Endpoint(ctx, c.tenant, id)
	if err != nil {
		return producer.Recovered{}, err
	}
	if r.Until.IsZero() {
		r.Until = time.Now().Add(time.Second) // what has ended just now is among it
	}
	if r.Which == producer.RecoverAll {
		return c.recoverAll(ctx, e, r)
	}
	n, err := c.recoverFailed(ctx, id, r.Since, r.Until)
	return producer.Recovered{Deliveries: n}, err
}

func (c *Client) recoverFailed(ctx context.Context, id string, since, until time.Time) (n int, err error) {
	for n < producer.MaxRecover {
		ids, err := c.records.FailedDeliveries(ctx, c.tenant, id, since, until, recoverPage)
		if err != nil || len(ids) == 0 {
			return n, err
		}
		words, err := c.records.Redeliver(ctx, c.tenant, ids)
		if err != nil {
			return n, err
		}
		var gone []string
		for i, word := range words {
			switch word {
			case record.RedeliverOK:
				n++
			case record.RedeliverMissing, record.RedeliverFlying, record.RedeliverWaits:
				gone = append(gone, ids[i]) // it is no longer kept, or no longer failed
			}
		}
		if err := c.records.ForgetFailed(ctx, c.tenant, id, gone); err != nil {
			return n, err
		}
	}
	return n, nil
}

// past reads a page of what has ended, the newest first, behind a place in its list, and says where the next begins: ""
// at the end.
type past func(ctx context.Context, since time.Time, after record.Position) (list []ended, next record.Position, err error)

// ended is something that has ended, and what filters look at.
type ended struct {
	record.Past
	status   string
	metadata map[string]string
}

// recoverAll has an endpoint told of all that has ended in a time, and that it wants and was not told of: events one after the
// other. A cursor is the event and a place in the list of what that is about.
func (c *Client) recoverAll(ctx context.Context, e job.Endpoint, r producer.RecoverRequest) (producer.Recovered, error) {
	wanted := map[string]bool{}
	for _, event := range e.Events {
		wanted[event] = true
	}
	kinds := []struct {
		event string
		read  past
		parse func(tenant, s string) (record.Position, bool)
	}{
		{job.EventCompleted, c.pastJobs, record.ParsePosition},
		{job.EventBatchCompleted, c.pastBatches, record.ParseBatchPosition},
		{job.EventPipelineCompleted, c.pastRuns, record.ParseRunPosition},
	}
	begin, at, _ := strings.Cut(r.Cursor, "/")
	var made producer.Recovered
	found, looked := r.Cursor == "", 0
	for _, kind := range kinds {
		after := record.PositionAt(r.Until)
		if !found && kind.event == begin {
			var ok bool
			if after, ok = kind.parse(c.tenant, at); !ok {
				break
			}
			found = true
		}
		if !found || !wanted[kind.event] {
			continue
		}
		for after != "" {
			if looked >= recoverLooks {
				made.Next = kind.event + "/" + string(after)
				return made, nil
			}
			list, next, err := kind.read(ctx, r.Since, after)
			if err != nil {
				return made, err
			}
			n, err := c.tellOf(ctx, e, list)
			if made.Deliveries += n; err != nil {
				return made, err
			}
			looked, after = looked+recoverPage, next
		}
	}
	if !found {
		return made, job.Invalid{{Field: "cursor", Value: job.Clip(r.Cursor, 64), Message: "is no cursor of this endpoint's", Allowed: "the next_cursor of an answer"}}
	}
	return made, nil
}

// tellOf makes deliveries of what an endpoint's filter matches.
func (c *Client) tellOf(ctx context.Context, e job.Endpoint, list []ended) (int, error) {
	var past []record.Past
	for _, p := range list {
		if e.Filter.Matches(p.status, p.metadata) {
			past = append(past, p.Past)
		}
	}
	return c.records.Backfill(ctx, c.tenant, e.ID, past)
}

func (c *Client) pastJobs(ctx context.Context, since time.Time, after record.Position) (list []ended, next record.Position, err error) {
	var final []job.Status
	for _, s := range job.Statuses() {
		if s.Final() {
			final = append(final, s)
		}
	}
	jobs, next, err := c.records.List(ctx, c.tenant, record.Filter{States: final, Since: since, After: after, Limit: recoverPage})
	for _, j := range jobs {
		list = append(list, ended{record.Past{Event: job.EventCompleted, JobID: j.ID, Ended: j.Finished, Expires: j.Expires()}, string(j.State), j.Metadata})
	}
	return list, next, err
}

func (c *Client) pastBatches(ctx context.Context, since time.Time, after record.Position) (list []ended, next record.Position, err error) {
	batches, next, err := c.records.ListBatches(ctx, c.tenant, after, recoverPage)
	for _, b := range batches {
		if b.Created.Before(since) {
			return list, "", err
		}
		if !b.Finished.IsZero() {
			list = append(list, ended{record.Past{Event: job.EventBatchCompleted, BatchID: b.ID, Ended: b.Finished}, string(b.State), b.Metadata})
		}
	}
	return list, next, err
}

func (c *Client) pastRuns(ctx context.Context, since time.Time, after record.Position) (list []ended, next record.Position, err error) {
	runs, next, err := c.records.ListRuns(ctx, c.tenant, after, recoverPage)
	for _, run := range runs {
		if run.Created.Before(since) {
			return list, "", err
		}
		if !run.Finished.IsZero() {
			list = append(list, ended{record.Past{Event: job.EventPipelineCompleted, RunID: run.ID, Ended: run.Finished}, string(run.State), run.Metadata})
		}
	}
	return list, next, err
}
