package record

import (
	"context"
	"fmt"
	"strings"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// Why a run is canceled.
const (
	RunCanceled = "canceled"
	RunOverdue  = "deadline_exceeded"
	RunStopped  = "tenant_stopped"   // by the operator
	RunRefused  = "pipeline_refused" // by this version, which is a newer one than began it
)

// SettleRun says that nothing is to be done for the run as it was read, until something ends in it or its
// deadline has come. It fails with ErrRunStale where that has happened.
func (s *Store) SettleRun(ctx context.Context, r Run) error {
	again := s.now().Add(standstill)
	if r.Deadline.Before(again) && r.Cancel == "" {
		again = r.Deadline
	}
	answer, err := settleRunScript.Run(ctx, s.rdb, r.Tenant, script.Args{"id": r.ID, "rev": r.rev, "again": again}).Text()
	switch {
	case err != nil:
		return fmt.Errorf("settle run: %w", err)
	case answer != "ok":
		return ErrRunStale
	}
	return nil
}

// RunEnd is how a run ends.
type RunEnd struct {
	Status job.Status
	// Outputs are JSON, and Note is what else there is to say, or "".
	Outputs []byte
	Note    string
}

// EndRun ends the run as it was read. It fails with ErrRunStale where that has changed; one that has ended
// is left as it is.
func (s *Store) EndRun(ctx context.Context, r Run, e RunEnd) error {
	answer, err := endRunScript.Run(ctx, s.lasting, r.Tenant, script.Args{"id": r.ID, "now": s.now(), "rev": r.rev, "status": string(e.Status), "outputs": e.Outputs, "note": job.Clip(e.Note, maxRunNote)}).Text()
	if err != nil {
		return fmt.Errorf("end run: %w", err)
	}
	word, delivery, _ := strings.Cut(answer, " ")
	if word == "stale" {
		return ErrRunStale
	}
	s.enqueueFirstDelivery(ctx, r.Tenant, delivery)
	return nil
}

// maxRunNote bounds what is said of a run's end, bytes.
const maxRunNote = 500

// CancelRun begins to cancel a run: no job of it is made any more. It fails with job.ErrNotFound or job.ErrEnded.
func (s *Store) CancelRun(ctx context.Context, id, reason string) error {
	tenant, ok := job.TenantOfRun(id)
	if !ok {
		return job.ErrNotFound
	}
	answer, err := cancelRunScript.Run(ctx, s.lasting, tenant, script.Args{"id": id, "reason": reason}).Text()
	switch {
	case err != nil:
		return fmt.Errorf("cancel run: %w", err)
	case answer == "missing":
		return job.ErrNotFound
	case answer == "ended":
		return job.ErrEnded
	}
	return nil
}

// CancelRunJobs cancels jobs of a run in one round trip. Those that have ended, or are gone, are left as they are.
func (s *Store) CancelRunJobs(ctx context.Context, r Run, ids []string) error {
	if err := cancelScript.Load(ctx, s.rdb); err != nil {
		return err
	}
	jobs, err := s.readListed(ctx, r.Tenant, ids)
	if err != nil {
		return err
	}
	var live []Record
	for _, j := range jobs {
		if j.State != "" && !j.State.Final() && !j.CancelRequested {
			live = append(live, j)
		}
	}
	if err := s.cancelMany(ctx, live, nil); err != nil {
		return err
	}
	return s.Confirm(ctx)
}
