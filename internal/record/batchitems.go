package record

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// ErrSealed is what becomes of a job that is new to a batch of which nothing more is received.
var ErrSealed = errors.New("the batch receives no more jobs")

// AddToBatch is CreateMany of jobs of a batch, by ascending index. One that is there already is left as it is.
// It fails with the first job that can't be added: beyond the tenant's quotas with a
// *job.Error, else with job.ErrConflict, ErrSealed or job.ErrNotFound. The others may have been.
func (s *Store) AddToBatch(ctx context.Context, id string, jobs []NewJob) error {
	tenant, ok := job.TenantOfBatch(id)
	if !ok {
		return job.ErrNotFound
	}
	created, err := s.createMany(ctx, tenant, whole{batch: id}, jobs)
	if err != nil {
		return err
	}
	for i, c := range created {
		if c.Err != nil {
			return fmt.Errorf("jobs[%d]: %w", jobs[i].Index, c.Err)
		}
	}
	return nil
}

// Reject notes that jobs of a batch are not accepted, and why. One that was noted before
// is noted once. It fails with job.ErrConflict, ErrSealed or job.ErrNotFound.
func (s *Store) Reject(ctx context.Context, id string, prints []Fingerprint, faults []job.ItemError) error {
	tenant, ok := job.TenantOfBatch(id)
	if !ok {
		return job.ErrNotFound
	}
	if err := rejectScript.Load(ctx, s.rdb); err != nil {
		return fmt.Errorf("reject jobs: %w", err)
	}
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return fmt.Errorf("reject jobs: %w", err)
	}
	pipe := s.rdb.Pipeline()
	answers := make([]*redis.Cmd, len(faults))
	for i, fault := range faults {
		b, err := job.Marshal(fault)
		if err != nil {
			return fmt.Errorf("encode error of job %d: %w", fault.Index, err)
		}
		f := prints[i].rejected()
		answers[i] = rejectScript.Pipe(ctx, pipe, tenant, script.Args{
			"id": id, "due": s.now().Add(batchPatience), "index": fault.Index, "fingerprint": string(f[:]), "fault": b, "most_recorded": s.mostRecorded(terms),
		})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("reject jobs: %w", err)
	}
	for _, a := range answers {
		word, err := a.Text()
		if err == nil {
			err = batchRefusal(word)
		}
		if err != nil {
			return fmt.Errorf("reject jobs: %w", err)
		}
	}
	return nil
}

// batchRefusal is what a script's word for a job of a batch means.
func batchRefusal(word string) error {
	switch word {
	case "ok", "there":
		return nil
	case "conflict":
		return job.ErrConflict
	case "sealed":
		return ErrSealed
	case "missing":
		return job.ErrNotFound
	}
	return fmt.Errorf("the script answered %q", word)
}

// Rejection returns why a job of the batch was rejected, as far as that is kept.
func (b Batch) Rejection(index int) *job.Error {
	for _, e := range b.Errors {
		if e.Index == index {
			return &job.Error{Code: e.Code, Message: e.Message}
		}
	}
	return &job.Error{Code: job.CodeInvalid, Message: "it was rejected when the batch was submitted; the reasons of only some are kept"}
}

// BatchJobs returns the records of n of the batch's jobs, from index first on; the ID of
// one that does not exist, or no longer, is "". Of one that can't be read there is the ID alone.
func (s *Store) BatchJobs(ctx context.Context, id string, first, n int) ([]Record, error) {
	tenant, ok := job.TenantOfBatch(id)
	if !ok {
		return nil, job.ErrNotFound
	}
	pipe := s.rdb.Pipeline()
	reads := make([]jobRead, n)
	for i := range reads {
		reads[i] = s.readJob(ctx, pipe, tenant, job.ItemID(id, first+i))
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) && !redisconn.WrongType(err) {
		return nil, fmt.Errorf("read jobs of batch: %w", err)
	}
	jobs := make([]Record, n)
	for i, r := range reads {
		var err error
		jobs[i], err = r.job()
		switch {
		case errors.Is(err, ErrUnreadable):
			s.unreadable.PassOver("a record", err)
			jobs[i] = Record{ID: r.id}
		case err != nil && !errors.Is(err, job.ErrNotFound):
			return nil, err
		}
	}
	return jobs, nil
}
