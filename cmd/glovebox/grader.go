package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/internal/grading/kattis"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// grader judges programs by a problem, each as a job.
type grader struct {
	*app
	jobs     *producer.Client
	problem  *kattis.Problem
	runtimes []producer.Runtime
	runtime  string           // --runtime
	stored   *job.ProblemHead // in place of problem
	// validator is the runtime of the problem's own validator; "" if it has none.
	validator string
	uploads   map[string]string // the tests' data that are not in the jobs themselves
}

// attempt is one program, and what it came to.
type attempt struct {
	name    string
	program kattis.Program
	run     kattis.Run
	expect  []kattis.Expectation

	id     string
	result *job.Result // nil where nothing was run
	why    string      // nothing was run, or could be read
}

func (a *app) newGrader(ctx context.Context, jobs *producer.Client, problem *kattis.Problem, runtime string) (*grader, error) {
	g, err := a.openGrader(ctx, jobs, problem, runtime)
	if err == nil {
		g.uploads, err = g.upload(ctx, inlineData, smallData)
	}
	return g, err
}

// openGrader is newGrader without its uploads.
func (a *app) openGrader(ctx context.Context, jobs *producer.Client, problem *kattis.Problem, runtime string) (*grader, error) {
	g := &grader{app: a, jobs: jobs, problem: problem, runtime: runtime}
	var err error
	if g.runtimes, err = jobs.Runtimes(ctx); err != nil {
		return nil, err
	}
	if len(g.runtimes) == 0 {
		return nil, job.ErrNoRuntimes
	}
	if v := problem.Validator; v != nil {
		if g.validator, err = g.runtimeFor(v.Language); err != nil {
			return nil, &failure{code: exitUsage, err: fmt.Errorf("%s: %w", v.Path, err)}
		}
	}
	return g, nil
}

// A job has up to inlineData bytes of its tests' inputs and answers in itself; where there are more,
// those larger than smallData are uploaded, which all jobs share.
const (
	inlineData = 256 << 10
	smallData  = 1 << 10 // of a thousand tests, 2 MiB
)

// upload uploads the data larger than small, unless all of it together is no more than inline.
func (g *grader) upload(ctx context.Context, inline, small int64) (map[string]string, error) {
	var all []kattis.Data
	var size int64
	for _, t := range g.problem.Tests {
		all = append(all, t.Input, t.Answer)
		size += t.Input.Size + t.Answer.Size
	}
	if size <= inline {
		return nil, nil
	}
	large := slices.DeleteFunc(all, func(d kattis.Data) bool { return d.Size <= small })
	bar := g.progress("uploading", len(large))
	defer bar.end()
	uploads := map[string]string{}
	for i, d := range large {
		sha256, err := g.uploadData(ctx, d)
		if err != nil {
			return nil, err
		}
		uploads[d.Path] = sha256
		bar.set(i + 1)
	}
	return uploads, nil
}

func (g *grader) uploadData(ctx context.Context, d kattis.Data) (sha256 string, err error) {
	f, err := g.problem.Open(d)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", d.Path, err)
	}
	defer f.Close()
	content, ok := f.(io.ReadSeeker)
	if !ok {
		return "", fmt.Errorf("read %s: it can't be read twice", d.Path)
	}
	uploaded, err := producer.UploadFile(ctx, g.jobs, d.Path, content)
	return uploaded.Upload, err
}

// findRuntime chooses the runtime of a program.
func (g *grader) findRuntime(p kattis.Program) (string, error) {
	if g.runtime != "" {
		return g.runtime, nil
	}
	if p.Language == "" {
		return "", fmt.Errorf("no language goes by the names of its files (%s); --runtime gives one", clipped(strings.Join(p.Names(), ", ")))
	}
	return g.runtimeFor(p.Language)
}

// ownName is the name of a runtime that an alias is of.
func (g *grader) ownName(runtime string) string {
	for _, r := range g.runtimes {
		if slices.Contains(r.Aliases, runtime) {
			return r.Name
		}
	}
	return runtime
}

// runtimeFor chooses the runtime for a language, by its code in the package format.
func (g *grader) runtimeFor(language string) (string, error) {
	var names []string
	for _, r := range g.runtimes {
		names = append(names, r.Name)
	}
	for _, name := range kattis.RuntimesFor(language) {
		for _, r := range g.runtimes {
			if r.Name == name || slices.Contains(r.Aliases, name) {
				return r.Name, nil
			}
		}
	}
	return "", fmt.Errorf("this Glovebox has no runtime for %s (%s); it has %s", language, strings.Join(kattis.RuntimesFor(language), " or "), strings.Join(names, ", "))
}

// judge runs the attempts side by side, as far as workers are free, and waits for their end. One that
// can't be run says why, as one that could not be read does already. Where the API refuses every other one, the fault is no single
// submission's: judge returns it.
func (g *grader) judge(ctx context.Context, attempts []*attempt) error {
	bar := g.progress("graded", len(attempts))
	defer bar.end()
	refused := 0
	var first error
	for _, t := range attempts {
		if t.why != "" {
			refused++
			continue
		}
		spec, err := g.spec(t)
		if err != nil {
			t.why = err.Error()
			continue
		}
		err = g.submit(ctx, t, spec)
		if code := job.CodeOf(err); code == job.CodeInvalid || code == job.CodeTooLarge {
			t.why = err.Error()
			first = cmp.Or(first, fmt.Errorf("%s: %w", t.name, err))
			refused++
			continue
		}
		if err != nil {
			return g.giveUp(ctx, attempts, err)
		}
	}
	if first != nil && refused == len(attempts) {
		return g.giveUp(ctx, attempts, first)
	}
	for i, t := range attempts {
		if t.id != "" {
			j, err := g.jobs.Wait(ctx, t.id)
			if err != nil {
				return g.giveUp(ctx, attempts, err)
			}
			t.result = j.Result
		}
		bar.set(i + 1)
	}
	return nil
}

// submit bears with quotas that are full, and with an API that is away for a while.
func (g *grader) submit(ctx context.Context, t *attempt, spec job.Spec) error {
	patience := newPatience()
	for {
		j, err := g.jobs.Submit(ctx, spec)
		if err == nil {
			t.id = j.ID
			return nil
		}
		if g.fit(&spec.Limits, spec.Checker, err) {
			continue
		}
		if err := patience.wait(ctx, err); err != nil {
			return err
		}
	}
}

func (g *grader) spec(t *attempt) (job.Spec, error) {
	var err error
	if t.program.Runtime, err = g.findRuntime(t.program); err != nil {
		return job.Spec{}, err
	}
	if g.stored != nil {
		spec, err := t.program.Submission(g.stored.StartsIn(g.ownName(t.program.Runtime)))
		spec.Problem = g.stored.Digest
		return spec, err
	}
	t.run.Uploads, t.run.Validator = g.uploads, g.validator
	return g.problem.Spec(t.program, t.run)
}

// giveUp cancels what was submitted, as nobody waits for it any more.
func (g *grader) giveUp(ctx context.Context, attempts []*attempt, err error) error {
	const most = 10 * time.Second
	cancel, done := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer done()
	for _, t := range attempts {
		if t.id == "" || t.result != nil {
			continue
		}
		if _, err := g.jobs.Cancel(cancel, t.id); err != nil && !errors.Is(err, job.ErrEnded) {
			fmt.Fprintf(g.stderr, "%s goes on: %v; \"glovebox cancel %s\" ends it\n", t.name, err, t.id)
		}
	}
	if ctx.Err() != nil {
		return silent(exitInterrupted)
	}
	return err
}

// attempts makes one of each submission of the package, with all tests run.
func (g *grader) attempts(submissions []kattis.Submission, limit time.Duration) []*attempt {
	var all []*attempt
	for _, s := range submissions {
		all = append(all, &attempt{
			name: s.Path, program: kattis.Program{Language: s.Language, Files: s.Files, Entrypoint: s.Entrypoint},
			run: kattis.Run{Time: limit, All: true}, expect: s.Expect,
		})
	}
	return all
}

// whole is what an attempt comes to by the package's own groups and a time limit, however long its tests
// were let run. Its tests have their own verdicts, those after the end of a group too.
func (g *grader) whole(t *attempt, limit time.Duration) (grading.Whole, error) {
	j, err := g.problem.Judgement()
	if err != nil {
		return grading.Whole{}, err
	}
	own := make([]job.Verdict, len(g.problem.Tests))
	for i, r := range t.result.Tests[:min(len(own), len(t.result.Tests))] {
		v := r.Verdict
		if r.Usage != nil && v != job.SkippedTest && v != job.JudgeError && time.Duration(r.Usage.CPUMS)*time.Millisecond > limit {
			v = job.TestTimedOut
		}
		var score *float64 // of the validator's own; else the package's rules say
		if g.problem.Validator != nil && v == job.Accepted {
			score = &r.Score
		}
		j.Set(i, v, score)
		own[i] = v
	}
	w := j.Whole()
	for i, v := range own {
		if v != "" {
			w.Tests[i].Verdict = v
		}
	}
	return w, nil
}

// visibleInputs reads what programs are given in tests that are not hidden, the beginning of each.
func (g *grader) visibleInputs() (map[string]string, error) {
	inputs := map[string]string{}
	for _, t := range g.problem.Tests {
		if t.Hidden || g.problem.Interactive { // the validator alone has it then
			continue
		}
		f, err := g.problem.Open(t.Input)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", t.Input.Path, err)
		}
		b, err := io.ReadAll(io.LimitReader(f, mostExercismInput+1))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("read %s: %w", t.Input.Path, err)
		}
		text := cut(strings.ToValidUTF8(string(b), "\uFFFD"), mostExercismInput, "…")
		if len(t.Args) > 0 {
			text = fmt.Sprintf("arguments: %q\n%s", t.Args, text)
		}
		inputs[t.Name] = text
	}
	return inputs, nil
}

// clipped shortens a text for one line.
func clipped(s string) string {
	const most = 80
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}
