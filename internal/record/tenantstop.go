package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// ErrTenantStopped is why a job ended whose tenant the operator stopped.
var ErrTenantStopped = &job.Error{Code: job.CodeTenantStopped, Message: "the operator disabled the tenant and stopped its jobs"}

// Stopped is what one call of StopTenant did, and what is left to do.
type Stopped struct {
	// Batches and Jobs that it canceled, and running jobs whose workers it asked to stop.
	Batches, Jobs, Asked int
	// Queued and Running are jobs that have not ended yet.
	Queued, Running int64
}

// stopTime bounds one call of StopTenant: what is left, the next one does.
const stopTime = 5 * time.Second

// StopTenant cancels the tenant's open batches, runs and queued jobs, ends its sessions, and asks the workers of its
// running ones to stop: as much as can be done in some seconds. Called again, it goes on; it
// does nothing once nothing is left. It is for a tenant that is disabled: else more comes.
func (s *Store) StopTenant(ctx context.Context, tenant string) (Stopped, error) {
	var done Stopped
	if !job.ValidTenant(tenant) {
		return done, job.ErrNoTenant
	}
	end := time.Now().Add(stopTime)
	err := cancelScript.Load(ctx, s.rdb)
	if err == nil {
		// A walk over all that the tenant ever had: it may not take the time that its jobs need.
		done.Batches, err = s.stopBatches(ctx, tenant, end.Add(-stopTime/2))
	}
	if err == nil {
		err = s.stopRuns(ctx, tenant, end.Add(-stopTime/4))
	}
	// What a job's end releases comes out of the backlog: that goes first.
	for _, k := range append(append([]string{approvalsKey(tenant), laterKey(tenant)}, backlogKeys(tenant)...), openKey(tenant)) {
		if err == nil {
			var n int
			n, err = s.stopQueued(ctx, tenant, k, end)
			done.Jobs += n
		}
	}
	if err == nil {
		err = s.stopSessions(ctx, tenant)
	}
	if err == nil {
		done.Asked, err = s.stopRunning(ctx, tenant)
	}
	if err == nil {
		err = s.Confirm(ctx)
	}
	if err != nil {
		return done, fmt.Errorf("stop tenant %s: %w", tenant, err)
	}
	pipe := s.rdb.Pipeline()
	queued, running := countQueued(ctx, pipe, tenant), pipe.HLen(ctx, runningKey(tenant))
	if _, err := pipe.Exec(ctx); err != nil {
		return done, fmt.Errorf("stop tenant %s: %w", tenant, err)
	}
	done.Queued, done.Running = queued(), running.Val()
	return done, nil
}

// stopRuns cancels the runs of pipelines that have not ended, a group in two round trips: no job of them is made any more.
func (s *Store) stopRuns(ctx context.Context, tenant string, end time.Time) error {
	ids, err := s.rdb.ZRange(ctx, runWorkKey(tenant), 0, -1).Result()
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { // a worker may have written it
		of, ok := job.TenantOfRun(id)
		return !ok || of != tenant
	})
	if err := cancelRunScript.Load(ctx, s.rdb); err != nil {
		return err
	}
	for group := range slices.Chunk(ids, cancelGroup) {
		if !time.Now().Before(end) {
			return nil // the next call goes on
		}
		reads, canceled := s.rdb.Pipeline(), make([]*redis.BoolCmd, len(group))
		for i, id := range group {
			canceled[i] = reads.HExists(ctx, runKey(tenant, id), "cancel")
		}
		if _, err := reads.Exec(ctx); err != nil {
			return err
		}
		cancels, n := s.rdb.Pipeline(), 0
		for i, id := range group {
			if !canceled[i].Val() {
				cancelRunScript.Pipe(ctx, cancels, tenant, script.Args{"id": id, "reason": RunStopped})
				n++
			}
		}
		if n == 0 {
			continue
		}
		if _, err := cancels.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stopQueued cancels the jobs of one index, the last ones first.
func (s *Store) stopQueued(ctx context.Context, tenant, index string, end time.Time) (canceled int, err error) {
	for left := int64(0); time.Now().Before(end); {
		ids, err := s.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: index, Rev: true, Start: left, Stop: left + cancelGroup - 1}).Result()
		if err != nil || len(ids) == 0 {
			return canceled, err
		}
		n, err := s.stopJobs(ctx, tenant, ids)
		if err != nil {
			return canceled, err
		}
		canceled += n
		left += int64(len(ids) - n) // entries without a job that waits: the sweeper's
	}
	return canceled, nil
}

func (s *Store) stopRunning(ctx context.Context, tenant string) (asked int, err error) {
	ids, err := s.rdb.HKeys(ctx, runningKey(tenant)).Result()
	if err != nil {
		return 0, err
	}
	for group := range slices.Chunk(ids, cancelGroup) {
		n, err := s.stopJobs(ctx, tenant, group)
		if err != nil {
			return asked, err
		}
		asked += n
	}
	return asked, nil
}

func (s *Store) stopSessions(ctx context.Context, tenant string) error {
	ids, err := s.rdb.ZRange(ctx, sessionWorkKey(tenant), 0, -1).Result()
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := s.EndSession(ctx, id, "", job.SessionEnd{Reason: job.EndStopped, Message: ErrTenantStopped.Message})
		if err != nil && !errors.Is(err, job.ErrNoSession) && !errors.Is(err, job.ErrSessionEnded) {
			return err
		}
	}
	return nil
}

// stopJobs cancels those of the jobs that have not ended and that nobody has canceled yet.
func (s *Store) stopJobs(ctx context.Context, tenant string, ids []string) (int, error) {
	jobs, err := s.readListed(ctx, tenant, ids)
	if err != nil {
		return 0, err
	}
	jobs = slices.DeleteFunc(jobs, func(j Record) bool { return j.State.Final() || j.State == "" || j.CancelRequested })
	return len(jobs), s.cancelMany(ctx, jobs, ErrTenantStopped)
}

// stopBatches cancels the batches that have not ended, with their jobs.
func (s *Store) stopBatches(ctx context.Context, tenant string, end time.Time) (canceled int, err error) {
	for after := Position(""); time.Now().Before(end); {
		list, next, err := s.ListBatches(ctx, tenant, after, cancelGroup)
		if err != nil {
			return canceled, err
		}
		for _, b := range list {
			if b.State.Final() || b.CancelRequested {
				continue
			}
			if _, err := s.cancelBatch(ctx, b.ID, time.Time{}, ErrTenantStopped); err != nil && !errors.Is(err, job.ErrEnded) && !errors.Is(err, job.ErrNotFound) {
				return canceled, err
			}
			canceled++
		}
		if after = next; next == "" {
			break
		}
	}
	return canceled, nil
}
