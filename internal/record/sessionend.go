package record

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// EndSession ends a session, for the worker that holds it or, with worker "", for anybody, and its executions with it: what
// runs, as canceled where somebody wanted the end, else as internal_error with code session_lost, and what waits as canceled. It
// fails with job.ErrNoSession, job.ErrSessionEnded or ErrStale.
func (s *Store) EndSession(ctx context.Context, id, worker string, end job.SessionEnd) error {
	return s.endSession(ctx, id, worker, end, false)
}

// errLivesOn means that a session was given more time.
var errLivesOn = errors.New("the session lives on")

// endSession is EndSession; of a session that has to be over it fails with errLivesOn where it isn't.
func (s *Store) endSession(ctx context.Context, id, worker string, end job.SessionEnd, expired bool) error {
	tenant, ok := job.TenantOfSession(id)
	if !ok {
		return job.ErrNoSession
	}
	word, err := endSessionScript.Run(ctx, s.lasting, tenant, script.Args{
		"id": id, "now": s.now(), "worker": worker, "reason": end.Reason, "message": end.Message, "expired": expired,
		"event": MessageID(sessionNews(id), job.EventSessionEnded), "default_retention": s.retention,
	}).Text()
	if err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	word, made, _ := strings.Cut(word, " ")
	switch word {
	case "ok":
		s.enqueueFirstDelivery(ctx, tenant, made)
		if err := s.settleSession(ctx, id); err != nil {
			s.log.Warn("session ended, its executions are left to the sweeper", "session_id", id, "error", err)
		}
		return nil
	case "missing":
		return job.ErrNoSession
	case "ended":
		return job.ErrSessionEnded
	case "stale":
		return ErrStale
	case "later":
		return errLivesOn
	}
	return fmt.Errorf("end session: the script answered %q", word)
}

// settleSession ends the executions of a session that has ended, also of one whose record can't be read.
func (s *Store) settleSession(ctx context.Context, id string) error {
	x, err := s.GetSession(ctx, id)
	if err != nil && x.ID == "" {
		return err
	}
	if err := s.endForks(ctx, x); err != nil {
		return err
	}
	for range 2 { // once to end them, and once more to find that all have
		left, err := settleSessionScript.Run(ctx, s.rdb, x.Tenant, script.Args{"id": id, "now": s.now(), "default_retention": s.retention}).StringSlice()
		if err != nil {
			return fmt.Errorf("settle session: %w", err)
		}
		var errs []error
		for _, turn := range left {
			errs = append(errs, s.endTurn(ctx, x, turn))
		}
		if err := errors.Join(errs...); err != nil || len(left) == 0 {
			return err
		}
	}
	return nil
}

// endTurn ends an execution of a session that has ended.
func (s *Store) endTurn(ctx context.Context, x Session, id string) error {
	if !ofTenant(id, x.Tenant) { // nobody of ours wrote that
		s.log.Error("what is no job of the tenant is dropped from a session's executions", "session_id", x.ID, "execution", fmt.Sprintf("%.100q", id))
		err := s.rdb.LRem(ctx, turnsKey(x.Tenant, x.ID), 0, id).Err()
		if id == x.Execution {
			err = errors.Join(err, s.rdb.HDel(ctx, sessionKey(x.Tenant, x.ID), "turn").Err())
		}
		return err
	}
	memoryMB := int64(0)
	status, problem := job.Canceled, &job.Error{Code: job.CodeSessionEnded, Message: fmt.Sprintf("its session ended (%s): %s", x.EndReason, x.EndedBecause)}
	if id == x.Execution && !wanted(x.EndReason) {
		status, problem.Code = job.InternalError, job.CodeSessionLost
	}
	if id == x.Execution && wanted(x.EndReason) { // else it was lost by us
		memoryMB = x.Settings.Limits.MemoryMB
	}
	err := s.endUnrun(ctx, id, 1, status, problem, memoryMB) // an execution is tried once
	if errors.Is(err, job.ErrNotFound) {
		return nil
	}
	return err
}

// wanted reports whether a session ends for this reason by somebody's will, be it said beforehand.
func wanted(reason string) bool {
	return slices.Contains([]string{job.EndDeleted, job.EndTTL, job.EndIdle, job.EndBudget, job.EndStopped}, reason)
}

// endLostSession ends a session whose worker is lost. Nothing of it runs again.
func (w *Sweeper) endLostSession(ctx context.Context, h runningJob) error {
	err := w.Records.EndSession(ctx, h.id, h.worker, job.SessionEnd{Reason: job.EndWorkerLost, Message: "the worker that held it was lost, and its state and files with it"})
	if errors.Is(err, job.ErrNoSession) || errors.Is(err, job.ErrSessionEnded) || errors.Is(err, ErrStale) {
		return w.Records.rdb.HDel(ctx, heldKey(h.tenant), h.id).Err() // it names a worker that it isn't held by
	}
	if err == nil {
		w.Log.Warn("session of a lost worker ended", "session_id", h.id, "worker", h.worker)
		w.Records.observer.TakenBack()
	}
	return err
}

// expiredGrace is how long after its time a session is left to its worker to end.
const expiredGrace = 30 * time.Second

// sweepSessions makes sure that each session that no worker holds has a task, and ends what should have ended by now.
func (w *Sweeper) sweepSessions(ctx context.Context, tenants ...string) error {
	list, errs, err := w.claim(ctx, tenants, claims{set: "sessionwork", until: w.Records.now().Add(recheckDelay), record: "session:", fields: []string{"state"}})
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	tasks, queues := []queue.Task{}, map[string]bool{}
	for _, d := range list {
		if of, ok := job.TenantOfSession(d.id); !ok || of != d.tenant {
			errs = append(errs, w.Records.rdb.ZRem(ctx, sessionWorkKey(d.tenant), d.id).Err())
			continue
		}
		x, err := w.Records.GetSession(ctx, d.id)
		switch late := w.Records.now().Sub(x.Expires); {
		case err != nil && x.ID == "":
			errs = append(errs, err)
		case err != nil && x.State != job.SessionEnded:
			errs = append(errs, err, w.endOver(ctx, x, job.SessionEnd{Reason: job.EndFailed, Message: "its record can't be read"}, false))
		case x.State == job.SessionEnded:
			errs = append(errs, w.Records.settleSession(ctx, x.ID))
		case x.Worker == "" && late > 0:
			errs = append(errs, w.endOver(ctx, x, job.SessionEnd{Reason: job.EndFailed, Message: "no worker had room for it in its ttl_seconds"}, true))
		case late > expiredGrace:
			errs = append(errs, w.endOver(ctx, x, job.SessionEnd{Reason: job.EndTTL, Message: "its ttl_seconds are over"}, true))
		case x.Worker == "" && x.ForkOf != "":
			errs = append(errs, w.Records.sweepFork(ctx, x))
		case x.Worker == "":
			t := queue.SessionTask(x.ID, x.Settings.Runtime, x.Settings.Placement.String())
			tasks = append(tasks, t)
			queues[t.Queue()] = true
		}
	}
	if len(tasks) == 0 {
		return errors.Join(errs...)
	}
	orphans, err := w.Records.Queue.Orphans(ctx, slices.Sorted(maps.Keys(queues)))
	return errors.Join(append(errs, err, w.Records.Queue.Rescue(ctx, tasks, orphans))...)
}

// endOver ends a session; with expired, unless it was given more time since it was read.
func (w *Sweeper) endOver(ctx context.Context, x Session, end job.SessionEnd, expired bool) error {
	err := w.Records.endSession(ctx, x.ID, "", end, expired)
	if errors.Is(err, job.ErrSessionEnded) || errors.Is(err, errLivesOn) {
		return nil
	}
	return err
}
