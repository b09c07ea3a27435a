package kattis

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/job"
)

// Program is what is to be judged.
type Program struct {
	Runtime    string // the runtime's name
	Language   string // its code in the format; "" if none is known
	Files      []job.File
	Entrypoint string // "" for what the language chooses
}

// Run says how a program is to be judged.
type Run struct {
	// Time is the CPU time of each test.
	Time time.Duration
	// All runs every test, whatever the ones before came to.
	All bool
	// Uploads are the SHA-256 of data that were uploaded, by path. What is not in it goes with the job.
	Uploads map[string]string
	// Validator is the runtime of the package's own validator, if it has one.
	Validator string
}

// Judgement adds up verdicts as the package says.
func (p *Problem) Judgement() (*grading.Judgement, error) {
	return grading.NewJudgement(p.graded(), p.Groups)
}

// Spec makes a job of a program. It asks for the limits that the package has.
func (p *Problem) Spec(program Program, run Run) (job.Spec, error) {
	files, entrypoint, err := p.assemble(program)
	if err != nil {
		return job.Spec{}, err
	}
	commands, err := together(program.Language, entrypoint, namesOf(files))
	if err != nil {
		return job.Spec{}, err
	}
	spec := job.Spec{
		Runtime: program.Runtime, Files: files, Entrypoint: entrypoint, Commands: commands,
		Limits: p.limits(run.Time), Checker: p.checker(run), Groups: slices.Clone(p.Groups),
	}
	if spec.Tests, err = p.tests(run); err != nil {
		return spec, err
	}
	if run.All {
		spec.Groups = runAll(spec.Tests, spec.Groups)
	}
	spec.SpecVersion = spec.Needs()
	return spec, nil
}

// Submission is the program as a job that a stored problem grades. A single file that is text is its source, which the
// problem may give another name. starts says that the problem itself has what is compiled and started: then the program doesn't say it.
func (p Program) Submission(starts bool) (job.Spec, error) {
	if len(p.Files) == 1 && p.Files[0].Content != "" {
		return job.Spec{Runtime: p.Runtime, Source: p.Files[0].Content, Entrypoint: p.Files[0].Name}, nil
	}
	anything := Problem{Limits: Limits{CodeKB: mostMB << 10}} // the problem's own limit is the API's to apply
	files, entrypoint, err := anything.assemble(p)
	if err != nil || starts {
		return job.Spec{Runtime: p.Runtime, Files: files}, err
	}
	commands, err := together(p.Language, entrypoint, namesOf(files))
	return job.Spec{Runtime: p.Runtime, Files: files, Entrypoint: entrypoint, Commands: commands}, err
}

// tests are those of the package, with what they read and expect.
func (p *Problem) tests(run Run) (tests []job.Test, err error) {
	for _, t := range p.Tests {
		test := job.Test{Name: t.Name, Group: t.Group, Points: t.Points, Args: t.Args, CheckerArgs: t.CheckerArgs, Hint: t.Hint, Hidden: t.Hidden}
		if test.Stdin, test.StdinBase64, test.StdinUpload, err = p.content(t.Input, run.Uploads); err != nil {
			return nil, err
		}
		if test.Answer, test.AnswerBase64, test.AnswerUpload, err = p.content(t.Answer, run.Uploads); err != nil {
			return nil, err
		}
		tests = append(tests, test)
	}
	return tests, nil
}

// limits are for each test: the wall clock is the backstop, for a program that waits. In the format nothing but memory bounds a stack.
func (p *Problem) limits(time time.Duration) job.Limits {
	cpu := time.Milliseconds()
	return job.Limits{
		CPUMS: cpu, WallMS: min(2*cpu+1000, max(cpu, p.Room().Milliseconds())),
		CompileWallMS: p.Limits.CompilationTimeS * 1000, CompileMemoryMB: p.Limits.CompilationMB,
		MemoryMB: p.Limits.MemoryMB, StackMB: min(job.DefaultMaximums.StackMB, p.Limits.MemoryMB), OutputKB: p.Limits.OutputMB << 10,
	}
}

// content is text where it is UTF-8, and base64 otherwise, or the digest of an upload.
func (p *Problem) content(d Data, uploads map[string]string) (text, base string, upload string, err error) {
	if sha256 := uploads[d.Path]; sha256 != "" {
		return "", "", sha256, nil
	}
	r, err := p.Open(d)
	if err != nil {
		return "", "", "", faultf(d.Path, "", "can't be read: %s", cause(err))
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxTestData))
	if err != nil {
		return "", "", "", faultf(d.Path, "", "can't be read: %s", cause(err))
	}
	if utf8.Valid(b) {
		return string(b), "", "", nil
	}
	return "", base64.StdEncoding.EncodeToString(b), "", nil
}

// runAll are groups none of which ends early, for what tests come to. What they add up to is not looked
// at: [Problem.Judgement] does that as the package says. A test's own score is the package's.
func runAll(tests []job.Test, groups []job.Group) []job.Group {
	byName := map[string]job.Group{"": {}}
	for _, t := range tests {
		for _, name := range job.GroupPath(t.Group) {
			byName[name] = job.Group{}
		}
	}
	for _, g := range groups {
		byName[g.Name] = job.Group{AcceptScore: g.AcceptScore, RejectScore: g.RejectScore, CheckerScore: g.CheckerScore}
	}
	var all []job.Group
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		g := byName[name]
		g.Name, g.OnReject = name, "continue"
		all = append(all, g)
	}
	return all
}

// assemble puts the package's own files over the program's, and chooses what is started.
func (p *Problem) assemble(program Program) ([]job.File, string, error) {
	var size, most int64
	var largest string
	for _, f := range program.Files {
		b, err := f.Bytes()
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", f.Name, err)
		}
		n := int64(len(b))
		if size += n; n > most {
			most, largest = n, f.Name
		}
	}
	if allowed := p.Limits.CodeKB << 10; size > allowed {
		return nil, "", fmt.Errorf("the submission has %d bytes; the package allows %d (limits.code); its largest file is %s", size, allowed, clip(largest))
	}
	if program.Language != "" && !p.Allows(program.Language) {
		return nil, "", fmt.Errorf("the submission is in %s; the package allows %s (languages)", program.Language, strings.Join(p.Languages, ", "))
	}
	include := p.Includes[program.Language]
	if include == nil {
		include = p.Includes["default"]
	}
	files := slices.Clone(program.Files)
	for _, f := range include {
		files = slices.DeleteFunc(files, func(g job.File) bool { return g.Name == f.Name })
		files = append(files, f)
	}
	names := namesOf(files)
	for _, n := range names {
		if problem := job.CheckName(n); problem != "" {
			return nil, "", fmt.Errorf("the name %q %s", n, problem)
		}
	}
	entrypoint := program.Entrypoint
	switch {
	case entrypoint != "" && !slices.Contains(names, entrypoint):
		return nil, "", fmt.Errorf("the entrypoint %s is none of the files: %s", clip(entrypoint), clip(strings.Join(names, ", ")))
	case entrypoint == "":
		entrypoint = cmp.Or(mainOf(program.Language, namesOf(include)), entrypointOf(program.Language, names))
	}
	return files, path.Clean(entrypoint), nil
}

// Names lists the program's files.
func (p Program) Names() []string { return namesOf(p.Files) }
