package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// Held is why a job waits for a decision, as its record has it.
type Held struct {
	job.Hold

	// By is the id of the token that submitted it, or "": its holder does not decide.
	By string `json:"by,omitempty"`
}

// HashInput names the job of that id with that spec, as its record or the bucket has it. Both are in it, so that a decision is about one job.
func HashInput(id string, spec []byte) string {
	h := sha256.New()
	for _, part := range []string{"glovebox/approval/v1\n", id, "\n"} {
		_, _ = io.WriteString(h, part) // a hash takes all
	}
	h.Write(spec)
	return hex.EncodeToString(h.Sum(nil))
}

// heldFields are what the record of a job that is held has besides, and until when it is, ms; nothing and "" for any other.
func heldFields(h *Held) (fields []any, until string, size int, err error) {
	if h == nil {
		return nil, "", 0, nil
	}
	b, err := job.Marshal(h)
	if err != nil {
		return nil, "", 0, fmt.Errorf("encode hold: %w", err)
	}
	return []any{"hold", b}, fmt.Sprint(ms(h.ExpiresAt)), textCost(len(b)), nil
}

// Approve lets a job run that is held as j has it. It fails with job.ErrNotFound or job.ErrNotHeld.
func (s *Store) Approve(ctx context.Context, j Record, a job.Approval) error {
	window, err := s.window(ctx, j.Tenant)
	if err != nil {
		return fmt.Errorf("approve job: %w", err)
	}
	b, err := job.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode approval: %w", err)
	}
	now := s.now()
	answer, err := approveScript.Run(ctx, s.lasting, j.Tenant, script.Args{
		"id": j.ID, "now": now, "due": now.Add(sweepDelay), "window": window, "hold": j.holdText, "approval": b, "size": textCost(len(b)),
	}).Slice()
	if err != nil {
		return fmt.Errorf("approve job: %w", err)
	}
	switch answer[0] {
	case "missing":
		return job.ErrNotFound
	case "stale":
		return job.ErrNotHeld
	case "ok":
		released, _ := answer[1].([]any)
		if err := s.enqueueReleased(ctx, released); err != nil {
			s.log.Warn("job approved, its task is left to the sweeper", "job_id", j.ID, "error", err)
		}
		return nil
	}
	return fmt.Errorf("approve job: the script answered %v", answer[0])
}

// Refuse ends a job that is held as canceled, for that reason. It fails with job.ErrNotFound or job.ErrNotHeld.
func (s *Store) Refuse(ctx context.Context, j Record, reason *job.Error) error {
	if j.State != job.Held {
		return job.ErrNotHeld
	}
	b, err := job.Marshal(j.Failure(job.Canceled, reason, s.now()))
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	err = s.End(ctx, j, Ending{Status: job.Canceled, From: job.Held, Result: b})
	if errors.Is(err, job.ErrEnded) || errors.Is(err, ErrStale) {
		return job.ErrNotHeld
	}
	return err
}

// HeldJobs returns a tenant's jobs that wait for a decision, as lists have them: first those that wait for the shortest time yet.
func (s *Store) HeldJobs(ctx context.Context, tenant string, most int) ([]Record, error) {
	if !job.ValidTenant(tenant) {
		return nil, nil
	}
	ids, err := s.rdb.ZRange(ctx, approvalsKey(tenant), 0, int64(most)-1).Result()
	if err != nil {
		return nil, fmt.Errorf("list held jobs: %w", err)
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return !ofTenant(id, tenant) })
	held, err := s.readListed(ctx, tenant, ids)
	return slices.DeleteFunc(held, func(j Record) bool { return j.State != job.Held || j.Hold == nil }), err
}

// ErrApprovalExpired is why a job ended that nobody decided about in time.
var ErrApprovalExpired = &job.Error{Code: job.CodeApprovalExpired, Message: "nobody approved the job in time"}

// sweepApprovals ends the jobs that nobody decided about in time.
func (w *Sweeper) sweepApprovals(ctx context.Context, tenants ...string) error {
	overdue, err := w.Records.whereDue(ctx, tenants, approvalsKey, 0)
	if err != nil {
		return err
	}
	return perTenant(w.endUndecided)(ctx, overdue...)
}

func (w *Sweeper) endUndecided(ctx context.Context, tenant string) error {
	notHeld := func(s job.Status) bool { return s != job.Held }
	return w.eachDueJob(ctx, tenant, approvalsKey(tenant), notHeld, func(j Record) error {
		err := w.Records.Refuse(ctx, j, ErrApprovalExpired)
		if errors.Is(err, job.ErrNotHeld) || errors.Is(err, job.ErrNotFound) {
			return nil // somebody else was quicker
		}
		return err
	})
}

// readDecision reads what the record says of a decision about the job: one that is waited for, and one that was taken. A worker may have
// spoiled either: then nobody can approve the job, and no worker runs it as approved, but it still ends.
func (j *Record) readDecision(f map[string]string) {
	if f["hold"] != "" || f["approval"] != "" {
		j.SpecText = f["spec"]
	}
	if text := f["hold"]; text != "" {
		j.holdText = text
		if json.Unmarshal([]byte(text), &j.Hold) != nil {
			j.Hold = nil
		}
	}
	if text := f["approval"]; text != "" && (json.Unmarshal([]byte(text), &j.Approval) != nil || j.Approval == nil) {
		j.Approval = &job.Approval{}
	}
}

// CheckApproved fails with job.ErrOtherInput where somebody approved the job with another spec than this.
func (j Record) CheckApproved(spec []byte) error {
	if j.Approval != nil && j.Approval.InputHash != HashInput(j.ID, spec) {
		return job.ErrOtherInput
	}
	return nil
}
