package record

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// Retention is how long jobs of a tenant with these terms are kept, at most, and unless
// they ask for less.
func (s *Store) Retention(t job.Terms) time.Duration {
	if t.RetentionSeconds == 0 {
		return s.retention
	}
	return min(time.Duration(t.RetentionSeconds)*time.Second, s.retention)
}

// retentionOf is how long this job is kept after its end.
func (s *Store) retentionOf(spec job.Spec, t job.Terms) time.Duration {
	if spec.RetentionSeconds == 0 {
		return s.Retention(t)
	}
	return min(time.Duration(spec.RetentionSeconds)*time.Second, s.Retention(t))
}

// Expires is when a job that has ended is no longer kept.
func (j Record) Expires() time.Time { return j.Finished.Add(j.Retention) }

// Purge takes an ended job out of everything but what says which objects of it are
// still to be deleted: they are due at once, and once they are gone, Forget says so. A
// delivery that is pending is dropped. It fails with job.ErrNotFound or job.ErrNotEnded, also
// for a job of a run that has not ended.
func (s *Store) Purge(ctx context.Context, id string) error {
	j, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	deliveries, err := s.DeliveriesOf(ctx, j.Tenant, id, job.EventCompleted, j.Callback)
	if err != nil {
		return err
	}
	rest := []any{MessageID(id, job.EventCompleted)} // one that no endpoint has yet
	for _, did := range deliveries {
		rest = append(rest, did)
	}
	answer, err := purgeScript.Run(ctx, s.rdb, j.Tenant, script.Args{"id": id, "now": s.now()}, rest...).Slice()
	switch {
	case err != nil:
		return fmt.Errorf("purge job: %w", err)
	case answer[0] == "missing":
		return job.ErrNotFound
	case answer[0] == "run":
		return ErrRunLives
	case answer[0] == "kept":
		return job.ErrNotEnded
	}
	s.enqueueDeliveries(ctx, j.Tenant, answer[1])
	return nil
}

// DeliveriesOf lists the ids that deliveries about a job or batch have: to its callback, if that isn't "",
// and to each endpoint that there is now.
func (s *Store) DeliveriesOf(ctx context.Context, tenant, subject, event, callback string) (ids []string, err error) {
	if callback != "" {
		ids = append(ids, DeliveryID(subject, event, callback))
	}
	endpoints, err := s.Endpoints(ctx, tenant)
	for _, e := range endpoints {
		ids = append(ids, DeliveryID(subject, event, e.ID))
	}
	return ids, err
}

// Purged says that the objects of a purged job are deleted. The sweeper looks once more,
// for what a try that lost the job may still be writing.
func (s *Store) Purged(ctx context.Context, id string) error {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return job.ErrNotFound
	}
	return s.forget(ctx, tenant, id, s.now().Add(secondSweepDelay))
}

// forget gives back what a job, batch or session without record and objects, or an upload, took of its
// tenant's quotas, and takes it out of the list. again is when to look for objects once more, if ever.
func (s *Store) forget(ctx context.Context, tenant, id string, again time.Time) error {
	err := forgetScript.Run(ctx, s.rdb, tenant, script.Args{"id": id, "again": again, "now": s.now(), "lend_most": s.lendMost}).Err()
	if err != nil {
		return fmt.Errorf("forget %s: %w", id, err)
	}
	return nil
}

// stored is how many bytes of objects are kept for the tenant.
func (s *Store) stored(ctx context.Context, tenant string) (int64, error) {
	n, err := s.sum(s.rdb.Get(ctx, storedKey(tenant)))
	if err != nil {
		return 0, fmt.Errorf("read bytes stored: %w", err)
	}
	return n, nil
}

// checkStored fails with a *job.Error when a tenant keeps as much as it may.
func (s *Store) checkStored(ctx context.Context, tenant string, q job.Quotas) error {
	if q.BytesStored == 0 {
		return nil
	}
	n, err := s.stored(ctx, tenant)
	if err != nil || n < q.BytesStored {
		return err
	}
	return &job.Error{
		Code: job.CodeQuotaExceeded,
		Message: fmt.Sprintf("the tenant's quota bytes_stored (%d) is used up by the %d bytes that are kept of its jobs: purge some, or wait until they expire",
			q.BytesStored, n),
	}
}
