package record

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// What HoldUpload answers.
var (
	ErrNoUpload = errors.New("no such upload")
	// ErrUploadGoes is an upload that is being deleted: in a moment there is none.
	ErrUploadGoes = errors.New("the upload is being deleted: try again in a moment")
)

// uploadLife is how long an upload is kept at least after it was last asked for.
const uploadLife = 24 * time.Hour

// Upload is content that is to be an input, of one tenant.
type Upload struct {
	Tenant string
	SHA256 string // in lower-case hex
	Size   int64  // bytes, as somebody said
	// Measured is that the bucket said Size: the content is there.
	Measured bool
	// From is when it is to be used, if that is later than now.
	From time.Time
}

// uploadPrefix tells an upload from a job, where entries of both are.
const uploadPrefix = "upload:"

// HoldUpload keeps an upload, which counts as stored from then on, for a day and for as
// long as the tenant's jobs are kept, from when it is used: be it that it is there, or that somebody is about to
// put it there. With known set it has to have been held before, else it is ErrNoUpload. An
// upload that the tenant's quotas have no room for is a *job.Error.
//
// The most that was ever asked for counts, as every URL that was handed out for it may
// still be used, until the bucket has said how large it is.
func (s *Store) HoldUpload(ctx context.Context, u Upload, known bool) error {
	terms, err := s.terms(ctx, u.Tenant)
	if err != nil {
		return fmt.Errorf("hold upload: %w", err)
	}
	if !known {
		if err := s.rdb.SAdd(ctx, tenantsKey, u.Tenant).Err(); err != nil {
			return fmt.Errorf("hold upload: %w", err)
		}
	}
	from := s.now()
	if u.From.After(from) {
		from = u.From
	}
	until := from.Add(max(uploadLife, s.Retention(terms)))
	answer, err := holdUploadScript.Run(ctx, s.rdb, u.Tenant, script.Args{
		"upload": uploadPrefix + u.SHA256, "bytes": u.Size, "measured": u.Measured, "known": known, "keep_until": until,
		"most_stored": terms.Quotas.BytesStored, "most_recorded": s.mostRecorded(terms),
	}).Text()
	switch {
	case err != nil:
		return fmt.Errorf("hold upload: %w", err)
	case answer == "missing":
		return ErrNoUpload
	case answer == "goes":
		return ErrUploadGoes
	case answer == "bytes_recorded":
		return overRecorded(s.mostRecorded(terms))
	case answer == "bytes_stored":
		return &job.Error{
			Code:    job.CodeQuotaExceeded,
			Message: fmt.Sprintf("the tenant's quota bytes_stored (%d) has no room for %d bytes more: purge jobs, or wait until some expire", terms.Quotas.BytesStored, u.Size),
		}
	}
	return nil
}

// sweepUpload deletes an upload whose time is over, and which this process may delete until then.
func (w *Sweeper) sweepUpload(ctx context.Context, tenant, entry string, until time.Time) error {
	if held, err := w.Records.Held(ctx); err != nil || held { // before it is claimed, which refuses those who want it
		return err
	}
	answer, err := claimUploadScript.Run(ctx, w.Records.rdb, tenant, script.Args{"upload": entry, "again": until, "later": until.Add(uploadLife)}).Text()
	if err != nil {
		return fmt.Errorf("claim %s: %w", entry, err)
	}
	if answer == "held" {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if err := w.DeleteUpload(bounded, tenant, strings.TrimPrefix(entry, uploadPrefix)); err != nil {
		return fmt.Errorf("delete %s: %w", entry, err)
	}
	return w.Records.forget(ctx, tenant, entry, time.Time{})
}
