package judge0

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// readers bounds how many messages are written at once, each of which reads whole outputs of up to
// maxCalledBack.
var readers = make(chan struct{}, 4)

// readTime is how long a message may take to be written: a bucket that is slow for one must not hold up the
// others for long.
const readTime = 10 * time.Second

// Message returns what is sent to the callback_url of a submission: the default fields, in base64, outputs up to
// 64 KiB. It is nil for a job that is no submission.
func Message(ctx context.Context, client *direct.Client, r job.Result) ([]byte, error) {
	if r.Metadata[languageKey] == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	select {
	case readers <- struct{}{}:
		defer func() { <-readers }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	call := &facade.Call{Client: client}
	s, err := kept(ctx, call, r.Metadata)
	if errors.Is(err, errNotKept) || err == nil && s.Callback == nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read submission: %w", err)
	}
	v := view{defaultFields, true}
	main := producer.Job{Record: job.Record{ID: r.ID, Status: r.Status, Timing: r.Timing, Metadata: r.Metadata}, Result: &r}
	o, err := s.outcome(ctx, call, main, v, time.Time{})
	if err != nil {
		return nil, err
	}
	if o.status <= processing {
		return nil, errors.New("another run of the submission has not ended")
	}
	o.stdout, o.stderr = o.stdout[:min(len(o.stdout), job.InlineOutput)], o.stderr[:min(len(o.stderr), job.InlineOutput)]
	token, _ := job.UUIDOf(r.ID)
	answer, err := v.show(token, s, "", o)
	if err != nil {
		return nil, err
	}
	return job.Marshal(answer)
}
