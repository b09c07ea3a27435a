package record

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// endedField is before a status, in a batch's record: how many jobs ended in it.
	endedField = "n:"
	// batchPatience is how long a batch that is being received may be left alone.
	batchPatience = 15 * time.Minute
	// keyLife is how long an idempotency key names its job or batch.
	keyLife = 24 * time.Hour
)

// Batch is a batch's record.
type Batch struct {
	ID, Tenant string
	State      job.BatchStatus
	// Jobs were accepted and Rejected not. Once the batch is sealed that is all of it.
	Jobs, Rejected int
	// Extent is above every index of them: one that is refused while the batch is received
	// leaves a hole until it is sent again.
	Extent int
	// Ended jobs, by their status.
	Ended           map[job.Status]int
	CancelRequested bool
	// Callback is the URL that is told, or "".
	Callback                  string
	Metadata                  map[string]string
	Created, Sealed, Finished time.Time // the latter two zero until then
	// Retention is how long it is kept after its end.
	Retention time.Duration
	// Errors of rejected jobs, some of them, by index.
	Errors []job.ItemError
}

// Expires is when a batch that has ended is kept no longer.
func (b Batch) Expires() time.Time { return b.Finished.Add(b.Retention) }

// Total is how many jobs were sent so far.
func (b Batch) Total() int { return b.Jobs + b.Rejected }

// Fingerprint tells one job of a batch from another that comes in its place: 62 bits
// of the SHA-256 of its JSON, a bit that says that it was rejected, and one that is
// always set, so that it is never what Redis has where nothing was written.
type Fingerprint [fingerprintBytes]byte

const fingerprintBytes = 8

// NewFingerprint of a job's JSON.
func NewFingerprint(json []byte) Fingerprint {
	sum := sha256.Sum256(json)
	f := Fingerprint(sum[:fingerprintBytes])
	f[0] = f[0]&^rejectedBit | presentBit
	return f
}

const (
	rejectedBit = 0x80
	presentBit  = 0x01
)

func (f Fingerprint) rejected() Fingerprint { f[0] |= rejectedBit; return f }

// Rejected reports whether the job was.
func (f Fingerprint) Rejected() bool { return f[0]&rejectedBit != 0 }

// Known reports whether there is such a job at all.
func (f Fingerprint) Known() bool { return binary.BigEndian.Uint64(f[:]) != 0 }

// Same reports whether it is the same job, be it accepted or rejected.
func (f Fingerprint) Same(as Fingerprint) bool { return f.rejected() == as.rejected() }

// OpenBatch begins a batch, or finds the one that its key began: then continued is
// true. It fails with job.ErrConflict where that has other options, and with a *job.GoneError
// where it is no longer kept.
func (s *Store) OpenBatch(ctx context.Context, tenant string, o job.BatchOptions) (b Batch, continued bool, err error) {
	if !job.ValidTenant(tenant) {
		return Batch{}, false, fmt.Errorf("open batch: %.40q is no tenant", tenant)
	}
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return Batch{}, false, fmt.Errorf("open batch: %w", err)
	}
	key := o.IdempotencyKey
	o.IdempotencyKey = ""
	options, err := job.Marshal(o)
	if err != nil {
		return Batch{}, false, fmt.Errorf("encode options: %w", err)
	}
	metadata, err := job.Marshal(o.Metadata)
	if err != nil {
		return Batch{}, false, fmt.Errorf("encode metadata: %w", err)
	}
	id, now := job.NewBatchID(tenant), s.now()
	callback, delivery := "", ""
	if o.Callback != nil {
		callback = o.Callback.URL
		delivery = DeliveryID(id, job.EventBatchCompleted, callback)
	}
	if err := s.noteTenant(ctx, tenant); err != nil {
		return Batch{}, false, fmt.Errorf("open batch: %w", err)
	}
	optionsSum := sha256.Sum256(options)
	size, most := batchCost+textCost(len(metadata))+2*textCost(len(callback)), s.mostRecorded(terms)
	held, err := openBatchScript.Run(ctx, s.lasting, tenant, script.Args{
		"id": id, "now": now, "due": now.Add(batchPatience), "key": hashKey(key), "options": hex.EncodeToString(optionsSum[:8]),
		"size": size, "most_recorded": most,
	}, "callback", callback, "delivery", delivery, "message", MessageID(id, job.EventBatchCompleted), "metadata", metadata, "retention", s.Retention(terms).Milliseconds()).Text()
	if err != nil {
		return Batch{}, false, fmt.Errorf("open batch: %w", err)
	}
	gone, isGone := strings.CutPrefix(held, "gone ")
	switch {
	case isGone:
		return Batch{}, false, &job.GoneError{ID: gone}
	case held == "conflict":
		return Batch{}, false, job.ErrConflict
	case held == "bytes_recorded":
		return Batch{}, false, overRecorded(most)
	}
	b, err = s.GetBatch(ctx, held)
	return b, held != id, err
}

// RenewBatch says that the batch is still being sent, should nothing new come for long.
func (s *Store) RenewBatch(ctx context.Context, id string) error {
	tenant, ok := job.TenantOfBatch(id)
	if !ok {
		return job.ErrNotFound
	}
	if err := renewBatchScript.Run(ctx, s.rdb, tenant, script.Args{"id": id, "due": s.now().Add(batchPatience)}).Err(); err != nil {
		return fmt.Errorf("renew batch: %w", err)
	}
	return nil
}

// GetBatch returns the record of a batch, or job.ErrNotFound.
func (s *Store) GetBatch(ctx context.Context, id string) (Batch, error) {
	tenant, ok := job.TenantOfBatch(id)
	if !ok {
		return Batch{}, job.ErrNotFound
	}
	pipe := s.rdb.Pipeline()
	fields, faults := pipe.HGetAll(ctx, batchKey(tenant, id)), pipe.HGetAll(ctx, batchErrorsKey(tenant, id))
	prints := pipe.StrLen(ctx, batchItemsKey(tenant, id))
	if _, err := pipe.Exec(ctx); err != nil {
		return Batch{}, fmt.Errorf("read batch: %w", err)
	}
	if len(fields.Val()) == 0 {
		return Batch{}, job.ErrNotFound
	}
	b, err := parseBatch(tenant, id, fields.Val(), faults.Val())
	b.Extent = min(int(prints.Val())/fingerprintBytes, job.MaxBatch)
	return b, err
}

// Fingerprints returns those of n of the batch's jobs, from index first on.
func (s *Store) Fingerprints(ctx context.Context, id string, first, n int) ([]Fingerprint, error) {
	tenant, ok := job.TenantOfBatch(id)
	if !ok {
		return nil, job.ErrNotFound
	}
	text, err := s.rdb.GetRange(ctx, batchItemsKey(tenant, id), int64(first)*fingerprintBytes, int64(first+n)*fingerprintBytes-1).Result()
	if err != nil {
		return nil, fmt.Errorf("read jobs of batch: %w", err)
	}
	list := make([]Fingerprint, n)
	for i := range list {
		copy(list[i][:], text[min(i*fingerprintBytes, len(text)):])
	}
	return list, nil
}

// SealBatch says that the batch has so many jobs, all of which were added. It ends the
// batch if all of them have ended. A batch that was sealed before with as many is left
// as it is; with another number, SealBatch fails with job.ErrConflict.
func (s *Store) SealBatch(ctx context.Context, id string, total int) (Batch, error) {
	tenant, ok := job.TenantOfBatch(id)
	if !ok {
		return Batch{}, job.ErrNotFound
	}
	answer, err := sealBatchScript.Run(ctx, s.lasting, tenant, script.Args{"id": id, "now": s.now(), "total": total}).Text()
	if err != nil {
		return Batch{}, fmt.Errorf("seal batch: %w", err)
	}
	switch word, delivery, _ := strings.Cut(answer, " "); word {
	case "ok":
		s.enqueueFirstDelivery(ctx, tenant, delivery)
		return s.GetBatch(ctx, id)
	case "missing":
		return Batch{}, job.ErrNotFound
	case "conflict":
		return Batch{}, job.ErrConflict
	default:
		return Batch{}, fmt.Errorf("seal batch %s of %d jobs: the script answered %q", id, total, answer)
	}
}

func parseBatch(tenant, id string, f, faults map[string]string) (Batch, error) {
	b := Batch{
		ID: id, Tenant: tenant, State: job.BatchStatus(f["state"]), Ended: map[job.Status]int{},
		CancelRequested: f["cancel"] != "", Callback: f["callback"],
	}
	r := fields{of: "batch " + id, f: f}
	b.Jobs, b.Rejected = int(r.number("jobs")), int(r.number("rejected"))
	b.Created, b.Sealed, b.Finished = r.at("created"), r.at("sealed"), r.at("finished")
	b.Retention = time.Duration(r.number("retention")) * time.Millisecond
	for name := range f {
		if status, ok := strings.CutPrefix(name, endedField); ok {
			b.Ended[job.Status(status)] = int(r.number(name))
		}
	}
	r.fail("metadata", json.Unmarshal([]byte(f["metadata"]), &b.Metadata))
	for _, text := range faults {
		var fault job.ItemError
		r.fail("errors", json.Unmarshal([]byte(text), &fault))
		b.Errors = append(b.Errors, fault)
	}
	slices.SortFunc(b.Errors, func(x, y job.ItemError) int { return x.Index - y.Index })
	return b, r.err
}
