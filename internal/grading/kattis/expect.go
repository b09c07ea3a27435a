package kattis

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/job"
)

// Expectation is one demand on a submission.
type Expectation struct {
	Source string // where it comes from: a folder, a pattern of submissions.yaml
	// Whole are the verdicts that the submission may come to; nil: any.
	Whole []job.Verdict
	// Partial wants less than the largest score.
	Partial bool
	// Tests are patterns of tests and groups that what follows is about; nil: all.
	Tests []string
	// Permitted are the verdicts that tests may come to, Required those of which one test at least
	// comes to one; nil: any.
	Permitted, Required []job.Verdict
	// Score is what the submission, or the group that Tests names, gives: from, to.
	Score *[2]float64
	// Lower and Upper say that the tests' times bound the time limit, from below or above.
	Lower, Upper bool
}

// Check returns what is not as expected; nil if all is.
func (e Expectation) Check(p *Problem, whole grading.Whole) error {
	if e.Whole != nil && !slices.Contains(e.Whole, whole.Verdict) {
		return fmt.Errorf("is %s; %s expects %s", whole.Verdict, e.Source, join(e.Whole))
	}
	if most := p.MaxScore(); e.Partial && p.Bounded() && whole.Score >= most {
		return fmt.Errorf("has the largest score, %s; %s expects less", short(most), e.Source)
	}
	required := e.Required == nil
	for i, t := range p.Tests {
		v := whole.Tests[i].Verdict
		if !e.About(t) || v == job.SkippedTest {
			continue
		}
		if e.Permitted != nil && !slices.Contains(e.Permitted, v) {
			return fmt.Errorf("is %s on %s; %s permits %s", v, t.Name, e.Source, join(e.Permitted))
		}
		required = required || slices.Contains(e.Required, v)
	}
	if !required {
		return fmt.Errorf("comes to %s on no test; %s requires that", join(e.Required), e.Source)
	}
	return e.checkScore(whole)
}

func (e Expectation) checkScore(whole grading.Whole) error {
	if e.Score == nil {
		return nil
	}
	scores := []float64{whole.Score}
	if e.Tests != nil {
		scores = nil
		for _, g := range whole.Groups {
			if slices.ContainsFunc(e.Tests, func(p string) bool {
				return matchesAny([]string{p}, g.Name) && strings.Count(p, "/") == strings.Count(g.Name, "/")
			}) {
				scores = append(scores, g.Score)
			}
		}
	}
	for _, s := range scores {
		if s < e.Score[0] || s > e.Score[1] {
			return fmt.Errorf("scores %s; %s expects %s to %s", short(s), e.Source, short(e.Score[0]), short(e.Score[1]))
		}
	}
	return nil
}

// About reports whether the expectation is about a test.
func (e Expectation) About(t Test) bool { return e.Tests == nil || matchesAny(e.Tests, t.Name) }

func join(verdicts []job.Verdict) string {
	words := make([]string, len(verdicts))
	for i, v := range verdicts {
		words[i] = string(v)
	}
	return strings.Join(words, ", ")
}

// verdictsOf are the format's words. It has none for memory and output: these are as good as a crash.
var verdictsOf = map[string][]job.Verdict{
	"AC":  {job.Accepted},
	"WA":  {job.WrongAnswer},
	"TLE": {job.TestTimedOut},
	"RTE": {job.RunTimeError, job.TestOutOfMemory, job.OutputLimit},
}

func verdicts(words ...string) []job.Verdict {
	var all []job.Verdict
	for _, w := range words {
		all = append(all, verdictsOf[w]...)
	}
	return all
}

// newFolders are the folders of 2025-09.
func newFolders() map[string]Expectation {
	return map[string]Expectation{
		"accepted":            {Permitted: verdicts("AC")},
		"rejected":            {Required: verdicts("RTE", "TLE", "WA")},
		"wrong_answer":        {Permitted: verdicts("AC", "WA"), Required: verdicts("WA")},
		"time_limit_exceeded": {Permitted: verdicts("AC", "TLE"), Required: verdicts("TLE")},
		"run_time_error":      {Permitted: verdicts("AC", "RTE"), Required: verdicts("RTE")},
		"brute_force":         {Permitted: verdicts("AC", "RTE", "TLE"), Required: verdicts("RTE", "TLE")},
	}
}

// rules are those of submissions.yaml, and of the folders that it leaves as they are.
func (r *reader) rules(p *Problem) ([]rule, error) {
	root, err := r.yaml(submissionsFile)
	if err != nil {
		return nil, err
	}
	all, err := root.fields()
	if err != nil {
		return nil, err
	}
	folders := legacyFolders()
	if p.Version == V2025 || p.Version == Draft2023 {
		folders = newFolders()
	}
	var rules []rule
	for _, f := range all {
		patterns, err := expand(f, f.name)
		if err != nil {
			return nil, err
		}
		read := rule{patterns: patterns}
		e := folders[f.name] // what is not said is the folder's
		delete(folders, f.name)
		e.Source = f.key
		if err := read.read(f, e); err != nil {
			return nil, err
		}
		rules = append(rules, read)
	}
	for name, e := range folders {
		e.Source = name + "/"
		e.bound("")
		rules = append(rules, rule{patterns: []string{name}, expect: []Expectation{e}})
	}
	slices.SortStableFunc(rules, func(a, b rule) int { return strings.Compare(a.patterns[0], b.patterns[0]) })
	return rules, nil
}

// read reads what a pattern says: metadata, demands on all tests, and on those of a group or pattern.
func (r *rule) read(f field, all Expectation) error {
	entries, err := f.fields()
	if err != nil {
		return err
	}
	use := ""
	var some []Expectation
	for _, entry := range entries {
		switch name := entry.name; name {
		case "language":
			r.language, err = entry.text()
		case "entrypoint":
			r.entrypoint, err = entry.text()
		case "authors", "model_solution":
		case "permitted", "required", "score", "message", "use_for_time_limit":
			err = all.read(entry, name, &use)
		default:
			if entry.given() && entry.node.Kind != yaml.MappingNode {
				return entry.fault("there is no such key")
			}
			e := Expectation{Source: f.key + ", " + name}
			if e.Tests, err = expand(entry, name); err != nil {
				return err
			}
			inner, err := entry.fields()
			if err != nil {
				return err
			}
			use := ""
			for _, i := range inner {
				if err := e.read(i, i.name, &use); err != nil {
					return err
				}
			}
			e.bound(use)
			some = append(some, e)
		}
		if err != nil {
			return err
		}
	}
	all.bound(use)
	r.expect = append([]Expectation{all}, some...)
	return nil
}

func (e *Expectation) read(f field, name string, use *string) (err error) {
	switch name {
	case "permitted":
		e.Permitted, err = readVerdicts(f)
	case "required":
		e.Required, err = readVerdicts(f)
	case "score":
		e.Score, err = readScore(f)
	case "message":
		if m, _ := f.text(); m != "" {
			err = unsupported(f.file, f.key, "messages of custom output validators are")
		}
	case "use_for_time_limit":
		*use, err = f.word("true", "false", "lower", "upper")
	default:
		err = f.fault("there is no such key")
	}
	return err
}

// bound says how the tests' times bound the time limit: use is what use_for_time_limit says.
func (e *Expectation) bound(use string) {
	tle := job.TestTimedOut
	switch use {
	case "false":
		e.Lower, e.Upper = false, false
	case "lower":
		e.Lower = true
	case "upper":
		e.Upper = true
	default:
		e.Lower = e.Lower || e.Permitted != nil && !slices.Contains(e.Permitted, tle)
		e.Upper = e.Upper || slices.Equal(e.Required, []job.Verdict{tle})
	}
}

func readVerdicts(f field) ([]job.Verdict, error) {
	words, err := f.words()
	if err != nil {
		return nil, err
	}
	all := []job.Verdict{}
	for _, w := range words {
		v, ok := verdictsOf[w]
		if !ok {
			return nil, f.fault("want a list of AC, WA, TLE and RTE (got %s)", clip(w))
		}
		all = append(all, v...)
	}
	return all, nil
}

// readScore reads one number, or two.
func readScore(f field) (*[2]float64, error) {
	if !f.given() {
		return nil, nil
	}
	if f.node.Kind != yaml.SequenceNode {
		x, err := f.number(0, 0, mostPoints)
		return &[2]float64{x, x}, err
	}
	var ends [2]float64
	if len(f.node.Content) != 2 {
		return nil, f.fault("want a number, or two")
	}
	for i, n := range f.node.Content {
		x, err := field{f.file, f.key, f.name, resolve(n)}.number(0, 0, mostPoints)
		if err != nil {
			return nil, err
		}
		ends[i] = x
	}
	return &ends, nil
}
