package job

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Bounds of the problems that a tenant stores.
const (
	MaxProblems = 1000
	// MaxProblemBytes bounds a problem as JSON: inputs and answers beyond that are uploaded.
	MaxProblemBytes = 4 << 20

	// MaxSubmissionBytes bounds the submissions, as JSON, that are kept to be graded again.
	MaxSubmissionBytes = 1 << 20

	maxProblemName = 200
	maxIncludes    = 64
)

// DefaultInclude is what [Problem.Include] has for runtimes that are not in it.
const DefaultInclude = "default"

// RegradeKey is what the metadata of a job that was made to grade a submission again say about that: the
// id of the job that it was graded by first.
const RegradeKey = "glovebox.regrade_of"

// Problem is what submissions are graded by: a [Spec] without the submission. A tenant stores it once, and its jobs
// name it by its digest.
type Problem struct {
	// Name is for people. Up to 200 bytes.
	Name string `json:"name,omitempty" doc:"For people: up to 200 bytes." example:"Sum"`
	// Runtimes are those that a submission may be in, by their own names. Defaults to all.
	Runtimes []string `json:"runtimes,omitempty" doc:"The runtimes that a submission may be in, by their own names; absent: all." example:"[\"python\",\"cpp\"]"`
	// SubmissionKB bounds the source and files of a submission, KiB. Defaults to what a job may have.
	SubmissionKB int64 `json:"submission_kb,omitempty" minimum:"0" doc:"The most that source and files of a submission may have, KiB; absent: what a job may have." example:"128"`
	// Include is what is put over a submission, by the runtime's own name, or under [DefaultInclude] for all others.
	Include map[string]Include `json:"include,omitempty" doc:"What is put over a submission, by the runtime's own name; default is for those that are not named."`
	// Limits, Tests, Checker and Groups are as in [Spec]. A submission may have limits of its own, which come first.
	Limits  Limits   `json:"limits,omitzero" doc:"What a submission may use in each test; limits that are sent with it come first."`
	Tests   []Test   `json:"tests" doc:"As in a job. Inputs and answers that were uploaded are kept as long as the problem." nullable:"false"`
	Checker *Checker `json:"checker,omitempty" doc:"As in a job."`
	Groups  []Group  `json:"groups,omitempty" doc:"As in a job."`
}

// Include is what a problem puts over a submission in one runtime: a driver that calls the student's function, or a header.
type Include struct {
	// Files stand in the place of those of a submission that have the same names.
	Files []File `json:"files,omitempty" doc:"Put over the submission's files; text, base64 or an upload."`
	// SourceName is the file that a submission's source becomes, whatever its entrypoint calls it. Defaults to that, or the runtime's own file name.
	SourceName string `json:"source_name,omitempty" doc:"The file that the source of a submission becomes; absent: its entrypoint, or the runtime's own file name." example:"solution.py"`
	// Entrypoint and Commands, if given, are used in the place of a submission's.
	Entrypoint string    `json:"entrypoint,omitempty" doc:"The file to run, whatever the submission is." example:"main.py"`
	Commands   *Commands `json:"commands,omitempty" doc:"Command lines in place of the runtime's own, whatever the submission is."`
}

// ProblemHead is what a list says of a problem.
type ProblemHead struct {
	// Digest is the SHA-256 of the problem's canonical form, in lower-case hex.
	Digest    string    `json:"digest" doc:"The SHA-256, in hex, of the problem's canonical form: problem of a job names it." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
	Name      string    `json:"name,omitempty"`
	Tests     int       `json:"tests" doc:"How many it has."`
	Bytes     int64     `json:"bytes" doc:"Of its canonical form; what was uploaded for it comes on top."`
	CreatedAt time.Time `json:"created_at" doc:"When it was stored."`
	// Scoring says that a submission's score counts, as the problem has points or says how scores add up; else only its verdict does.
	Scoring bool `json:"scoring" doc:"The problem has points, or says how scores add up: a submission's score counts, not only its verdict."`
	// MaxScore is the most that a submission can get, as in results.
	MaxScore *float64 `json:"max_score,omitempty" doc:"The most that a submission can get, as in results."`
	// Starts says for each of the problem's includes, by runtime or [DefaultInclude], whether it has an entrypoint or commands, which are
	// used in the place of a submission's.
	Starts map[string]bool `json:"starts,omitempty" doc:"By runtime, or default, as in include: whether the problem itself says what is compiled and started."`
	// Form is the SHA-256 of the upload that has its canonical form. Nobody is told: whoever may submit can have a job read an upload by its
	// name, and this one has what is hidden.
	Form string `json:"-"`
}

// StartsIn reports whether the problem itself says what is compiled and started in a runtime, by its own name.
func (h ProblemHead) StartsIn(runtime string) bool {
	if starts, ok := h.Starts[runtime]; ok {
		return starts
	}
	return h.Starts[DefaultInclude]
}

// StoredProblem is a problem as it is stored.
type StoredProblem struct {
	ProblemHead

	Problem Problem `json:"problem" doc:"What it consists of, answers included."`
}

// Canonical is the problem as it is stored and hashed: JSON with its fields in the order of [Problem], without those that are empty.
func (p Problem) Canonical() ([]byte, error) {
	b, err := Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode problem: %w", err)
	}
	return b, nil
}

// ProblemDigest is the name of a problem with this canonical form.
func ProblemDigest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// Uploads are the SHA-256 of all that was uploaded for the problem, each once.
func (p Problem) Uploads() []string {
	var all []string
	for _, t := range p.Tests {
		all = append(all, t.StdinUpload, t.AnswerUpload)
	}
	if p.Checker != nil && p.Checker.Program != nil {
		for _, f := range p.Checker.Program.Files {
			all = append(all, f.Upload)
		}
	}
	for _, include := range p.Include {
		for _, f := range include.Files {
			all = append(all, f.Upload)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(upload string) bool { return upload == "" })
}

// Check returns what is wrong with what only a problem has, as [Invalid] or nil. What it shares with a job is
// checked as a job's, of a submission in each of its runtimes.
func (p Problem) Check() error {
	var errs Invalid
	add := func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}
	if problem := checkString(p.Name, maxProblemName); problem != "" {
		add("name", clip(p.Name), problem, fmt.Sprintf("up to %d bytes without NUL", maxProblemName))
	}
	if len(p.Tests) == 0 {
		add("tests", nil, "is missing", fmt.Sprintf("1 to %d", MaxTests))
	}
	if len(p.Runtimes) > maxIncludes {
		add("runtimes", len(p.Runtimes), "has too many entries", fmt.Sprintf("0 to %d", maxIncludes))
	}
	if p.SubmissionKB < 0 {
		add("submission_kb", p.SubmissionKB, "is negative", "0 (what a job may have) or more")
	}
	if len(p.Include) > maxIncludes {
		add("include", len(p.Include), "has too many entries", fmt.Sprintf("0 to %d", maxIncludes))
		return errs
	}
	for _, runtime := range p.includes() {
		include, at := p.Include[runtime], "include."+clip(runtime)
		if len(p.Runtimes) > 0 && runtime != DefaultInclude && !slices.Contains(p.Runtimes, runtime) {
			add(at, nil, "is for a runtime that no submission may be in", strings.Join(p.Runtimes, ", "))
		}
		if include.SourceName != "" {
			if problem := CheckName(include.SourceName); problem != "" {
				add(at+".source_name", clip(include.SourceName), problem, "a relative path such as solution.py")
			}
		}
		for i, f := range include.Files {
			if f.Artifact != "" {
				add(fmt.Sprintf("%s.files[%d].artifact", at, i), clip(f.Artifact), "can't be a file of a problem", "content, content_base64 or upload")
			}
		}
	}
	if errs != nil {
		return errs
	}
	return nil
}

// includes are the names in Include, in order.
func (p Problem) includes() []string {
	names := make([]string, 0, len(p.Include))
	for name := range p.Include {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// IncludeFor is what is put over a submission in that runtime, by its own name.
func (p Problem) IncludeFor(runtime string) Include {
	if include, ok := p.Include[runtime]; ok {
		return include
	}
	return p.Include[DefaultInclude]
}

// Expand makes a job of a submission: a spec that names the problem, whose runtime has its own name. What the submission says that is the
// problem's to say is [Invalid].
func (p Problem) Expand(sub Spec) (Spec, error) {
	var errs Invalid
	add := func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}
	for _, own := range []struct {
		field string
		given bool
	}{{"tests", sub.Tests != nil}, {"checker", sub.Checker != nil}, {"groups", sub.Groups != nil}} {
		if own.given {
			add(own.field, nil, "is there beside problem", "one of the two: the problem has its own")
		}
	}
	if sub.Runtime != "" && len(p.Runtimes) > 0 && !slices.Contains(p.Runtimes, sub.Runtime) {
		add("runtime", clip(sub.Runtime), "is none that the problem allows", strings.Join(p.Runtimes, ", "))
	}
	if n := sub.InputBytes(); p.SubmissionKB > 0 && n > p.SubmissionKB<<10 {
		add("source", fmt.Sprintf("%d bytes with files", n), "is too large", fmt.Sprintf("%d bytes (submission_kb of the problem)", p.SubmissionKB<<10))
	}
	include := p.IncludeFor(sub.Runtime)
	if include.Entrypoint != "" && sub.Entrypoint != "" && sub.Entrypoint != include.Entrypoint && !sub.onlyNames() {
		add("entrypoint", clip(sub.Entrypoint), "is not that of the problem", include.Entrypoint+", or nothing")
	}
	if include.Commands != nil && sub.Commands != nil {
		add("commands", nil, "is there beside the problem's", "nothing: the problem has its own")
	}
	spec := sub
	spec.Files = slices.Clone(sub.Files)
	switch {
	case sub.Source != "":
		include.place(&spec, add)
	case len(sub.Files) == 1 && len(include.Files) > 0 && include.Commands == nil && sub.Commands == nil:
		spec.Entrypoint = cmp.Or(sub.Entrypoint, sub.Files[0].Name) // among several files, nothing would say what is started
	}
	if errs != nil {
		return sub, errs
	}
	spec.Files = slices.DeleteFunc(spec.Files, func(f File) bool { return include.has(f.Name) })
	spec.Files = append(spec.Files, include.Files...)
	spec.Entrypoint = cmp.Or(include.Entrypoint, spec.Entrypoint)
	if include.Commands != nil {
		spec.Commands = include.Commands
	}
	spec.Limits = sub.Limits.Or(p.Limits)
	spec.Tests, spec.Checker, spec.Groups = p.Tests, p.Checker, p.Groups
	return spec, nil
}

// onlyNames reports whether the entrypoint of a submission chooses nothing, as it is the name of its source or of its only file.
func (s Spec) onlyNames() bool {
	return s.Source != "" || len(s.Files) == 1 && s.Files[0].Name == s.Entrypoint
}

// place makes the source of a submission the file that the problem's own files look for. Its entrypoint names it, where the problem doesn't; it is
// never a file of the problem.
func (n Include) place(spec *Spec, add addFunc) {
	name := spec.Entrypoint
	if i := spec.besideSource(name); name != "" && i >= 0 {
		add("entrypoint", clip(name), fmt.Sprintf("names source, which can't be beside files[%d]", i), "another name")
		return
	}
	taken := name != "" && Spec{Files: n.Files}.besideSource(name) >= 0
	switch {
	case n.SourceName != "":
		name = n.SourceName
		if i := spec.besideSource(name); i >= 0 {
			add(fmt.Sprintf("files[%d].name", i), clip(spec.Files[i].Name), "can't be beside source, which becomes "+clip(name), "another name")
		}
	case !n.has(n.Entrypoint):
		if taken { // the runtime has another name for it
			spec.Entrypoint = ""
		}
		return
	case name == "":
		add("entrypoint", nil, "is missing", "the name of source, beside "+clip(n.Entrypoint)+" of the problem")
	case taken:
		add("entrypoint", clip(name), "names source, and is a file of the problem", "another name")
	}
	spec.Source, spec.Files, spec.Entrypoint = "", append(spec.Files, File{Name: name, Content: spec.Source}), name
}

// CheckSize returns what is wrong with the size of a submission, as [Invalid] or nil: of a job that was made of it by Expand, when the size of
// each file that is kept elsewhere is known.
func (p Problem) CheckSize(s Spec) error {
	include := p.IncludeFor(s.Runtime)
	most := p.SubmissionKB << 10
	n := int64(len(s.Source))
	for _, f := range s.Files {
		if include.has(f.Name) {
			continue
		}
		if f.Kept() {
			n += min(f.Size, math.MaxInt64-n)
		} else {
			n += f.InlineBytes()
		}
	}
	if most == 0 || n <= most {
		return nil
	}
	return Invalid{{
		Field: "files", Value: fmt.Sprintf("%d bytes with source", n), Message: "are too large", Allowed: fmt.Sprintf("%d bytes (submission_kb of the problem)", most),
	}}
}

func (n Include) has(name string) bool {
	return slices.ContainsFunc(n.Files, func(f File) bool { return f.Name == name })
}

// Submission is what of a job's spec is the submission's, with what its problem put over it: it is kept with the result, so that it can
// be graded again.
func (s Spec) Submission() Spec {
	return Spec{
		Problem: s.Problem, Runtime: s.Runtime, Source: s.Source, Files: s.Files, Entrypoint: s.Entrypoint, Commands: s.Commands, Args: s.Args, Env: s.Env,
		MergeStderr: s.MergeStderr, TruncateOutput: s.TruncateOutput, Limits: s.Limits, Callback: s.Callback, RetentionSeconds: s.RetentionSeconds,
		Fresh: s.Fresh, Isolation: s.Isolation, Placement: s.Placement, Metadata: s.Metadata,
	}
}

// TakeBack takes out of a [Spec.Submission] what this problem put over it: what is left is as it was sent, except for source that became a
// file, for what an entrypoint called that, or the only file, and for files that the problem replaced.
func (p Problem) TakeBack(sub Spec) Spec {
	include := p.IncludeFor(sub.Runtime)
	sub.Problem = ""
	sub.Files = slices.DeleteFunc(slices.Clone(sub.Files), func(f File) bool { return include.has(f.Name) })
	if i := slices.IndexFunc(sub.Files, func(f File) bool { return f.Name == include.SourceName }); i >= 0 && sub.Source == "" && !sub.Files[i].Kept() && sub.Files[i].ContentBase64 == "" {
		sub.Source = sub.Files[i].Content
		sub.Files = slices.Delete(sub.Files, i, i+1)
	}
	if sub.Entrypoint == include.Entrypoint || sub.Entrypoint == include.SourceName {
		sub.Entrypoint = ""
	}
	if sub.Source == "" && sub.onlyNames() {
		sub.Entrypoint = ""
	}
	if include.Commands != nil {
		sub.Commands = nil
	}
	sub.Limits = sub.Limits.without(p.Limits)
	return sub
}
