package kattis

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// Submission is a program below submissions/, and what is expected of it.
type Submission struct {
	Path       string // relative to submissions/: "accepted/sol.py"
	Files      []job.File
	Language   string // a code; "" if none is known
	Entrypoint string // submissions.yaml says so; "" otherwise
	Expect     []Expectation
}

const submissionsFile = "submissions/submissions.yaml"

// submissions reads what is below submissions/.
func (r *reader) submissions(p *Problem) ([]Submission, error) {
	rules, err := r.rules(p)
	if err != nil {
		return nil, err
	}
	folders, err := r.list("submissions")
	if err != nil {
		return nil, err
	}
	var all []Submission
	for _, folder := range folders {
		if !folder.dir {
			continue
		}
		programs, err := r.list(folder.path)
		if err != nil {
			return nil, err
		}
		for _, e := range programs {
			s := Submission{Path: strings.TrimPrefix(e.path, "submissions/")}
			if e.dir {
				s.Files, err = r.sources(p, e.path)
			} else {
				s.Files, err = r.single(p, e)
			}
			if err != nil {
				return nil, err
			}
			if len(s.Files) == 0 {
				continue
			}
			s.Language = LanguageOf(namesOf(s.Files))
			for _, rule := range rules {
				if rule.matches(s.Path) {
					rule.apply(&s)
				}
			}
			if len(s.Expect) == 0 {
				if e, ok := annotated(s.Files); ok {
					s.Expect = append(s.Expect, e)
				}
			}
			all = append(all, s)
		}
	}
	return all, nil
}

func (r *reader) single(p *Problem, e entry) ([]job.File, error) {
	content, _, err := r.read(e.path, maxSource)
	if err != nil {
		return nil, err
	}
	if content, err = r.replaceConstants(p, e.path, content, maxSource); err != nil {
		return nil, err
	}
	return []job.File{fileOf(e.name, content)}, nil
}

func namesOf(files []job.File) []string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	return names
}

// rule is what one pattern says of the submissions that it matches.
type rule struct {
	patterns             []string // without braces
	language, entrypoint string
	expect               []Expectation
}

func (r rule) matches(submission string) bool { return matchesAny(r.patterns, submission) }

func (r rule) apply(s *Submission) {
	if r.language != "" {
		s.Language = r.language
	}
	if r.entrypoint != "" {
		s.Entrypoint = r.entrypoint
	}
	s.Expect = append(s.Expect, r.expect...)
}

// matchesAny reports whether one of the patterns matches a path, or a folder around it.
func matchesAny(patterns []string, at string) bool {
	for ; at != "." && at != "/"; at = path.Dir(at) {
		for _, p := range patterns {
			if ok, err := path.Match(p, at); ok && err == nil {
				return true
			}
		}
	}
	return false
}

// maxPatterns bounds what the braces of one pattern stand for.
const maxPatterns = 1000

// expand turns a pattern of the format (* within a name, {a,b}) into those that path.Match has.
func expand(f field, pattern string) ([]string, error) {
	done := []string{""}
	for pattern != "" {
		open := strings.IndexByte(pattern, '{')
		if open < 0 {
			open = len(pattern)
		}
		text := regexp.MustCompile(`[\\?\[\]]`).ReplaceAllString(pattern[:open], `\$0`)
		pattern = pattern[open:]
		choices := []string{""}
		if pattern != "" {
			end := strings.IndexByte(pattern, '}')
			if end < 0 || strings.Contains(pattern[1:end], "{") {
				return nil, f.fault("has a brace that is not closed, or one in another")
			}
			choices, pattern = strings.Split(pattern[1:end], ","), pattern[end+1:]
		}
		var next []string
		for _, d := range done {
			for _, c := range choices {
				next = append(next, d+text+c)
			}
		}
		if done = next; len(done) > maxPatterns {
			return nil, f.fault("stands for more than %d patterns", maxPatterns)
		}
	}
	return done, nil
}

// annotation is DOMjudge's way to say what is expected of a submission.
var annotation = regexp.MustCompile(`@EXPECTED_RESULTS@:\s*([A-Z_, -]+)`)

var annotationWords = map[string][]job.Verdict{
	"CORRECT": {job.Accepted}, "ACCEPTED": {job.Accepted},
	"WRONG-ANSWER": {job.WrongAnswer}, "NO-OUTPUT": {job.WrongAnswer}, "WRONG_ANSWER": {job.WrongAnswer}, "PRESENTATION-ERROR": {job.WrongAnswer},
	"TIMELIMIT": {job.TestTimedOut}, "TIME_LIMIT_EXCEEDED": {job.TestTimedOut},
	"RUN-ERROR": {job.RunTimeError, job.TestOutOfMemory}, "RUN_TIME_ERROR": {job.RunTimeError, job.TestOutOfMemory},
	"MEMORY-LIMIT": {job.TestOutOfMemory}, "OUTPUT-LIMIT": {job.OutputLimit}, "COMPILER-ERROR": {job.VerdictCompileFailed},
}

func annotated(files []job.File) (Expectation, bool) {
	for _, f := range files {
		found := annotation.FindStringSubmatch(f.Content)
		if found == nil {
			continue
		}
		e := Expectation{Source: "@EXPECTED_RESULTS@"}
		for word := range strings.SplitSeq(found[1], ",") {
			e.Whole = append(e.Whole, annotationWords[strings.TrimSpace(word)]...)
		}
		return e, len(e.Whole) > 0
	}
	return Expectation{}, false
}

// legacyFolders are what the names of folders stand for, in the older formats: the verdict of the whole.
func legacyFolders() map[string]Expectation {
	ac, wa, tle := job.Accepted, job.WrongAnswer, job.TestTimedOut
	rte := []job.Verdict{job.RunTimeError, job.TestOutOfMemory, job.OutputLimit}
	rejected := slices.Concat([]job.Verdict{wa, tle}, rte)
	return map[string]Expectation{
		"accepted":            {Whole: []job.Verdict{ac}, Lower: true},
		"partially_accepted":  {Whole: []job.Verdict{ac}, Partial: true},
		"wrong_answer":        {Whole: []job.Verdict{wa}},
		"time_limit_exceeded": {Whole: []job.Verdict{tle}, Upper: true},
		"run_time_error":      {Whole: rte},
		"rejected":            {Whole: rejected},
		"brute_force":         {Whole: append([]job.Verdict{tle}, rte...)},
	}
}
