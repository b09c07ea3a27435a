package direct

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// problemWeight is how many times its size a problem takes while a job is made of it: decoded, encoded, and sent.
	problemWeight = 4
	// problemsAtOnce bounds what all jobs that are being made take so, in a process, and what all submissions that are read do. A tenant
	// has half of it at most.
	problemsAtOnce = 64 << 20
	// problemPatience is how long one job waits for that. A batch waits as long as its sender does.
	problemPatience = 10 * time.Second
	// mostProblems bounds the canonical forms of problems that are kept decoded, bytes. They take some twice that.
	mostProblems = 16 << 20
)

// problems are those that a process has read lately, decoded. What they are named by is what they are, so none is ever another; whether the
// tenant has one still, Redis says each time.
type problems struct {
	making  *shared // memory of jobs that are being made
	reading *shared // memory of submissions that are to be graded again

	mu    sync.Mutex
	known map[string]job.Problem // by tenant/digest
	bytes int64
}

func newProblems() *problems {
	return &problems{making: newShared(problemsAtOnce, problemsAtOnce/2), reading: newShared(problemsAtOnce, problemsAtOnce/2), known: map[string]job.Problem{}}
}

func (p *problems) get(name string) (job.Problem, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	problem, ok := p.known[name]
	return problem, ok
}

// keep keeps a problem. Where there is no room, all others are read anew.
func (p *problems) keep(name string, problem job.Problem, size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.known[name]; known {
		return
	}
	if p.bytes += size; p.bytes > mostProblems {
		p.known, p.bytes = map[string]job.Problem{}, size
	}
	p.known[name] = problem
}

// readProblem reads a stored problem. Nobody changes what it returns.
func (c *Client) readProblem(ctx context.Context, head job.ProblemHead) (job.Problem, error) {
	name := c.tenant + "/" + head.Digest
	if p, ok := c.problems.get(name); ok {
		return p, nil
	}
	var p job.Problem
	key, err := artifacts.UploadKey(c.tenant, head.Form)
	if err != nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	text, err := c.objects.GetHeld(ctx, key, job.MaxProblemBytes+1, func(int64) error { return nil }) // who asks has taken it
	if err != nil {
		return p, fmt.Errorf("read problem %s: %w", head.Digest, err)
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	if job.ProblemDigest(text) != head.Digest {
		return p, fmt.Errorf("read problem %s: the bucket has something else under its digest", head.Digest)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("read problem %s: %w", head.Digest, err)
	}
	c.problems.keep(name, p, head.Bytes)
	return p, nil
}

// namedProblem returns the head of the problem that a job names, and an empty one where there is none.
func (c *Client) namedProblem(ctx context.Context, digest string) (job.ProblemHead, error) {
	if digest == "" {
		return job.ProblemHead{}, nil
	}
	head, err := c.problemHead(ctx, digest)
	if errors.Is(err, job.ErrNoProblem) { // the check says so
		return job.ProblemHead{}, nil
	}
	return head, err
}

// problemBytes says how large the problem is that a job names, as JSON; of none it is 0.
func (c *Client) problemBytes(ctx context.Context, digest string) (int64, error) {
	head, err := c.namedProblem(ctx, digest)
	return head.Bytes, err
}

// roomForProblem fails where the tenant's quotas have no room for a job with so much of a problem, before anything of that is read.
func (c *Client) roomForProblem(ctx context.Context, bytes int64) error {
	if bytes <= record.MaxInline { // that costs little to find out later
		return nil
	}
	return c.records.CheckRoom(ctx, c.tenant, bytes)
}

// makeOfProblem takes the memory for a job that is made of a problem, if it names one, until done, and returns the head of that. It fails where there
// is no room for the job.
func (c *Client) makeOfProblem(ctx context.Context, digest string) (head job.ProblemHead, done func(), err error) {
	head, err = c.namedProblem(ctx, digest)
	if err == nil {
		err = c.roomForProblem(ctx, head.Bytes)
	}
	if err != nil {
		return head, nil, err
	}
	done, err = c.takeProblem(ctx, head.Bytes)
	return head, done, err
}

// checkOfProblem is makeOfProblem for a job that is only checked.
func (c *Client) checkOfProblem(ctx context.Context, digest string) (done func(), err error) {
	bytes, err := c.problemBytes(ctx, digest)
	if err != nil {
		return nil, err
	}
	return c.takeProblem(ctx, bytes)
}

// takeProblem takes the memory for one job with so much of a problem, until done.
func (c *Client) takeProblem(ctx context.Context, bytes int64) (done func(), err error) {
	size := problemWeight * bytes
	waiting, cancel := context.WithTimeout(ctx, problemPatience)
	defer cancel()
	if err = c.problems.making.Take(waiting, c.tenant, size); err == nil {
		return func() { c.problems.making.Give(c.tenant, size) }, nil
	}
	if waiting.Err() != nil && ctx.Err() == nil {
		err = &job.Error{Code: job.CodeUnavailable, Message: "too many jobs with large problems are being made here: try again in a moment"}
	}
	return nil, err
}

// problem reads a problem of the tenant, once for all jobs that v is for. It fails with job.ErrNoProblem.
func (v *validator) problem(ctx context.Context, digest string) (job.Problem, error) {
	if p, ok := v.problems[digest]; ok {
		return p, nil
	}
	head := v.head
	if head.Digest != digest {
		var err error
		if head, err = v.client.problemHead(ctx, digest); err != nil {
			return job.Problem{}, err
		}
	}
	p, err := v.client.readProblem(ctx, head)
	if err != nil {
		return p, err
	}
	if v.problems == nil {
		v.problems = map[string]job.Problem{}
	}
	v.problems[digest] = p
	return p, nil
}

// expand puts what a problem has into a job that names one.
func (v *validator) expand(ctx context.Context, spec job.Spec) (job.Spec, error) {
	if spec.Problem == "" {
		return spec, nil
	}
	p, err := v.problem(ctx, spec.Problem)
	if errors.Is(err, job.ErrNoProblem) {
		return spec, job.Invalid{{
			Field: "problem", Value: fmt.Sprintf("%.80s", spec.Problem), Message: "names no stored problem of this tenant",
			Allowed: "the digest of one: GET /v1/problems lists them",
		}}
	}
	if err != nil {
		return spec, err
	}
	for _, of := range v.runtimes {
		if slices.Contains(of.Aliases, spec.Runtime) && v.offers(of, spec.Isolation) {
			spec.Runtime = of.Name
		}
	}
	return p.Expand(spec)
}

// pin is [Client.pinInputs] of a job that was checked. Only then is it known how large a submission's files are that are kept elsewhere.
func (v *validator) pin(ctx context.Context, spec job.Spec, limits job.Limits) (job.Spec, error) {
	spec, err := v.client.pinInputs(ctx, spec, limits)
	if err != nil || spec.Problem == "" {
		return spec, err
	}
	p, err := v.problem(ctx, spec.Problem)
	if err != nil {
		return spec, err
	}
	return spec, p.CheckSize(spec)
}
