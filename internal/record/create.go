package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// ErrExists is what became of a job whose id has a record already.
var ErrExists = errors.New("there is a job of that id already")

// NewJob is a job to create.
type NewJob struct {
	ID   string
	Spec job.Spec
	// JSON is Spec as JSON. Defaults to its encoding: it is for callers that have it.
	JSON []byte
	// SpecRef is the S3 key of a spec above MaxInline, or "" for one that the record
	// itself holds.
	SpecRef string
	// Key is an idempotency key, or "", and RequestHash what was sent under it: the same
	// once more is the same job, anything else job.ErrConflict.
	Key         string
	RequestHash RequestHash
	// Index and Fingerprint are for AddToBatch.
	Index       int
	Fingerprint Fingerprint
	// Step, Index and Try are for AddToRun.
	Step string
	Try  int
	// Trace is where the job's trace goes on, as a traceparent, or "".
	Trace string
	// Hold has the job wait for a decision; nil for none.
	Hold *Held
	// Watched says that somebody watches it from the start.
	Watched bool
}

// Created is what became of a NewJob.
type Created struct {
	// ID of the job, which with Again is the one that its idempotency key began.
	ID    string
	Again bool
	// At is when the job was created, as its record has it. It is zero with Again, and with Err.
	At time.Time
	// Err is nil for a job that is accepted. Else nothing was created: it is ErrExists,
	// job.ErrConflict, a *job.GoneError, or a *job.Error beyond the tenant's quotas.
	Err error
}

const (
	// sweepDelay is how long a released job may be without a task before the sweeper looks.
	sweepDelay = 10 * time.Second
	// What one call of the create script takes at most, so that it holds up nobody.
	createMost      = 100
	createMostBytes = 1 << 20
)

// Create is CreateMany of one job. An error means that nothing was accepted, as far as
// Redis has said.
func (s *Store) Create(ctx context.Context, id string, spec job.Spec, specRef string) error {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return fmt.Errorf("create job %q: not a job id", id)
	}
	created, err := s.CreateMany(ctx, tenant, []NewJob{{ID: id, Spec: spec, SpecRef: specRef}})
	if err != nil {
		return err
	}
	return created[0].Err
}

// CreateMany writes the records of new jobs of one tenant, and gives those a task whose
// turn it is: the others wait in the tenant's backlog. It takes a round trip for some 100
// jobs, and one for each that is released at once. Once the record is written
// the job is accepted: a task that could not be enqueued is the sweeper's work.
//
// It returns what became of the jobs, in their order. With an error it is shorter than
// jobs: of the rest nobody knows. Creating these again is harmless, they are ErrExists then.
func (s *Store) CreateMany(ctx context.Context, tenant string, jobs []NewJob) ([]Created, error) {
	return s.createMany(ctx, tenant, whole{}, jobs)
}

// whole is what jobs are created in: a batch, a run, or nothing.
type whole struct {
	batch, run string
	left       time.Duration // until the run's deadline: its jobs are kept for as long
}

// createMany is CreateMany of jobs in something.
func (s *Store) createMany(ctx context.Context, tenant string, in whole, jobs []NewJob) ([]Created, error) {
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("create jobs: %w", err)
	}
	quotas := terms.Quotas
	if err := errors.Join(s.checkStored(ctx, tenant, quotas), s.checkBudget(ctx, tenant, terms)); err != nil {
		return refuseAll(jobs, err)
	}
	window, err := s.window(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("create jobs: %w", err)
	}
	mostOpen, err := s.mostOpen(ctx)
	if err != nil {
		return nil, fmt.Errorf("create jobs: %w", err)
	}
	if err := s.noteTenant(ctx, tenant); err != nil {
		return nil, fmt.Errorf("create jobs: %w", err)
	}
	if slices.ContainsFunc(jobs, func(j NewJob) bool { return len(j.Spec.Placement) > 0 }) {
		if err := s.notePooled(ctx, tenant); err != nil {
			return nil, fmt.Errorf("create jobs: %w", err)
		}
	}
	mostRecorded := s.mostRecorded(terms)
	created := make([]Created, 0, len(jobs))
	for len(created) < len(jobs) {
		now := s.now()
		var list []any
		some, size := jobs[len(created):], 0
		for i, j := range some {
			if i == createMost || size > createMostBytes {
				some = some[:i]
				break
			}
			var n int
			if list, n, err = s.appendJob(list, tenant, in, j, terms); err != nil {
				return created, err
			}
			size += n
			if i == 0 { // the others say about as much
				list = slices.Grow(list, len(list)*(min(len(some), createMost)-1))
			}
		}
		words, err := s.createSome(ctx, tenant, script.Args{
			"now": now, "due": now.Add(sweepDelay), "window": window, "most_open": mostOpen,
			"most_jobs": quotas.JobsQueued, "most_bytes": quotas.BytesQueued, "most_recorded": mostRecorded,
			"batch": in.batch, "run": in.run, "batch_due": now.Add(batchPatience), "first": some[0].Index, "last": some[len(some)-1].Index,
		}, list)
		if err != nil {
			return created, err
		}
		for i, word := range words[:min(len(words), len(some))] {
			created = append(created, s.accepted(some[i], word, now, quotas, mostRecorded))
		}
		if len(words) != len(some) {
			return created, fmt.Errorf("create jobs: the script answered %d words for %d", len(words), len(some))
		}
	}
	return created, nil
}

// refuseAll is what became of jobs none of which there is room for, or else err.
func refuseAll(jobs []NewJob, err error) ([]Created, error) {
	var refused *job.Error
	if !errors.As(err, &refused) {
		return nil, fmt.Errorf("create jobs: %w", err)
	}
	created := make([]Created, len(jobs))
	for i, j := range jobs {
		created[i] = Created{ID: j.ID, Err: err}
	}
	return created, nil
}

// appendJob appends what lua/create.lua wants to know of a job, and says how large its spec is.
func (s *Store) appendJob(list []any, tenant string, in whole, j NewJob, terms job.Terms) ([]any, int, error) {
	if of, ok := job.TenantOf(j.ID); !ok || of != tenant {
		return nil, 0, fmt.Errorf("create job %q: not a job id of tenant %s", j.ID, tenant)
	}
	spec := j.JSON
	if spec == nil {
		var err error
		if spec, err = job.Marshal(j.Spec); err != nil {
			return nil, 0, fmt.Errorf("encode spec: %w", err)
		}
	}
	metadata, err := job.Marshal(j.Spec.Metadata)
	if err != nil {
		return nil, 0, fmt.Errorf("encode metadata: %w", err)
	}
	retention := (s.retentionOf(j.Spec, terms) + in.left).Milliseconds()
	fields := []any{"version", j.Spec.Needs(), "runtime", j.Spec.Runtime, "metadata", metadata, "retention", retention}
	if j.Spec.Image != "" {
		fields = append(fields, "image", j.Spec.Image)
	}
	if j.Spec.Problem != "" {
		fields = append(fields, "problem", j.Spec.Problem)
	}
	if least := j.Spec.Isolation.Or(); least != job.GVisor {
		fields = append(fields, "isolation", string(least))
	}
	placement := j.Spec.Placement.String()
	if placement != "" {
		fields = append(fields, "placement", placement)
	}
	if j.Spec.Interactive {
		fields = append(fields, "interactive", 1)
	}
	if !j.Spec.RunAt.IsZero() {
		fields = append(fields, "run_at", ms(j.Spec.RunAt))
	}
	if !j.Spec.Deadline.IsZero() {
		fields = append(fields, "deadline", ms(j.Spec.Deadline))
	}
	if j.Spec.Callback != nil {
		fields = append(fields, "callback", j.Spec.Callback.URL)
	}
	if j.Trace != "" {
		fields = append(fields, "trace", j.Trace)
	}
	inline := spec
	if j.SpecRef != "" {
		inline = nil
		fields = append(fields, "spec_ref", j.SpecRef)
	} else {
		fields = append(fields, "spec", spec)
	}
	if j.Watched {
		fields = append(fields, "watched", ms(s.now().Add(watchLife)))
	}
	if in.batch != "" {
		fields = append(fields, "batch", in.batch, "index", j.Index)
	}
	held, until, heldSize, err := heldFields(j.Hold)
	if err != nil {
		return nil, 0, err
	}
	fields = append(fields, held...)
	item := ""
	if in.run != "" {
		item = itemName(j.Step, j.Index)
		fields = append(fields, "run", in.run, "item", item, "try", j.Try)
	}
	list = append(
		list, j.ID, len(spec), string(cmp.Or(j.Spec.Priority, job.Normal)), script.Plain(j.Spec.RunAt), script.Plain(j.Spec.Deadline),
		j.Index, string(j.Fingerprint[:]), item, j.Try, until, MessageID(j.ID, job.EventHeld), hashKey(j.Key), j.RequestHash.String(), j.Spec.Problem, placement, retention, jobMemory(j.Spec, inline, metadata)+textCost(len(j.Trace))+textCost(len(placement))+heldSize, len(fields),
	)
	return append(list, fields...), len(spec), nil
}

// createSome runs the create script, and enqueues what it released.
func (s *Store) createSome(ctx context.Context, tenant string, a script.Args, list []any) (words []any, err error) {
	answer, err := createScript.Run(ctx, s.lasting, tenant, a, list...).Slice()
	if err != nil {
		return nil, fmt.Errorf("create jobs: %w", err)
	}
	if len(answer) != 3 {
		return nil, fmt.Errorf("create jobs: the script answered %v", answer)
	}
	words, ok := answer[0].([]any)
	released, alsoOK := answer[1].([]any)
	told, allOK := answer[2].([]any)
	if !ok || !alsoOK || !allOK {
		return nil, fmt.Errorf("create jobs: the script answered %v", answer)
	}
	if err := s.enqueueReleased(ctx, released); err != nil {
		s.log.Warn("jobs accepted, their tasks are left to the sweeper", "tenant", tenant, "error", err)
	}
	for _, made := range told {
		s.enqueueFirstDelivery(ctx, tenant, fmt.Sprint(made))
	}
	return words, nil
}

// accepted says what the script's word for a job means, which was run at that time.
func (s *Store) accepted(j NewJob, word any, now time.Time, q job.Quotas, mostRecorded int64) Created {
	c := Created{ID: j.ID}
	switch word {
	case "ok":
		c.At = now.UTC().Truncate(time.Millisecond)
		s.observer.Accepted(j.Spec.Runtime, cmp.Or(j.Spec.Priority, job.Normal))
	case "exists":
		c.Err = ErrExists
	case "over":
		c.Err = job.ErrEnded
	case "jobs_queued", "bytes_queued":
		c.Err = overQuota(word.(string), q)
	case "bytes_recorded":
		c.Err = overRecorded(mostRecorded)
	case "placements":
		c.Err = overPools()
	default:
		text, _ := word.(string)
		if id, again := strings.CutPrefix(text, "again "); again {
			return Created{ID: id, Again: true}
		}
		if id, gone := strings.CutPrefix(text, "gone "); gone {
			c.Err = &job.GoneError{ID: id}
			break
		}
		if c.Err = batchRefusal(text); c.Err != nil {
			c.Err = fmt.Errorf("create job %s: %w", j.ID, c.Err)
		}
	}
	return c
}

// Announce says that objects of this job are about to be written to S3 although its
// record does not exist yet: should it never come to exist, the sweeper deletes them.
func (s *Store) Announce(ctx context.Context, id string) error {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return fmt.Errorf("announce job %q: not a job id", id)
	}
	pipe := s.rdb.Pipeline()
	pipe.SAdd(ctx, tenantsKey, tenant)
	pipe.ZAdd(ctx, garbageKey(tenant), redis.Z{Score: float64(ms(s.now().Add(announceDelay))), Member: id})
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("announce job: %w", err)
	}
	return nil
}

// announceDelay is how long a producer may take from Announce to Create.
const announceDelay = 10 * time.Minute
