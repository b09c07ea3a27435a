package judge0

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// readTime is how long a message may take to be written, mostly by a bucket that is slow.
const readTime = 30 * time.Second

// Message returns what is sent to the callback_url of a submission: the default fields, in base64, outputs up to
// 64 KiB. It is nil for a job that is no submission, and fails with [direct.ErrNotYet] while another run of it is under
// way. However much the program printed, it holds no more than that: outputs are compared as they are read.
func Message(ctx context.Context, client *direct.Client, r job.Result) ([]byte, error) {
	s, err := kept(r.Metadata)
	if err != nil || s.Callback == nil {
		return nil, nil // metadata that only look like a submission are a native job's
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	main := producer.Job{Summary: job.Summary{ID: r.ID, Status: r.Status, Timing: r.Timing, Metadata: r.Metadata}, Result: &r}
	v := view{fields: defaultFields, encoded: true, most: job.InlineOutput}
	o, err := s.outcome(ctx, &facade.Call{Client: client}, main, v, time.Time{})
	if err != nil {
		return nil, err
	}
	if o.status <= processing {
		return nil, fmt.Errorf("another run of the submission: %w", direct.ErrNotYet)
	}
	token, _ := job.UUIDOf(r.ID)
	answer, err := v.show(token, s, "", o)
	if err != nil {
		return nil, err
	}
	return job.Marshal(answer)
}
