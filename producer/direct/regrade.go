package direct

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const (
	// submissionsAtOnce is how many submissions are read side by side, and submissionWeight how many times its size one takes.
	submissionsAtOnce = 16
	submissionWeight  = 2
)

// What Regrade says of a submission that is not graded again.
const (
	notKept     = "the job is no longer kept"
	notEnded    = "the job had not ended by then"
	notGraded   = "the job ended without being graded"
	noSource    = "its source is not kept"
	gradedLater = "a later job has graded the same submission"
	beyondBatch = "there are more than a batch may have, and this is one of the oldest"
)

// Regrade is [producer.Problems.Regrade].
func (c *Client) Regrade(ctx context.Context, digest string, r producer.RegradeRequest) (producer.Regraded, error) {
	return c.RegradeWhile(ctx, digest, r, nil)
}

// RegradeWhile is Regrade that goes on as long as it may: permit, if it is not nil, is asked before each group of jobs is created, and its
// error ends the batch.
func (c *Client) RegradeWhile(ctx context.Context, digest string, r producer.RegradeRequest, permit func(context.Context) error) (producer.Regraded, error) {
	if _, err := c.problemHead(ctx, digest); err != nil {
		return producer.Regraded{}, err
	}
	head, err := c.problemHead(ctx, r.From)
	switch {
	case errors.Is(err, job.ErrNoProblem):
		return producer.Regraded{}, job.Invalid{{Field: "from", Value: fmt.Sprintf("%.80s", r.From), Message: "names no stored problem of this tenant", Allowed: "the digest of the problem that graded the submissions"}}
	case err != nil:
		return producer.Regraded{}, err
	case r.From == digest:
		return producer.Regraded{}, job.Invalid{{Field: "from", Value: r.From, Message: "is the problem itself", Allowed: "the digest of another one"}}
	case !slices.Contains([]job.Priority{"", job.High, job.Normal, job.Low}, r.Priority):
		return producer.Regraded{}, job.Invalid{{Field: "priority", Value: fmt.Sprintf("%.80s", r.Priority), Message: "is not known", Allowed: "high, normal, low"}}
	}
	var until time.Time
	if r.EndedBefore != nil {
		until = *r.EndedBefore
	} else if r.IdempotencyKey != "" {
		return producer.Regraded{}, job.Invalid{{Field: "ended_before", Message: "is missing beside an idempotency key", Allowed: "a time, the same each time: jobs that end meanwhile would make other submissions of the same request"}}
	}
	before, err := c.readProblem(ctx, head)
	if err != nil {
		return producer.Regraded{}, err
	}
	v, err := c.validator(ctx)
	if err != nil {
		return producer.Regraded{}, err
	}
	g := regrade{client: c, validator: &v, from: r.From, until: until, before: before, to: digest, priority: cmp.Or(r.Priority, job.Low), seen: map[string]bool{}}
	g.answer.LeftOut = []producer.LeftOut{}
	g.answer.Batch, err = c.receiveBatch(ctx, producer.BatchOptions{BatchOptions: r.BatchOptions}, receiver{client: c, permit: permit, regrades: true}, itemsOf(g.submissions(ctx)))
	var invalid job.Invalid
	if errors.As(err, &invalid) && slices.Equal(invalid, emptyBatch) {
		return producer.Regraded{}, job.Invalid{{
			Field: "from", Value: r.From, Message: fmt.Sprintf("has graded no submission that can be graded again (%d can't)", g.answer.LeftOutTotal),
			Allowed: "a problem with jobs that have ended, and are still kept",
		}}
	}
	return g.answer, err
}

// regrade makes the jobs that grade submissions again.
type regrade struct {
	client    *Client
	validator *validator
	from, to  string
	until     time.Time // when their jobs have to have ended; zero for now, whatever a clock says
	before    job.Problem
	priority  job.Priority
	seen      map[string]bool // jobs that graded a submission first
	answer    producer.Regraded
}

// leave notes that a job's submission is left out.
func (g *regrade) leave(id, reason string) {
	if g.answer.LeftOutTotal++; len(g.answer.LeftOut) < producer.MaxLeftOut {
		g.answer.LeftOut = append(g.answer.LeftOut, producer.LeftOut{ID: id, Reason: reason})
	}
}

// submissions are those that the older problem graded, those that were created last first.
func (g *regrade) submissions(ctx context.Context) iter.Seq2[job.Spec, error] {
	return func(yield func(job.Spec, error) bool) {
		jobs, err := g.client.records.GradedBy(ctx, g.client.tenant, g.from)
		for some := range slices.Chunk(jobs, submissionsAtOnce) {
			if err == nil {
				err = g.passOn(ctx, some, yield)
			}
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(job.Spec{}, err)
		}
	}
}

// errStopped says that nobody wants more submissions.
var errStopped = errors.New("stopped")

// submission is one that was read, or why it was not.
type submission struct {
	spec   job.Spec
	first  string // job that graded it first
	reason string
}

// passOn reads some submissions side by side, and yields them in their order.
func (g *regrade) passOn(ctx context.Context, jobs []record.Graded, yield func(job.Spec, error) bool) error {
	if len(g.seen) == job.MaxBatch { // nothing of them is read
		for _, j := range jobs {
			g.leave(j.ID, beyondBatch)
		}
		return nil
	}
	// Who yields waits for memory to make jobs, which nobody holds who waits for this.
	const size = submissionWeight * submissionsAtOnce * job.MaxSubmissionBytes
	reading, tenant := g.client.problems.reading, g.client.tenant
	if err := reading.Take(ctx, tenant, size); err != nil {
		return err
	}
	defer reading.Give(tenant, size)
	read := make([]submission, len(jobs))
	reads, readCtx := errgroup.WithContext(ctx)
	for i, j := range jobs {
		reads.Go(func() (err error) {
			read[i], err = g.read(readCtx, j)
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return err
	}
	for i, s := range read {
		switch {
		case s.reason != "":
			g.leave(jobs[i].ID, s.reason)
		case g.seen[s.first]:
			g.leave(jobs[i].ID, gradedLater)
		case len(g.seen) == job.MaxBatch:
			g.leave(jobs[i].ID, beyondBatch)
		default:
			g.seen[s.first] = true
			if !yield(s.spec, nil) {
				return errStopped
			}
		}
	}
	return nil
}

// read reads the submission that a job graded.
func (g *regrade) read(ctx context.Context, j record.Graded) (s submission, err error) {
	switch {
	case j.State == "":
		s.reason = notKept
	case !j.State.Final(), !g.until.IsZero() && !j.Finished.Before(g.until):
		s.reason = notEnded
	case !j.Stored:
		s.reason = notGraded
	}
	if s.reason != "" {
		return s, nil
	}
	r, err := g.client.records.Get(ctx, j.ID)
	if errors.Is(err, job.ErrNotFound) {
		s.reason = notKept
		return s, nil
	}
	if err != nil {
		return s, err
	}
	keys, err := artifacts.JobKeys(r.Tenant, r.ID)
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	text, err := g.client.objects.GetHeld(ctx, keys.Submission(int64(r.Epoch)), job.MaxSubmissionBytes, func(int64) error { return nil }) // passOn has taken it
	if errors.Is(err, artifacts.ErrNotFound) {
		s.reason = noSource
		return s, nil
	}
	if err != nil && !errors.Is(err, artifacts.ErrTooLarge) {
		return s, fmt.Errorf("read submission of job %s: %w", j.ID, err)
	}
	var kept job.Spec
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil { // a worker has spoiled it, which ends no request about all others
		g.client.log.Warn("a submission can't be read, and is left out", "job_id", j.ID, "error", err)
		s.reason = noSource
		return s, nil
	}
	s.first = cmp.Or(r.Metadata[job.RegradeKey], r.ID)
	before := g.before
	before.Limits = g.validator.within(before.Limits, kept.Runtime, kept.Isolation)
	s.spec = before.TakeBack(kept.Submission()) // a worker wrote it, and must not name a secret
	s.spec.Problem, s.spec.Priority = g.to, g.priority
	s.spec.Placement = nil // it says where, not what: there may be no such worker any more, or the tenant is tied to others
	s.spec.Metadata = maps.Clone(r.Metadata)
	if s.spec.Metadata == nil {
		s.spec.Metadata = map[string]string{}
	}
	s.spec.Metadata[job.RegradeKey] = s.first
	return s, nil
}
