package kattis

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// Stored makes a problem of the package that is stored once, and grades whatever submission names it. runtimeOf is the runtime of a language,
// or an error; of those that the package only allows or includes something for, the ones without a runtime are left out.
func (p *Problem) Stored(run Run, runtimeOf func(language string) (string, error)) (job.Problem, error) {
	stored := job.Problem{Name: p.Name, SubmissionKB: p.Limits.CodeKB, Limits: p.limits(run.Time), Checker: p.checker(run), Groups: slices.Clone(p.Groups)}
	var err error
	if stored.Tests, err = p.tests(run); err != nil {
		return stored, err
	}
	var missing error
	for _, language := range p.Languages {
		runtime, err := runtimeOf(language)
		if err != nil {
			missing = err
			continue
		}
		if !slices.Contains(stored.Runtimes, runtime) {
			stored.Runtimes = append(stored.Runtimes, runtime)
		}
	}
	if p.Languages != nil && stored.Runtimes == nil {
		return stored, fmt.Errorf("no submission could be run: %w", missing)
	}
	for language := range p.Includes {
		runtime := job.DefaultInclude
		if language != "default" {
			if runtime, err = runtimeOf(language); err != nil || !p.Allows(language) {
				continue
			}
		}
		if stored.Include == nil {
			stored.Include = map[string]job.Include{}
		}
		stored.Include[runtime] = p.include(language)
	}
	return stored, nil
}

// include is what is put over a submission in a language.
func (p *Problem) include(language string) job.Include {
	files := p.Includes[language]
	include := job.Include{Files: files}
	names := namesOf(files)
	if len(sourcesOf(language, names)) > 0 {
		include.Commands = allTogether(language)
	}
	main := mainOf(language, names)
	if main != "" { // it may have the name that a runtime gives source
		include.SourceName = p.sourceName(language)
		if include.SourceName == "" && include.Commands != nil { // these compile it under any name
			include.SourceName = p.freeName(language)
		}
	}
	if include.Commands == nil {
		include.Entrypoint = main
	}
	return include
}

// mainOf is the file that is started of what is put over a submission, whatever the submission has; "" if none is.
func mainOf(language string, included []string) string {
	first := entrypointOf(language, included)
	isMain := first == "__main__.py" || strings.EqualFold(strings.TrimSuffix(first, path.Ext(first)), "main")
	if len(sourcesOf(language, included)) == 0 || !isMain {
		return ""
	}
	return first
}

// sourceName is what submissions of the package call their only file beside what is included; "" where they differ. The
// program that is included looks for it under that name.
func (p *Problem) sourceName(language string) string {
	name := ""
	for _, own := range p.accepted(language) {
		if len(own) != 1 || name != "" && own[0] != name {
			return ""
		}
		name = own[0]
	}
	return name
}

// freeName is a name for the only file of a submission that nothing included has, in the folder that the package's submissions have
// their sources in: in Go a folder is a package.
func (p *Problem) freeName(language string) string {
	dir, ending := ".", ""
	for _, l := range languages {
		if l.code == language {
			ending = l.suffix[0]
		}
	}
	for _, own := range p.accepted(language) {
		if sources := sourcesOf(language, own); len(sources) > 0 {
			dir = path.Dir(sources[0])
			break
		}
	}
	name := path.Join(dir, "solution"+ending)
	for n := 2; slices.Contains(namesOf(p.Includes[language]), name); n++ {
		name = path.Join(dir, fmt.Sprintf("solution%d%s", n, ending))
	}
	return name
}

// accepted are the names of what submissions of the package that may be accepted have beside what is included.
func (p *Problem) accepted(language string) (all [][]string) {
	for _, s := range p.Submissions {
		if s.Language == language && slices.ContainsFunc(s.Expect, Expectation.accepts) {
			all = append(all, slices.DeleteFunc(namesOf(s.Files), func(name string) bool {
				return slices.Contains(namesOf(p.Includes[language]), name)
			}))
		}
	}
	return all
}

// accepts reports whether a submission of which that is expected may be accepted, and so is called as it should.
func (e Expectation) accepts() bool {
	return slices.Contains(e.Whole, job.Accepted) || e.Whole == nil && e.Required == nil && slices.Contains(e.Permitted, job.Accepted)
}

// allTogether are commands that compile all sources of a language, whatever a submission calls its own; nil for a language whose
// runtime's own commands do.
func allTogether(code string) *job.Commands {
	var patterns []string
	for _, l := range languages {
		if l.code == code {
			for _, suffix := range l.suffix {
				patterns = append(patterns, "./**/*"+suffix)
			}
		}
	}
	if code == "go" { // a package is a folder
		patterns = []string{"./*.go"}
	}
	commands := compiled(code, strings.Join(patterns, " "))
	if commands != nil {
		commands.Compile = "shopt -s globstar nullglob; " + commands.Compile
	}
	return commands
}
