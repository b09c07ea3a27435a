package record

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// terms of a tenant: none where it has no record.
func (s *Store) terms(ctx context.Context, tenant string) (job.Terms, error) {
	t, err := s.Tenant(ctx, tenant)
	if err != nil && !errors.Is(err, job.ErrNoTenant) {
		return job.Terms{}, err
	}
	return t.Terms, nil
}

// CheckRoom fails, as Create would, when the tenant's quotas have no room for a job of
// so many bytes: before its spec goes to the bucket. Create decides.
func (s *Store) CheckRoom(ctx context.Context, tenant string, bytes int64) error {
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return err
	}
	quotas := terms.Quotas
	if err := s.checkStored(ctx, tenant, quotas); err != nil {
		return err
	}
	pipe := s.rdb.Pipeline()
	jobs, queued := countQueued(ctx, pipe, tenant), pipe.Get(ctx, queuedKey(tenant))
	recorded := s.countRecorded(ctx, pipe, tenant)
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return fmt.Errorf("read what is queued: %w", err)
	}
	held, err := s.sum(queued)
	if err != nil {
		return fmt.Errorf("read bytes queued: %w", err)
	}
	taken, err := recorded()
	if err != nil {
		return err
	}
	switch {
	case taken+jobCost > s.mostRecorded(terms):
		return overRecorded(s.mostRecorded(terms))
	case quotas.JobsQueued > 0 && jobs() >= quotas.JobsQueued:
		return overQuota("jobs_queued", quotas)
	case quotas.BytesQueued > 0 && held+bytes > quotas.BytesQueued && (jobs() > 0 || bytes > quotas.BytesQueued):
		return overQuota("bytes_queued", quotas)
	}
	return nil
}

// countQueued asks for the number of a tenant's queued jobs: released, in the backlog, for later, or held. The number is there
// once the pipeline was executed.
func countQueued(ctx context.Context, pipe redis.Pipeliner, tenant string) func() int64 {
	counts := []*redis.IntCmd{pipe.ZCard(ctx, openKey(tenant)), pipe.ZCard(ctx, laterKey(tenant)), pipe.ZCard(ctx, approvalsKey(tenant))}
	for _, k := range backlogKeys(tenant) {
		counts = append(counts, pipe.ZCard(ctx, k))
	}
	return func() (n int64) {
		for _, c := range counts {
			n += c.Val()
		}
		return n
	}
}

// overQuota says which quota has no room for another job.
func overQuota(quota string, q job.Quotas) error {
	most := q.JobsQueued
	if quota == "bytes_queued" {
		most = q.BytesQueued
	}
	return &job.Error{
		Code:    job.CodeQuotaExceeded,
		Message: fmt.Sprintf("the tenant's quota %s (%d) has no room for this job until a worker has taken others", quota, most),
	}
}
