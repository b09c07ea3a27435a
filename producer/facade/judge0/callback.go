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

const (
	// mostReads is how many messages are written at once, each of which reads whole outputs of up to
	// maxCalledBack, and tenantReads how many of them one tenant's may be.
	mostReads   = 8
	tenantReads = mostReads / 2
)

// readers are those that write messages.
var readers = newReaders()

// readTime is how long a message may take to be written: a bucket that is slow for one must not hold up the
// others for long.
const readTime = 10 * time.Second

// Message returns what is sent to the callback_url of a submission: the default fields, in base64, outputs up to
// 64 KiB. It is nil for a job that is no submission, and fails with job.ErrNotFound where what was submitted is gone.
func Message(ctx context.Context, client *direct.Client, r job.Result) ([]byte, error) {
	if r.Metadata[languageKey] == "" {
		return nil, nil
	}
	if r.Metadata[uploadKey] == "" && r.Metadata[pieceKey+"0"] == "" {
		return nil, nil // somebody's own metadata
	}
	tenant, _ := job.TenantOf(r.ID)
	done, err := readers.begin(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("wait to write message: %w", err)
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, readTime) // the wait is no part of it
	defer cancel()
	call := &facade.Call{Client: client}
	s, err := kept(ctx, call, r.Metadata)
	switch {
	case errors.Is(err, errNotKept): // what its client knows is this façade's form, which can't be written
		return nil, fmt.Errorf("read submission: it is gone: %w", job.ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("read submission: %w", err)
	case s.Callback == nil:
		return nil, nil
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
