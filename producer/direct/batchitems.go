package direct

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// putAtOnce is how many large specs of a group go to the bucket side by side.
	putAtOnce = 4
	// partBytes is what the problems of jobs that are created together may take, unless one takes more.
	partBytes = 16 << 20
)

// add creates the jobs of a group that are valid, and notes why the others are not. Jobs that name problems may be much larger than
// what was sent: so many are created at once as there is memory for.
func (r *receiver) add(ctx context.Context, group []received) error {
	if r.permit != nil {
		if err := r.permit(ctx); err != nil {
			return err
		}
	}
	sizes := map[string]int64{}
	for len(group) > 0 {
		var size, largest int64 // of problems
		n := 0
		for ; n < len(group); n++ {
			digest := group[n].spec.Problem
			bytes, known := sizes[digest]
			if !known {
				var err error
				if bytes, err = r.client.problemBytes(ctx, digest); err != nil {
					return err
				}
				sizes[digest] = bytes
			}
			if n > 0 && problemWeight*(size+bytes) > partBytes {
				break
			}
			size += bytes
			largest = max(largest, bytes)
		}
		if err := r.addPart(ctx, group[:n], problemWeight*size, largest); err != nil {
			return err
		}
		group = group[n:]
	}
	return nil
}

// addPart creates jobs that take so much memory with their problems, of which the largest has so many bytes.
func (r *receiver) addPart(ctx context.Context, group []received, size, largest int64) error {
	group, err := r.unknown(ctx, group)
	if err != nil || len(group) == 0 {
		return err
	}
	if err := r.client.roomForProblem(ctx, largest); err != nil { // AddToBatch says whether there is for all
		return err
	}
	making, tenant := r.client.problems.making, r.client.tenant
	if err := making.Take(ctx, tenant, size); err != nil {
		return err
	}
	defer making.Give(tenant, size)
	v, err := r.client.validator(ctx)
	if err != nil {
		return err
	}
	jobs := make([]record.NewJob, 0, len(group))
	var faults []job.ItemError
	var prints []record.Fingerprint
	for _, item := range group {
		spec, verdict, err := item.spec, policy.Verdict{}, error(nil)
		if item.invalid == nil && spec.IdempotencyKey != "" {
			item.invalid = job.Invalid{{Field: "idempotency_key", Message: "is not for a job of a batch", Allowed: "a key of the batch"}}
		}
		if item.invalid == nil && !r.regrades { // that keeps what a submission says of where it comes from
			item.invalid = job.OwnMetadata(spec.Metadata)
		}
		if item.invalid == nil {
			var limits job.Limits
			if spec, limits, err = v.check(ctx, item.spec); err == nil {
				spec, err = v.pin(ctx, spec, limits)
			}
			if err == nil {
				verdict, err = r.client.judge(v.terms, policy.Subject{Kind: policy.KindBatch, Spec: spec, Limits: limits, Around: r.callback})
			}
		}
		var invalid job.Invalid
		if errors.As(err, &invalid) {
			item.invalid = invalid
		} else if job.CodeOf(err) == job.CodeDenied {
			faults, prints = append(faults, job.ItemError{Index: item.index, Code: job.CodeDenied, Message: job.Clip(err.Error(), maxFaultText)}), append(prints, item.fingerprint)
			continue
		} else if err != nil {
			return err
		}
		if item.invalid != nil {
			faults, prints = append(faults, rejection(item)), append(prints, item.fingerprint)
			continue
		}
		b, err := job.Marshal(spec)
		if err != nil {
			return fmt.Errorf("encode spec: %w", err)
		}
		id := job.ItemID(r.batch, item.index)
		jobs = append(jobs, record.NewJob{
			ID: id, Spec: spec, JSON: b, Index: item.index, Fingerprint: item.fingerprint, Hold: r.client.held(verdict, id, b),
		})
	}
	if err := r.putLarge(ctx, jobs); err != nil {
		return err
	}
	if len(jobs) > 0 {
		sent := make([]func(error), len(jobs))
		for i := range jobs {
			jobs[i].Trace, sent[i] = r.client.tracer.SendOfBatch(ctx, jobs[i].ID)
		}
		err := r.client.records.AddToBatch(ctx, r.batch, jobs)
		for _, end := range sent {
			end(err)
		}
		if err != nil {
			return err
		}
	}
	if len(faults) > 0 {
		return r.client.records.Reject(ctx, r.batch, prints, faults)
	}
	return nil
}

// unknown drops the jobs that the batch has already. It fails with job.ErrConflict.
func (r *receiver) unknown(ctx context.Context, group []received) ([]received, error) {
	if !r.continued {
		return group, nil
	}
	first := group[0].index
	there, err := r.client.records.Fingerprints(ctx, r.batch, first, len(group))
	if err != nil {
		return nil, err
	}
	var rest []received
	for i, item := range group {
		switch {
		case !there[i].Known():
			rest = append(rest, item)
		case !there[i].Same(item.fingerprint):
			return nil, fmt.Errorf("jobs[%d]: %w", item.index, job.ErrConflict)
		}
	}
	return rest, nil
}

func (r *receiver) putLarge(ctx context.Context, jobs []record.NewJob) error {
	puts, ctx := errgroup.WithContext(ctx)
	puts.SetLimit(putAtOnce)
	for i := range jobs {
		if len(jobs[i].JSON) <= record.MaxInline {
			continue
		}
		puts.Go(func() (err error) {
			jobs[i].SpecRef, err = r.client.putLargeSpec(ctx, jobs[i].ID, jobs[i].JSON)
			return err
		})
	}
	return puts.Wait()
}

// What is kept of why one job was rejected: so many faults, of so many characters each.
const (
	maxItemFaults = 8
	maxFaultText  = 300
)

func rejection(item received) job.ItemError {
	e := job.ItemError{Index: item.index, Code: job.CodeInvalid, Message: fmt.Sprintf("%.*s", maxFaultText, item.invalid[0].Error())}
	if more := len(item.invalid) - 1; more > 0 {
		e.Message = fmt.Sprintf("%s (and %d more)", e.Message, more)
	}
	for _, fault := range item.invalid[:min(len(item.invalid), maxItemFaults)] {
		fault.Message, fault.Allowed = fmt.Sprintf("%.*s", maxFaultText, fault.Message), fmt.Sprintf("%.*s", maxFaultText, fault.Allowed)
		e.Errors = append(e.Errors, fault)
	}
	return e
}
