package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// patientBody reads a body whose sender may pause for bodyTime, five times that at most, and
// take as long as its bytes take at bodyRate: a large one is not cut off, and a slow one is. The time that
// Glovebox takes itself doesn't count.
type patientBody struct {
	r        io.Reader
	control  *http.ResponseController
	patience time.Duration
	most     time.Duration // that patience can come to
}

var errImpatient = errors.New("the body came too slowly")

func (b *patientBody) Read(p []byte) (int, error) {
	began := time.Now()
	if err := b.control.SetReadDeadline(began.Add(max(b.patience, 0))); err != nil {
		return 0, fmt.Errorf("set deadline: %w", err)
	}
	n, err := b.r.Read(p)
	b.patience = min(b.patience+time.Duration(n)*time.Second/bodyRate-time.Since(began), b.most)
	switch {
	case errors.Is(err, io.EOF): // net/http reads on while a handler runs, to notice clients who leave
		if lift := b.control.SetReadDeadline(time.Time{}); lift != nil {
			return n, fmt.Errorf("lift deadline: %w", lift)
		}
	case err != nil && b.patience <= 0:
		err = fmt.Errorf("%w: %w", errImpatient, err)
	}
	return n, err
}

// endingBody is a body whose reads fail once the API drains. The one that is under way then is interrupted by its
// deadline, which is set before Read is called.
type endingBody struct {
	io.Reader

	draining context.Context //nolint:containedctx // it is a switch of the API, not a request's
}

func (b endingBody) Read(p []byte) (int, error) {
	if b.draining.Err() != nil {
		return 0, errEnding
	}
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && b.draining.Err() != nil {
		err = errEnding
	}
	return n, err
}

// heldBody is the body of a batch. Its jobs hold memory from when they are read until they are
// created.
type heldBody struct {
	patientBody

	ctx  context.Context //nolint:containedctx // the request's, as the body is
	held reservation
	work reservation
	job  int64 // what the job holds that is being read
}

const (
	// batchWeight is how many times its size a job of a batch takes.
	batchWeight = 3
	// turnBytes is from what size on a job takes its turn to be decoded and stored: as many
	// bytes make a group, so that it isn't kept waiting for others.
	turnBytes = 1 << 20
	// batchPatience is how long a batch waits for memory: longer than a group of jobs waits
	// to be created, which makes some.
	batchPatience = 10 * time.Second
)

// Hold is [jobstream.Holder.Hold]. A job that isn't small takes a half of the tenant's share
// at once, which is as much as the largest one has: several that grew step by step would
// keep each other waiting.
func (b *heldBody) Hold(bytes int64) error {
	needed := batchWeight * bytes
	if bytes > smallBody {
		needed = b.held.budget.share / 2
	}
	more := needed - b.job
	if more <= 0 {
		return nil
	}
	if err := b.held.add(b.ctx, more, batchPatience); err != nil {
		return err
	}
	b.job += more
	return nil
}

// handOn leaves a job that was read no more memory than it takes, and returns what gives that
// back.
func (b *heldBody) handOn(bytes int64) (done func(), err error) {
	needed := min(batchWeight*bytes, b.held.budget.share/2)
	if more := needed - b.job; more > 0 { // it came in a buffer, with others
		if err := b.held.add(b.ctx, more, batchPatience); err != nil {
			return nil, err
		}
	} else {
		b.held.give(-more)
	}
	b.job = 0
	work := int64(0)
	if bytes >= turnBytes {
		work = workWeight * bytes
		if err := b.work.add(b.ctx, work, workPatience); err != nil {
			return nil, err
		}
	}
	return func() { b.held.give(needed); b.work.give(work) }, nil
}
