package record

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

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
	must, measured := "", ""
	if u.Measured {
		measured = "1"
	}
	if known {
		must = "1"
	} else if err := s.rdb.SAdd(ctx, tenantsKey, u.Tenant).Err(); err != nil {
		return fmt.Errorf("hold upload: %w", err)
	}
	from := s.now()
	if u.From.After(from) {
		from = u.From
	}
	until := from.Add(max(uploadLife, s.Retention(terms)))
	answer, err := holdScript.Run(ctx, s.rdb, []string{tenantPrefix(u.Tenant)},
		uploadPrefix+u.SHA256, u.Size, ms(until), terms.Quotas.BytesStored, must, s.mostRecorded(terms), measured).Text()
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

// An upload's entry in kept is its bytes, 1 once it is being deleted, and what it takes of Redis.
var holdScript = redis.NewScript(memory + `
-- ARGV: upload, bytes, until, most bytes stored (0: any), 1 if it has to be there, most bytes recorded, 1 if the bucket said its bytes
local bytes, state = string.match(call('HGET', t .. 'kept', ARGV[1]) or '', '^(%d+) (%d)')
if not bytes and ARGV[5] == '1' then return 'missing' end
if state == '1' then return 'goes' end
local held, size, most = tonumber(bytes or 0), tonumber(ARGV[2]), tonumber(ARGV[4])
if ARGV[7] ~= '1' then size = math.max(size, held) end
if most > 0 and size > held and sum(t .. 'stored') + size - held > most then return 'bytes_stored' end
if not bytes then
  if in_redis() + upload_cost > tonumber(ARGV[6]) then return 'bytes_recorded' end
  charge(upload_cost)
end
call('HSET', t .. 'kept', ARGV[1], string.format('%.0f 0 %.0f', size, upload_cost))
count(t .. 'stored', size - held)
call('ZADD', t .. 'garbage', 'GT', ARGV[3], ARGV[1])
return 'ok'`)

// sweepUpload deletes an upload whose time is over, and which this process may delete until then.
func (w *Sweeper) sweepUpload(ctx context.Context, tenant, entry string, until time.Time) error {
	answer, err := claimUploadScript.Run(ctx, w.Records.rdb, []string{garbageKey(tenant), keptKey(tenant)}, entry, ms(until)).Text()
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

var claimUploadScript = redis.NewScript(`
-- KEYS: garbage, kept   ARGV: upload, until when it is put off
local due = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not due or tonumber(due) > tonumber(ARGV[2]) then return 'held' end
local bytes, charged = string.match(redis.call('HGET', KEYS[2], ARGV[1]) or '', '^(%d+) %d ?(%d*)$')
redis.call('HSET', KEYS[2], ARGV[1], (bytes or '0') .. ' 1 ' .. (charged or ''))
return 'ok'`)
