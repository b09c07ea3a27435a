package kattis

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// The versions of the format.
const (
	Legacy     = "legacy"
	LegacyICPC = "legacy-icpc"
	Draft2023  = "2023-07-draft"
	V2025      = "2025-09"
)

// Problem is a package.
type Problem struct {
	Name    string // from problem.yaml; "" if it has none
	Version string
	Scoring bool
	// Interactive: the Validator talks to a submission while both run.
	Interactive bool
	// Languages are the codes of those that a submission may be written in; nil for all.
	Languages []string
	Limits    Limits
	Tests     []Test
	// Checker is that of all tests, which may have further arguments for it. Where the package has a Validator, that is its program.
	Checker     job.Checker
	Validator   *Validator // nil: the default one
	Groups      []job.Group
	Submissions []Submission
	// Includes are the files that are put over a submission, by language; "default" for others.
	Includes map[string][]job.File

	files     fs.FS
	constants map[string]string
}

// Limits are those of the package, with the format's defaults.
type Limits struct {
	Time             time.Duration // CPU time of a test; 0: to be derived from submissions
	TimeFrom         string        // the file that says so
	Timing           Timing
	MemoryMB         int64
	OutputMB         int64
	CodeKB           int64
	CompilationTimeS int64
	ValidationTimeS  int64 // wall time of a check by the package's own validator
	ValidationMB     int64 // 0: what the runtime's programs get anyway, and more for large tests; the format's 2048 would be reserved for each submission
	// ValidationOutputMB bounds what the validator of an interactive problem says to a submission.
	ValidationOutputMB int64
	Passes             int64 // how many times at most a program is run in each test; 1 where the problem is not multi-pass
	CompilationMB      int64 // 0: what the runtime's compiler gets anyway; the format's 2048 would be reserved for each submission
}

// Test is one of the tests, in the order in which they are judged.
type Test struct {
	Name   string // "secret/g1/07"
	Group  string // "secret/g1"; in the new formats' scoring problems a test in a folder of that group has it, too
	Input  Data
	Answer Data
	Args   []string
	// CheckerArgs are those of the checker in this test, after its own.
	CheckerArgs []string
	Hint        string
	Hidden      bool
	// Points are the most that it gives; nil: its group says.
	Points *float64
}

// Data is a file of the package.
type Data struct {
	Path string
	Size int64
}

// Open reads the package in a folder. The caller closes the root, which Open keeps for the tests' data,
// once the problem is not needed any more.
func Open(dir string) (*Problem, io.Closer, error) {
	root, err := os.OpenRoot(dir) // no link leads out of it
	if err != nil {
		return nil, nil, fmt.Errorf("open the package: %w", err)
	}
	p, err := Read(root.FS())
	if err != nil {
		_ = root.Close() // it was only read
		return nil, nil, err
	}
	return p, root, nil
}

// Read reads a package. The error is an [*Error].
func Read(files fs.FS) (*Problem, error) {
	r := &reader{FS: files}
	p := &Problem{files: files, constants: map[string]string{}}
	s, err := r.settings(p)
	if err != nil {
		return nil, err
	}
	if err := r.validators(p, s); err != nil {
		return nil, err
	}
	for _, typ := range []string{multiPass, interactive} {
		if key := s.keyOf(typ); key != "" && p.Validator == nil {
			return nil, faultf(problemFile, key, "is %s, and output_validators/ has no validator that is used", typ)
		}
	}
	data, err := r.data(p)
	if err != nil {
		return nil, err
	}
	if p.Scoring {
		if p.Groups, err = data.groups(p.Version, p.Validator != nil, s.scores()); err != nil {
			return nil, err
		}
	} else {
		p.Groups = data.ends(p.Version)
	}
	if p.Validator != nil {
		p.Tests, p.Checker = data.validatedTests(), job.Checker{Kind: job.CheckKattis, Args: s.flags, Interactive: p.Interactive, Passes: p.passes()}
	} else if p.Tests, p.Checker, err = data.tests(s.flags); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.Includes, err = r.includes(p); err != nil {
		return nil, err
	}
	p.Submissions, err = r.submissions(p)
	return p, err
}

// check leaves nothing for a worker to complain about.
func (p *Problem) check() error {
	switch {
	case len(p.Tests) == 0:
		return faultf("data/secret", "", "has no tests: a test is NAME.in with NAME.ans")
	case len(p.Tests) > job.MaxTests:
		return faultf("data", "", "has %d tests; up to %d are graded", len(p.Tests), job.MaxTests)
	}
	if errs := job.CheckGrading(p.graded(), p.Groups, p.checker(Run{})); len(errs) > 0 {
		return faultf("data", "", "%s", errs[0])
	}
	return nil
}

// graded are the tests without what they read and expect.
func (p *Problem) graded() []job.Test {
	tests := make([]job.Test, len(p.Tests))
	for i, t := range p.Tests {
		tests[i] = job.Test{Name: t.Name, Group: t.Group, Points: t.Points, Hint: t.Hint}
	}
	return tests
}

// passes is how many times a program is run in each test; 0 for once.
func (p *Problem) passes() int {
	if p.Limits.Passes > 1 {
		return int(p.Limits.Passes)
	}
	return 0
}

// wall is the most wall time that each run and what checks it may have together, ms.
func (p *Problem) wall() int64 { return job.MaxTestsWall / (int64(len(p.Tests)) * p.Limits.Passes) }

// leastCheck is the least wall time that the package's own validator gets for each run, ms.
const leastCheck = 1000

// Room is the most wall time that each run may have. A validator of the package's own keeps a quarter of what the two have
// together, or a second where that is more, as far as it may use it.
func (p *Problem) Room() time.Duration {
	wall := p.wall()
	if p.Validator != nil {
		const share = 4
		wall -= min(p.Limits.ValidationTimeS*1000, max(leastCheck, wall/share))
	}
	return time.Duration(wall) * time.Millisecond
}

// Open opens the data of a test.
func (p *Problem) Open(d Data) (fs.File, error) { return p.files.Open(d.Path) }

// Bounds returns the submissions that bound the time limit from below: those with a test that has to end
// in time.
func (p *Problem) Bounds() []Submission {
	var lower []Submission
	for _, s := range p.Submissions {
		if slices.ContainsFunc(s.Expect, func(e Expectation) bool { return e.Lower }) {
			lower = append(lower, s)
		}
	}
	return lower
}

// Allows reports whether a submission may be written in a language.
func (p *Problem) Allows(language string) bool {
	return p.Languages == nil || slices.Contains(p.Languages, language)
}

// Bounded reports whether there is a largest score: a validator of the package's own gives what it likes in groups that have none.
func (p *Problem) Bounded() bool {
	if p.Validator == nil {
		return true
	}
	most := map[string]bool{}
	for _, g := range p.Groups {
		most[g.Name] = g.MaxScore != nil
	}
	return !slices.ContainsFunc(p.Tests, func(t Test) bool {
		return t.Points == nil && !most[""] && !slices.ContainsFunc(job.GroupPath(t.Group), func(name string) bool { return most[name] })
	})
}

// MaxScore is the most that the problem gives.
func (p *Problem) MaxScore() float64 {
	j, err := p.Judgement()
	if err != nil {
		return 0 // check has seen that there is none
	}
	return j.Whole().MaxScore
}
