package kattis

import (
	"path"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// Validator is a package's own output validator.
type Validator struct {
	Path     string // its folder or file in the package
	Language string // its code in the format, or Scripts
	Files    []job.File
	// Entrypoint is what is started, unless Commands say more.
	Entrypoint string
	Commands   *job.Commands
}

// validatorFolders are where a validator may be. Both names occur in packages of every version.
var validatorFolders = []string{"output_validator", "output_validators"}

// validators finds the output validator, if the package has one of its own.
func (r *reader) validators(p *Problem, s settings) error {
	if there, err := r.exists("static_validator"); err != nil {
		return err
	} else if there {
		return unsupported("static_validator", "", "static validators are")
	}
	custom := slices.Contains(s.validation, "custom")
	if !custom && (len(s.validation) > 0 || p.Version == Legacy || p.Version == LegacyICPC) {
		return nil // what lies in the folder is not used
	}
	for _, dir := range validatorFolders {
		there, err := r.exists(dir)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		if p.Validator != nil {
			return faultf(dir, "", "is there beside %s; one of the two is wanted", p.Validator.Path)
		}
		if p.Validator, err = r.validator(p, dir); err != nil {
			return err
		}
	}
	if custom && p.Validator == nil {
		return faultf(problemFile, "validation", "is custom, and output_validators/ has no validator")
	}
	return nil
}

// validator reads the program in a folder: the folder itself, or the one folder or file in it.
func (r *reader) validator(p *Problem, dir string) (*Validator, error) {
	entries, err := r.list(dir)
	if err != nil {
		return nil, err
	}
	folders := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return !e.dir })
	switch {
	case len(folders) > 1:
		return nil, unsupported(dir, "", "several output validators are")
	case len(folders) == 1 && len(entries) == 1:
		dir = folders[0].path
	}
	v := &Validator{Path: dir}
	if v.Files, err = r.sources(p, dir); err != nil {
		return nil, err
	}
	names := namesOf(v.Files)
	if v.Commands = scripted(names); v.Commands != nil {
		v.Language, err = v.scriptsLanguage()
		return v, err
	}
	if v.Language = LanguageOf(names); v.Language == "" {
		return nil, faultf(dir, "", "is in no language that is known: %s", clip(strings.Join(names, ", ")))
	}
	v.Entrypoint = entrypointOf(v.Language, names)
	v.Commands, err = together(v.Language, v.Entrypoint, names)
	return v, err
}

// scripted returns commands for a validator that brings a script build, run, or both: build makes run where that is not
// there. nil: it has neither. A job's files can't be executed, so each is made so before it is needed.
func scripted(names []string) *job.Commands {
	c := job.Commands{Compile: "chmod +x run", Run: `./run "$@"`}
	switch {
	case slices.Contains(names, "build"):
		c.Compile = "chmod +x build && ./build && chmod +x run"
	case !slices.Contains(names, "run"):
		return nil
	}
	return &c
}

// languageMark is what a comment of such a script begins with that says which language's runtime is enough for it.
const languageMark = "# glovebox-language:"

// scriptsLanguage is the language of a validator's scripts: the one that a comment at the top of build, or else of run, names, or
// Scripts.
func (v *Validator) scriptsLanguage() (string, error) {
	for _, script := range []string{"build", "run"} {
		i := slices.IndexFunc(v.Files, func(f job.File) bool { return f.Name == script })
		if i < 0 {
			continue
		}
		for line := range strings.Lines(v.Files[i].Content) {
			if !strings.HasPrefix(line, "#") {
				break
			}
			code, found := strings.CutPrefix(line, languageMark)
			if !found {
				continue
			}
			code = strings.TrimSpace(code)
			if code == Scripts || !slices.ContainsFunc(languages, func(l language) bool { return l.code == code }) {
				return "", faultf(path.Join(v.Path, script), "glovebox-language", "want the code of a language of the format, such as c, cpp or python3 (got %s)", clip(code))
			}
			return code, nil
		}
	}
	return Scripts, nil
}

// checker is the job's, with the package's own validator if it has one.
func (p *Problem) checker(run Run) *job.Checker {
	c := p.Checker
	v := p.Validator
	if v == nil {
		return &c
	}
	size := int64(0)
	for _, f := range v.Files {
		size += int64(len(f.Content) + len(f.ContentBase64))
	}
	l := p.limits(run.Time)
	wall := min(p.Limits.ValidationTimeS*1000, max(leastCheck, p.wall()-l.WallMS))
	c.Program = &job.CheckerProgram{
		Runtime: run.Validator, Files: v.Files, Entrypoint: v.Entrypoint, Commands: v.Commands,
		Limits: job.Limits{WallMS: wall, MemoryMB: p.validationMB(), SourceKB: max(job.DefaultLimits.SourceKB, size>>10+1)},
	}
	if p.Interactive {
		c.Program.Limits.OutputKB = p.Limits.ValidationOutputMB << 10
	}
	return &c
}

// mostByDefault is the most memory that a runtime gives programs which ask for none, MiB.
const mostByDefault = 512

// validationMB is how much memory the validator asks for, MiB. Where the package doesn't say, there is room for it beside the largest test's
// files, which are in its memory, and for what it reads of them; 0 where any runtime gives that anyway.
func (p *Problem) validationMB() int64 {
	if p.Limits.ValidationMB > 0 {
		return p.Limits.ValidationMB
	}
	var largest int64
	for _, t := range p.Tests {
		largest = max(largest, t.Input.Size+t.Answer.Size)
	}
	const copies = 4
	mb := copies * (largest>>20 + 1 + p.Limits.OutputMB)
	if mb <= job.DefaultLimits.MemoryMB {
		return 0
	}
	return min(max(mb, mostByDefault), job.DefaultMaximums.MemoryMB)
}
