package direct

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// StoreProblem is [producer.Problems.StoreProblem].
func (c *Client) StoreProblem(ctx context.Context, p job.Problem) (job.ProblemHead, error) {
	head := job.ProblemHead{Name: p.Name, Tests: len(p.Tests)}
	if err := p.Check(); err != nil {
		return head, err
	}
	canonical, err := p.Canonical()
	if err != nil {
		return head, err
	}
	head.Digest, head.Bytes = job.ProblemDigest(canonical), int64(len(canonical))
	if head.Bytes > job.MaxProblemBytes {
		return head, job.Invalid{{
			Field: "tests", Value: fmt.Sprintf("%d bytes with all else, as JSON", head.Bytes), Message: "are too large",
			Allowed: fmt.Sprintf("%d bytes; upload the larger inputs and answers (stdin_upload, answer_upload)", job.MaxProblemBytes),
		}}
	}
	if err := c.checkProblem(ctx, p); err != nil {
		return head, err
	}
	// With a line end behind it, so that its name can't be known from the digest, which every submission names.
	if head.Form, err = c.PutUpload(ctx, append(canonical, '\n')); err != nil {
		return head, err
	}
	if err := describe(&head, p); err != nil {
		return head, err
	}
	head, err = c.records.SetProblem(ctx, c.tenant, head, append(p.Uploads(), head.Form))
	if err == nil {
		err = describe(&head, p) // one that was there may lack it
	}
	var missing *record.MissingUpload
	if errors.As(err, &missing) { // it was there a moment ago
		err = &job.Error{Code: job.CodeUnavailable, Message: fmt.Sprintf("the upload %s is being deleted: try again in a moment", missing.SHA256)}
	}
	return head, err
}

// describe notes in a problem's head what a client has to know to grade by it, and can't read: the problem itself shows hidden tests.
func describe(head *job.ProblemHead, p job.Problem) error {
	if head.MaxScore != nil { // it has it: a problem stays what it is
		return nil
	}
	judgement, err := grading.NewJudgement(p.Tests, p.Groups)
	if err != nil {
		return err
	}
	most := judgement.Whole().MaxScore
	head.Scoring, head.MaxScore, head.Starts = grading.Scoring(p.Tests, p.Groups), &most, nil
	for runtime, include := range p.Include {
		if head.Starts == nil {
			head.Starts = map[string]bool{}
		}
		head.Starts[runtime] = include.Entrypoint != "" || include.Commands != nil
	}
	return nil
}

// described returns the head of a problem that was stored before heads were described, with what is in the problem.
func (c *Client) described(ctx context.Context, head job.ProblemHead) (job.ProblemHead, error) {
	done, err := c.takeProblem(ctx, head.Bytes)
	if err != nil {
		return head, err
	}
	defer done()
	p, err := c.readProblem(ctx, head)
	if err == nil {
		err = describe(&head, p)
	}
	return head, err
}

// checkProblem refuses a problem by which no submission could be graded, and holds its uploads.
func (c *Client) checkProblem(ctx context.Context, p job.Problem) error {
	v, err := c.validator(ctx)
	if err != nil {
		return err
	}
	var runtimes []string
	runtimes = append(runtimes, p.Runtimes...)
	for name := range p.Include {
		if len(p.Runtimes) == 0 && name != job.DefaultInclude {
			runtimes = append(runtimes, name)
		}
	}
	for _, least := range c.isolations {
		if offered := v.namesFor(least); len(runtimes) == 0 && len(offered) > 0 {
			runtimes = offered[:1]
		}
	}
	if len(runtimes) == 0 {
		return job.ErrNoRuntimes
	}
	for i, runtime := range runtimes {
		needed := []string{runtime}
		if p.Checker != nil && p.Checker.Program != nil {
			needed = append(needed, p.Checker.Program.Runtime)
		}
		include := p.IncludeFor(runtime)
		name := "submission"
		if include.Entrypoint != "" {
			name = include.Entrypoint // where the problem has no such file, a submission has to
		}
		sample, err := p.Expand(job.Spec{Runtime: runtime, Files: []job.File{{Name: name}}, Entrypoint: name, Isolation: v.isolationFor(needed)})
		if err != nil {
			return err
		}
		own := len(sample.Files) - len(include.Files)
		checked, limits, err := v.check(ctx, sample)
		if err == nil && checked.Runtime != runtime {
			err = job.Invalid{{Field: "runtime", Value: fmt.Sprintf("%.80s", runtime), Message: "is an alias", Allowed: checked.Runtime}}
		}
		if err == nil && i > 0 { // the tests are those of the first
			checked.Tests, checked.Checker = nil, nil
		}
		if err == nil {
			_, err = c.pinInputs(ctx, checked, limits)
		}
		if err != nil {
			return inProblem(err, runtime, own, len(p.Runtimes) > 0)
		}
	}
	return nil
}

// inProblem says of wrong fields of a sample in a runtime where they are in the problem. The files of the sample's own come first.
func inProblem(err error, runtime string, own int, listed bool) error {
	var invalid job.Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	include := "include." + runtime
	moved := make(job.Invalid, len(invalid))
	for i, f := range invalid {
		field, rest, _ := strings.Cut(f.Field, ".")
		number, isFile := strings.CutPrefix(field, "files[")
		if n, err := strconv.Atoi(strings.TrimSuffix(number, "]")); isFile && err == nil {
			f.Field = strings.TrimSuffix(fmt.Sprintf("%s.files[%d].%s", include, n-own, rest), ".")
		}
		switch field {
		case "files", "entrypoint", "commands", "source":
			f.Field = include + "." + f.Field
		case "runtime":
			f.Field = include
			if listed {
				f.Field = "runtimes"
			}
		}
		moved[i] = f
	}
	return moved
}

// Problem is [producer.Problems.Problem].
func (c *Client) Problem(ctx context.Context, digest string) (job.StoredProblem, error) {
	head, err := c.problemHead(ctx, digest)
	if err != nil {
		return job.StoredProblem{}, err
	}
	if err := c.memory.Take(ctx, answerWeight*head.Bytes); err != nil {
		return job.StoredProblem{}, err
	}
	p, err := c.readProblem(ctx, head)
	if err == nil {
		err = describe(&head, p)
	}
	return job.StoredProblem{ProblemHead: head, Problem: p}, err
}

// problemHead is that of a problem of the tenant, or job.ErrNoProblem.
func (c *Client) problemHead(ctx context.Context, digest string) (job.ProblemHead, error) {
	if !job.IsSHA256(digest) {
		return job.ProblemHead{}, job.ErrNoProblem
	}
	return c.records.Problem(ctx, c.tenant, digest)
}

// ListProblems is [producer.Problems.ListProblems].
func (c *Client) ListProblems(ctx context.Context) ([]job.ProblemHead, error) {
	list, err := c.records.Problems(ctx, c.tenant)
	if err != nil {
		return nil, err
	}
	for i, head := range list {
		if head.MaxScore != nil {
			continue
		}
		if described, err := c.described(ctx, head); err == nil { // else it is listed all the same, so that it can be deleted
			list[i] = described
		}
	}
	return list, nil
}

// DeleteProblem is [producer.Problems.DeleteProblem].
func (c *Client) DeleteProblem(ctx context.Context, digest string) error {
	if !job.IsSHA256(digest) {
		return job.ErrNoProblem
	}
	return c.records.DeleteProblem(ctx, c.tenant, digest)
}
