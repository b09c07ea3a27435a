package producer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// LinesMediaType is the Content-Type of JSON Lines, as batches and their results have it.
const LinesMediaType = "application/x-ndjson"

// SubmitBatch is [Batches.SubmitBatch]. The jobs are sent as specs yields them.
func (c *Client) SubmitBatch(ctx context.Context, o BatchOptions, specs iter.Seq2[job.Spec, error]) (job.Batch, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, to := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/batches", body)
	if err != nil {
		return job.Batch{}, fmt.Errorf("ask the API: %w", err)
	}
	req.Header.Set("Content-Type", LinesMediaType)
	wrote := make(chan error, 1)
	go func() {
		err := writeLines(to, o, specs)
		wrote <- err // before the request can fail because of it
		to.CloseWithError(err)
	}()
	b, err := c.readBatch(req)
	body.CloseWithError(errAnswered) // the API may not have wanted all of it
	select {
	case wroteErr := <-wrote:
		if wroteErr != nil && !errors.Is(wroteErr, errAnswered) && !errors.Is(wroteErr, io.ErrClosedPipe) {
			return job.Batch{}, wroteErr // the specs', which is why the request failed
		}
	default: // specs may take long to yield the next one, which nobody wants any more
	}
	return b, err
}

// resultsSilence is for how long an API may send nothing of results.
const resultsSilence = 2 * time.Minute

var errAnswered = errors.New("the API has answered")

func (c *Client) readBatch(req *http.Request) (job.Batch, error) {
	res, err := c.ask(req)
	if err != nil {
		return job.Batch{}, err
	}
	defer res.Body.Close()
	var b job.Batch
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&b); err != nil {
		return b, fmt.Errorf("read answer about the batch: %w", err)
	}
	return b, nil
}

// progressEvery is after how many jobs somebody is told.
const progressEvery = 50

func writeLines(to io.Writer, o BatchOptions, specs iter.Seq2[job.Spec, error]) error {
	buffered := bufio.NewWriterSize(to, 32<<10)
	lines := json.NewEncoder(buffered)
	if err := lines.Encode(map[string]job.BatchOptions{"batch": o.BatchOptions}); err != nil {
		return err
	}
	sent := 0
	for spec, err := range specs {
		if err == nil {
			err = lines.Encode(spec) // with the bytes of json.Marshal: as Client has it
		}
		if err != nil { // what came before may be gone on with
			return errors.Join(err, buffered.Flush())
		}
		if sent++; o.Progress != nil && sent%progressEvery == 0 {
			o.Progress(sent)
		}
	}
	err := buffered.Flush()
	if err == nil && o.Progress != nil {
		o.Progress(sent)
	}
	return err
}

// GetBatch is [Batches.GetBatch].
func (c *Client) GetBatch(ctx context.Context, id string) (job.Batch, error) {
	return c.batch(ctx, http.MethodGet, id, 0)
}

// CancelBatch is [Batches.CancelBatch].
func (c *Client) CancelBatch(ctx context.Context, id string) (job.Batch, error) {
	return c.batch(ctx, http.MethodDelete, id, 0)
}

// WaitBatch is [Batches.WaitBatch]. It bears with an API that is away for up to 30 s.
func (c *Client) WaitBatch(ctx context.Context, id string) (job.Batch, error) {
	return await(ctx, func(ctx context.Context) (job.Batch, bool, error) {
		b, err := c.batch(ctx, http.MethodGet, id, waitSeconds)
		return b, b.Status.Final(), err
	})
}

func (c *Client) batch(ctx context.Context, method, id string, wait int) (job.Batch, error) {
	var b job.Batch
	if _, ok := job.TenantOfBatch(id); !ok {
		return b, job.ErrNotFound // "..", say, would mean another URL
	}
	err := c.json(ctx, method, BatchPath(id), wait, nil, &b)
	return b, err
}

// BatchResults is [Batches.BatchResults].
func (c *Client) BatchResults(ctx context.Context, id string, from int) iter.Seq2[job.BatchResult, error] {
	if _, ok := job.TenantOfBatch(id); !ok {
		return func(yield func(job.BatchResult, error) bool) { yield(job.BatchResult{}, job.ErrNotFound) }
	}
	return readLines[job.BatchResult](ctx, c, BatchPath(id)+"/"+Results+"?from="+strconv.Itoa(max(from, 0)), "results of batch "+id)
}

// readLines yields the lines of an answer.
func readLines[T any](ctx context.Context, c *Client, path, what string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		silent := time.AfterFunc(resultsSilence, cancel)
		defer silent.Stop()
		res, err := c.do(ctx, http.MethodGet, path)
		if err != nil {
			yield(none, err)
			return
		}
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, maxAnswer)
		for {
			silent.Reset(resultsSilence)
			more := lines.Scan()
			silent.Stop() // who reads may take its time
			err := lines.Err()
			if !more && err == nil {
				return
			}
			var v T
			if err == nil {
				err = json.Unmarshal(lines.Bytes(), &v)
			}
			if err != nil {
				err = fmt.Errorf("read %s: %w", what, err)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// ListBatches is [Batches.ListBatches].
func (c *Client) ListBatches(ctx context.Context, o BatchListOptions) (BatchPage, error) {
	query := url.Values{}
	if o.Limit != 0 {
		query.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.Cursor != "" {
		query.Set("cursor", o.Cursor)
	}
	path := "/v1/batches"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var page BatchPage
	err := c.json(ctx, http.MethodGet, path, 0, nil, &page)
	return page, err
}
