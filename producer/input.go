package producer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/glovebox-run/glovebox/job"
)

// Interactive sends input to jobs that run. It is safe for concurrent use.
type Interactive interface {
	// SendInput sends the program of a job that runs more of its standard input, the end of that, or a signal. Once it returns,
	// the program will get it, in the order in which calls returned, also if its worker is lost and another one runs it again.
	// It fails with job.Invalid, job.ErrNotFound, job.ErrEnded, job.ErrNotRunning for a job that waits, and with a *job.Error of
	// code no_input for one that takes none, or no more. It is not tried again where an answer gets lost: the program may have it.
	SendInput(ctx context.Context, id string, in job.Input) error
}

var _ Interactive = (*Client)(nil)

// SendInput is [Interactive.SendInput].
func (c *Client) SendInput(ctx context.Context, id string, in job.Input) error {
	if !isJobID(id) {
		return job.ErrNotFound // "..", say, would mean another URL
	}
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode input: %w", err)
	}
	req, err := c.request(ctx, http.MethodPost, JobPath(id)+"/input", 0, body)
	if err != nil {
		return err
	}
	res, err := c.ask(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}
