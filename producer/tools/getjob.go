package tools

import (
	"context"
	"encoding/json"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// getJob is the tool that asks for a job, and waits for its end.
func getJob() Tool {
	input, _ := json.Marshal(map[string]any{ // of what can be written as JSON
		"type":                 "object",
		"additionalProperties": false,
		"required":             []string{"job_id"},
		"properties": map[string]any{
			"job_id":       map[string]any{"type": "string", "description": "The job_id that run_code answered."},
			"wait_seconds": map[string]any{"type": "integer", "minimum": 0, "description": "How long to wait for its end, in seconds. Default: 0."},
		},
	})
	return Tool{
		Name: GetJob, Title: "Get a job",
		Description: "Answers what a program that run_code started has printed and made, once it has ended: for programs that lasted longer than the call.",
		Scopes:      []job.Scope{job.ScopeRead}, ReadOnly: true,
		Input: input,
		call: func(ctx context.Context, c Caller, arguments []byte) (Answer, error) {
			in, err := decode[struct {
				JobID       string `json:"job_id"`
				WaitSeconds int64  `json:"wait_seconds"`
			}](arguments)
			if err != nil {
				return Answer{}, err
			}
			if in.WaitSeconds < 0 {
				return Answer{}, argumentError("wait_seconds: is negative; want seconds, or nothing")
			}
			j, err := c.Glovebox.Get(ctx, in.JobID)
			if err != nil {
				return Answer{}, err
			}
			if in.WaitSeconds > 0 {
				c.MaxWait = time.Duration(min(in.WaitSeconds, int64(c.MaxWait/time.Second))) * time.Second
				if j, err = c.await(ctx, j); err != nil {
					return Answer{}, err
				}
			}
			a := c.answer(ctx, j)
			if j.Ended() && j.Result.Session != nil {
				return inSession(a, j.Result.Session.ID, j.Result), nil
			}
			return a, nil
		},
	}
}
