package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// ForkError means that a session is to be forked, before its next execution: that session is to go on from where it is.
type ForkError struct{ ID string }

func (e *ForkError) Error() string { return "the session is to be forked: " + e.ID }

// OpenFork writes the record of a session that is to go on from another, where that will be once it has executed what it was given before. It waits in that one's line, and its
// worker takes it by TakeFork. It is in all else as OpenSession; it fails with job.ErrUnforkable, job.ErrSessionBusy or job.ErrSessionEnded besides. One with secrets ends when the first session
// that has them would have to: nobody holds a secret for longer by forks.
func (s *Store) OpenFork(ctx context.Context, of Session, settings job.SessionSettings, asked []byte) (Session, error) {
	switch {
	case len(settings.Secrets) == 0:
		of.UntilMost = time.Time{}
	case of.UntilMost.IsZero():
		of.UntilMost = of.Created.Add(job.MaxTTLSeconds * time.Second)
	}
	return s.openSessionOf(ctx, of.Tenant, settings, asked, of)
}

// TakeFork makes the worker that holds a session the one that holds a fork of it: it has the session's contexts, and goes on with its count of executions and its chain. It fails with
// job.ErrNoSession, job.ErrSessionEnded or ErrStale.
func (s *Store) TakeFork(ctx context.Context, id, of, worker string) (Session, error) {
	tenant, ok := job.TenantOfSession(id)
	if from, isSession := job.TenantOfSession(of); !ok || !isSession || from != tenant {
		return Session{}, job.ErrNoSession
	}
	answer, err := forkSessionScript.Run(ctx, s.rdb, tenant, script.Args{"id": id, "of": of, "worker": worker}).Slice()
	if err != nil {
		return Session{}, fmt.Errorf("take fork: %w", err)
	}
	return claimed(tenant, id, answer)
}

// endForks ends the forks that wait in the line of a session that has ended.
func (s *Store) endForks(ctx context.Context, x Session) error {
	line, err := s.rdb.LRange(ctx, turnsKey(x.Tenant, x.ID), 0, -1).Result()
	if err != nil {
		return fmt.Errorf("read forks of session: %w", err)
	}
	var errs []error
	for _, id := range line {
		if tenant, ok := job.TenantOfSession(id); ok && tenant == x.Tenant {
			errs = append(errs, s.endFork(ctx, id))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) endFork(ctx context.Context, id string) error {
	err := s.EndSession(ctx, id, "", job.SessionEnd{Reason: job.EndFailed, Message: "the session that it was to be forked from has ended: replay that one (glovebox session replay)"})
	if errors.Is(err, job.ErrSessionEnded) || errors.Is(err, job.ErrNoSession) {
		return nil
	}
	return err
}

// sweepFork ends a fork that nobody holds, unless it waits in the line of its session.
func (s *Store) sweepFork(ctx context.Context, x Session) error {
	of, err := s.GetSession(ctx, x.ForkOf)
	if err == nil && of.State != job.SessionEnded {
		line, err := s.rdb.LRange(ctx, turnsKey(x.Tenant, x.ForkOf), 0, -1).Result()
		if err != nil || slices.Contains(line, x.ID) {
			return err
		}
		now, err := s.GetSession(ctx, x.ID) // it leaves the line as its worker takes it
		if err != nil || now.Worker != "" {
			return err
		}
	} else if err != nil && !errors.Is(err, job.ErrNoSession) {
		return err
	}
	return s.endFork(ctx, x.ID)
}
