package direct

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// A group of jobs is created in one step, of so many or of so many bytes.
	groupJobs  = 100
	groupBytes = 1 << 20 // one job of so many goes by itself
	// groupTime is how long a job may wait for the others of its group.
	groupTime = time.Second
	// renewInterval is well within the time after which a batch is given up.
	renewInterval = time.Minute
)

// receiver adds jobs to a batch.
type receiver struct {
	client    *Client
	batch     string
	continued bool // there may be some of its jobs already
	progress  func(int)
	permit    func(context.Context) error // or nil
	regrades  bool                        // its jobs grade submissions again
	callback  *job.Callback               // the batch's, or nil
	sent      int
}

// received is a job on its way into the batch.
type received struct {
	index       int
	fingerprint record.Fingerprint
	spec        job.Spec
	invalid     job.Invalid
	done        func() // or nil
}

// arrival is a job as it comes, with the bytes that it was sent as.
type arrival struct {
	received received
	bytes    int
}

// receive reads groups of jobs while the one before is created.
func (r *receiver) receive(ctx context.Context, items iter.Seq2[BatchItem, error]) error {
	work, ctx := errgroup.WithContext(ctx)
	groups := make(chan []received)
	work.Go(func() error {
		for group := range groups {
			if err := r.add(ctx, group); err != nil {
				return err
			}
			for _, item := range group {
				if item.done != nil {
					item.done()
				}
			}
		}
		return nil
	})
	done := make(chan struct{})
	work.Go(func() error { r.renew(ctx, done); return nil })
	err := r.split(ctx, items, groups)
	close(groups)
	close(done)
	if addErr := work.Wait(); addErr != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return addErr // which ended the other
	}
	return err
}

// renew keeps the batch from being given up, whatever keeps its next job from coming.
func (r *receiver) renew(ctx context.Context, done <-chan struct{}) {
	tick := time.NewTicker(renewInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-done:
			return
		case <-tick.C:
		}
		if err := r.client.records.RenewBatch(ctx, r.batch); err != nil && ctx.Err() == nil {
			r.client.log.Warn("a batch could not be renewed, trying again", "batch_id", r.batch, "error", err)
		}
	}
}

// split makes groups of the jobs as they come. A group doesn't wait for the next job: its
// sender may pause, and what it takes of memory until its jobs are created others may need.
func (r *receiver) split(ctx context.Context, items iter.Seq2[BatchItem, error], groups chan<- []received) error {
	coming, read := make(chan arrival), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // it ends with items, which end with their sender
		defer close(coming)
		for item, err := range items {
			if err != nil {
				read <- err
				return
			}
			next := arrival{received{0, record.NewFingerprint(item.JSON), item.Spec, item.Invalid, item.Done}, len(item.JSON)}
			select {
			case coming <- next:
			case <-ctx.Done():
				read <- ctx.Err()
				return
			}
		}
		read <- nil
	}()
	// A sender who fails ends the context, too: why it failed says more.
	leave := func(err error) error {
		cancel()
		if readErr := <-read; readErr != nil && !errors.Is(readErr, context.Canceled) {
			return readErr
		}
		return err
	}
	var group []received
	bytes := 0
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		select {
		case groups <- group:
			group, bytes = make([]received, 0, len(group)), 0 // the next is likely to be as long
			if r.progress != nil {
				r.progress(r.sent)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	waited := time.NewTimer(groupTime)
	defer waited.Stop()
	for {
		var err error
		select {
		case next, more := <-coming:
			if !more { // what came is taken if it can be: a batch that goes on need not send it again
				return leave(flush())
			}
			if r.sent == job.MaxBatch {
				_ = flush()
				_ = leave(nil)
				return job.Invalid{{Field: "jobs", Message: "has too many entries", Allowed: fmt.Sprintf("1 to %d", job.MaxBatch)}}
			}
			if bytes+next.bytes > groupBytes {
				err = flush()
			}
			if len(group) == 0 {
				waited.Reset(groupTime)
			}
			next.received.index = r.sent
			group = append(group, next.received)
			bytes += next.bytes
			r.sent++
			if err == nil && (len(group) == groupJobs || bytes >= groupBytes) {
				err = flush()
			}
		case <-waited.C:
			err = flush()
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return leave(err)
		}
	}
}
