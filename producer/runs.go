package producer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/glovebox-run/glovebox/job"
)

// Runs is what a tenant does with pipelines. Safe for concurrent use.
type Runs interface {
	// StartRun starts a pipeline. It fails with job.Invalid, which has all faults, or job.ErrConflict.
	StartRun(ctx context.Context, r job.PipelineRequest) (job.Run, error)
	// RerunRun repeats a run that has ended, with the same pipeline and parameters: steps that have succeeded are
	// taken over. It fails with job.ErrNotFound, job.ErrRunNotEnded, or job.Invalid.
	RerunRun(ctx context.Context, id string, r job.RerunRequest) (job.Run, error)
	// GetRun returns a run, or job.ErrNotFound.
	GetRun(ctx context.Context, id string) (job.Run, error)
	// WaitRun returns a run once it has ended.
	WaitRun(ctx context.Context, id string) (job.Run, error)
	// CancelRun begins to end a run: no job of it is made any more, and those that have not ended are
	// canceled. It fails with job.ErrNotFound or job.ErrEnded.
	CancelRun(ctx context.Context, id string) (job.Run, error)
	// GraphRun draws a run as mermaid, dot or text.
	GraphRun(ctx context.Context, id, format string) (string, error)
	// ListRuns lists runs, the newest first, a hundred at most. cursor is the Next of the page before, or "". It fails
	// with job.Invalid.
	ListRuns(ctx context.Context, cursor string) (RunPage, error)
	// RunDeliveries lists the webhook messages of a run itself: none before it has ended, or where nobody is to
	// be told.
	RunDeliveries(ctx context.Context, id string) ([]Delivery, error)
}

var _ Runs = (*Client)(nil)

// RunPage is a part of the list of a tenant's runs.
type RunPage struct {
	Runs []job.RunSummary `json:"runs" nullable:"false" doc:"The newest first, 100 at most."`
	// Next is what to ask the next page with; "" at the end of the list.
	Next string `json:"next_cursor,omitempty" doc:"The cursor of the next page; absent at the end of the list."`
}

const (
	runsPath = "/v1/runs"
	// maxGraph is more than a graph of 64 steps takes.
	maxGraph = 1 << 20
)

// StartRun is [Runs.StartRun]. With an idempotency key it bears with an API that is away, or breaks off,
// for up to 30 s.
func (c *Client) StartRun(ctx context.Context, r job.PipelineRequest) (job.Run, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return job.Run{}, fmt.Errorf("encode pipeline: %w", err)
	}
	return c.startOnce(ctx, runsPath, b, r.IdempotencyKey)
}

// startOnce starts a run by a request that is repeated where it has an idempotency key.
func (c *Client) startOnce(ctx context.Context, path string, body []byte, key string) (job.Run, error) {
	return keyed(ctx, key, func() (run job.Run, err error) {
		err = c.json(ctx, http.MethodPost, path, 0, body, &run)
		return run, err
	})
}

// RerunRun is [Runs.RerunRun]. With an idempotency key it bears with an API that is away, or breaks off, for up to 30 s.
func (c *Client) RerunRun(ctx context.Context, id string, r job.RerunRequest) (job.Run, error) {
	if _, ok := job.TenantOfRun(id); !ok {
		return job.Run{}, job.ErrNotFound
	}
	b, err := json.Marshal(r)
	if err != nil {
		return job.Run{}, fmt.Errorf("encode rerun: %w", err)
	}
	return c.startOnce(ctx, RunPath(id)+"/rerun", b, r.IdempotencyKey)
}

// GetRun is [Runs.GetRun].
func (c *Client) GetRun(ctx context.Context, id string) (job.Run, error) {
	return c.run(ctx, http.MethodGet, id, 0)
}

// WaitRun is [Runs.WaitRun]. It bears with an API that is away for up to 30 s.
func (c *Client) WaitRun(ctx context.Context, id string) (job.Run, error) {
	return await(ctx, func(ctx context.Context) (job.Run, bool, error) {
		r, err := c.run(ctx, http.MethodGet, id, waitSeconds)
		return r, r.Status.Final(), err
	})
}

// CancelRun is [Runs.CancelRun].
func (c *Client) CancelRun(ctx context.Context, id string) (job.Run, error) {
	return c.run(ctx, http.MethodDelete, id, 0)
}

func (c *Client) run(ctx context.Context, method, id string, wait int) (job.Run, error) {
	var r job.Run
	if _, ok := job.TenantOfRun(id); !ok {
		return r, job.ErrNotFound // "..", say, would mean another URL
	}
	err := c.json(ctx, method, RunPath(id), wait, nil, &r)
	return r, err
}

// GraphRun is [Runs.GraphRun].
func (c *Client) GraphRun(ctx context.Context, id, format string) (string, error) {
	if _, ok := job.TenantOfRun(id); !ok {
		return "", job.ErrNotFound
	}
	res, err := c.do(ctx, http.MethodGet, RunPath(id)+"/graph?format="+url.QueryEscape(format))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxGraph))
	if err != nil {
		return "", fmt.Errorf("read graph: %w", err)
	}
	return string(text), nil
}

// ListRuns is [Runs.ListRuns].
func (c *Client) ListRuns(ctx context.Context, cursor string) (RunPage, error) {
	path := runsPath
	if cursor != "" {
		path += "?cursor=" + url.QueryEscape(cursor)
	}
	var page RunPage
	err := c.json(ctx, http.MethodGet, path, 0, nil, &page)
	return page, err
}
