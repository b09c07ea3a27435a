package runtimes

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/glovebox-run/glovebox/job"
)

// FilePlaceholder stands for the file to run in a runtime's commands.
const FilePlaceholder = "{file}"

// environment is what every job starts with, unless its runtime says otherwise. HOME
// isn't the job's directory: what programs leave there would become artifacts.
var environment = map[string]string{
	"PATH": "/usr/local/bin:/usr/bin:/bin",
	"HOME": "/tmp",
	"LANG": "C.UTF-8",
}

// Runtime is a language that jobs can be written in.
type Runtime struct {
	// Name is the runtime's own; no other has it as name or alias.
	Name string
	// Version is the language's, as a user would say it: "3.13".
	Version string
	// VersionCommand prints what the image has: Version, and what follows it.
	VersionCommand []string
	// Core is one of the runtimes that are built unless others are asked for.
	Core bool
	// Aliases are other names of the runtime.
	Aliases []string
	// File is what a job's source is called where the job doesn't say: "main.py".
	File string
	// Compile, if there is one, runs before Run. "{file}" stands for the file in both.
	Compile, Run []string
	// Env is the whole environment that a job starts with.
	Env map[string]string
	// Limits are the defaults of the runtime's jobs; what is 0 has Glovebox's own.
	Limits job.Limits
	// Preload, if there is one, is how Compile, or without one Run, can be started before its file is known.
	Preload *Preload
	// Session, if there is one, starts an interpreter that executes code piece by piece and keeps its state: README.md
	// says how.
	Session []string
	// Language is what Session speaks. Contexts are the commands of further interpreters that a session can have, by their languages.
	Language string
	Contexts map[string][]string
	// SessionCode is what Session has the program execute; nil: it isn't in a file.
	SessionCode []byte

	image   string
	imageOf string // the runtime whose image it has, "" for its own
	// on is the runtime on whose image its own is built, "" for the base, and with are those whose images it takes files of.
	on   string
	with []string
}

// Preload says that the runtime's command for its own file, without arguments, can be
// started before there is a file: README.md says what it has to do then. With a compile step it is that step's command, up to the file.
type Preload struct {
	// MemoryMB is the most that it may hold as it waits, MiB.
	MemoryMB int64 `yaml:"memory_mb"`
	// SavesMS is how much sooner the runtime's programs end by it, some more and some not at all: an estimate. Where not all
	// runtimes have room to wait, those go without that save least.
	SavesMS int64 `yaml:"saves_ms"`
	// Env is the environment of the process that waits, beside the runtime's; a program has none of it.
	Env map[string]string `yaml:"env"`
	// Session: the file of Session, too, can become the process that waits.
	Session bool `yaml:"session"`
	// Forks: the command can also be started once for all tests of a program, and make the process of each.
	Forks bool `yaml:"forks"`
	// Words are those of which a program has one, for which it pays that this waits: names of
	// the modules that are imported. None: any program.
	Words []string `yaml:"words"`
	// SnapshotEnv is what a process that becomes a snapshot has in its environment besides, and SnapshotWords are
	// those of which a program has one, for which it pays to go on from that. So what costs much is done once an hour.
	SnapshotEnv   map[string]string `yaml:"snapshot_env"`
	SnapshotWords []string          `yaml:"snapshot_words"`
}

// Environment is the whole environment of the process that waits, where its runtime has env.
func (p Preload) Environment(env map[string]string) map[string]string {
	all := maps.Clone(env)
	maps.Copy(all, p.Env)
	return all
}

// SnapshotEnvironment is that of the process that becomes a snapshot.
func (p Preload) SnapshotEnvironment(env map[string]string) map[string]string {
	all := p.Environment(env)
	maps.Copy(all, p.SnapshotEnv)
	return all
}

// definition is runtime.yaml.
type definition struct {
	Name           string            `yaml:"name"`
	Version        string            `yaml:"version"`
	VersionCommand []string          `yaml:"version_command"`
	Aliases        []string          `yaml:"aliases"`
	Core           bool              `yaml:"core"`
	Image          string            `yaml:"image"`
	File           string            `yaml:"file"`
	Compile        []string          `yaml:"compile"`
	Run            []string          `yaml:"run"`
	Env            map[string]string `yaml:"env"`
	Limits         map[string]any    `yaml:"limits"`
	Preload        *Preload          `yaml:"preload"`
	Session        []string          `yaml:"session"`
	// Language is its own by default: the runtime's name.
	Language string              `yaml:"language"`
	Contexts map[string][]string `yaml:"contexts"`
	// On is a runtime on whose image this one's is built, and With are more whose images it takes files of.
	On   string   `yaml:"on"`
	With []string `yaml:"with"`
}

// below are the runtimes whose images its own is built from.
func (r Runtime) below() []string {
	if r.on == "" {
		return r.with
	}
	return append([]string{r.on}, r.with...)
}

// Languages are those of which a session can have interpreters, its own first.
func (r Runtime) Languages() []string {
	if len(r.Session) == 0 {
		return nil
	}
	return append([]string{r.Language}, slices.Sorted(maps.Keys(r.Contexts))...)
}

// Image returns the name of the runtime's image, which changes with everything that
// the image is built from. Several runtimes may have one image.
func (r Runtime) Image() string { return r.image }

// FindVersion returns the version in what VersionCommand printed: Version and what follows it,
// "3.13.5" for "3.13". It is empty if another version is there.
func (r Runtime) FindVersion(printed string) string {
	found := regexp.MustCompile(`(?:^|[^0-9.])(` + regexp.QuoteMeta(r.Version) + `(?:\.[0-9][0-9A-Za-z.]*)?)(?:[^0-9]|$)`).FindStringSubmatch(printed)
	if found == nil {
		return ""
	}
	return strings.TrimRight(found[1], ".")
}

// Command returns how to compile and to run a file of the job's directory. Compile is
// nil for a runtime without that step. An empty entrypoint means the runtime's own.
func (r Runtime) Command(entrypoint string, args []string) (compile, run []string) {
	if entrypoint == "" {
		entrypoint = r.File
	}
	// A name such as "-c" must not reach an interpreter as one of its options.
	if strings.HasPrefix(entrypoint, "-") {
		entrypoint = "./" + entrypoint
	}
	return fill(r.Compile, entrypoint), append(fill(r.Run, entrypoint), args...)
}

// PreloadCommand is what is started before a program's file is known: the compile step up to the file, whatever that is called, or
// the command that runs the runtime's own file.
func (r Runtime) PreloadCommand() []string {
	if len(r.Compile) == 0 {
		_, command := r.Command("", nil)
		return command
	}
	return slices.Clone(r.Compile[:fileAt(r.Compile)])
}

// fileAt is the index of the word that has the file in it, -1 if none has.
func fileAt(command []string) int {
	return slices.IndexFunc(command, func(word string) bool { return strings.Contains(word, FilePlaceholder) })
}

func fill(command []string, file string) []string {
	var filled []string
	for _, word := range command {
		filled = append(filled, strings.ReplaceAll(word, FilePlaceholder, file))
	}
	return filled
}

// maxPreloadMB bounds what a runtime may hold in each sandbox that waits.
const maxPreloadMB = 1024

var (
	nameForm   = regexp.MustCompile(`^[a-z][a-z0-9+.#_-]{0,31}$`)
	folderForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	// languageForm is that of the languages of contexts.
	languageForm = regexp.MustCompile(`^[a-z][a-z0-9+#-]{0,31}$`)
	versionForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._]{0,31}$`)
)

// parse reads runtime.yaml of the folder of the given name.
func parse(folder string, text []byte) (Runtime, error) {
	var d definition
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return Runtime{}, err
	}
	limits, err := d.limits()
	if err != nil {
		return Runtime{}, err
	}
	if err := d.check(folder); err != nil {
		return Runtime{}, err
	}
	env := maps.Clone(environment)
	maps.Copy(env, d.Env)
	return Runtime{
		Name: d.Name, Version: d.Version, VersionCommand: d.VersionCommand, Aliases: d.Aliases, Core: d.Core, File: d.File,
		Compile: d.Compile, Run: d.Run, Env: env, Limits: limits, Preload: d.Preload, Session: d.Session, imageOf: d.Image,
		Language: d.language(), Contexts: d.Contexts, on: d.On, with: d.With,
	}, nil
}

// language is the session's own; "" where there is none.
func (d definition) language() string {
	if len(d.Session) == 0 {
		return ""
	}
	return cmp.Or(d.Language, d.Name)
}

// limits reads the limits by way of JSON, so that their names are those of the API.
func (d definition) limits() (job.Limits, error) {
	var l job.Limits
	text, err := json.Marshal(d.Limits)
	if err != nil {
		return l, fmt.Errorf("limits: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return l, fmt.Errorf("limits: %w", err)
	}
	if faults := l.Check(job.DefaultMaximums); len(faults) > 0 {
		return l, job.Invalid(faults)
	}
	return l, nil
}

func (d definition) check(folder string) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if d.Name != folder || !folderForm.MatchString(d.Name) {
		add("name: %q must be the name of its folder, %q, of lower-case letters, digits and -", d.Name, folder)
	}
	if !versionForm.MatchString(d.Version) {
		add("version: %q must be letters, digits, dots and _", d.Version)
	}
	if len(d.VersionCommand) == 0 || d.VersionCommand[0] == "" {
		add("version_command: is missing")
	}
	for _, alias := range d.Aliases {
		if !nameForm.MatchString(alias) {
			add("aliases: %q must be lower-case letters, digits and +.#_-", alias)
		}
	}
	if problem := job.CheckName(d.File); problem != "" {
		add("file: %q %s", d.File, problem)
	}
	if len(d.Run) == 0 {
		add("run: is missing")
	}
	commands := slices.Concat(d.Compile, d.Run)
	if !strings.Contains(strings.Join(commands, " "), FilePlaceholder) {
		add("run: neither it nor compile mentions %s", FilePlaceholder)
	}
	if len(d.Run) > 0 && d.Run[0] == "" || len(d.Compile) > 0 && d.Compile[0] == "" {
		add("run, compile: the program's name is empty")
	}
	if (len(d.Contexts) > 0 || d.Language != "") && len(d.Session) == 0 {
		add("contexts, language: a runtime without a session has none")
	}
	for _, language := range append(slices.Sorted(maps.Keys(d.Contexts)), cmp.Or(d.Language, "x")) {
		if !languageForm.MatchString(language) {
			add("contexts, language: %q must be lower-case letters, digits, +, # and -", language)
		}
	}
	if _, own := d.Contexts[d.language()]; own {
		add("contexts: %s is the session's own language", d.language())
	}
	if d.Image != "" && (d.On != "" || len(d.With) > 0) {
		add("image: on and with are for an image of its own")
	}
	if d.Preload != nil && len(d.Compile) > 0 && (d.Preload.Session || d.Preload.Forks) {
		add("preload.session, preload.forks: with a compile step it is the compiler that waits, which is no session and makes no tests")
	}
	if d.Preload != nil && len(d.Compile) > 0 && fileAt(d.Compile) < 1 {
		add("preload: compile has no %s behind its first word, and what is before that is what waits", FilePlaceholder)
	}
	if d.Preload != nil && (d.Preload.MemoryMB < 1 || d.Preload.MemoryMB > maxPreloadMB) {
		add("preload.memory_mb: %d must be from 1 to %d", d.Preload.MemoryMB, maxPreloadMB)
	}
	if d.Preload != nil && d.Preload.SavesMS < 1 {
		add("preload.saves_ms: %d must be at least 1", d.Preload.SavesMS)
	}
	if d.Preload != nil && slices.Contains(slices.Concat(d.Preload.Words, d.Preload.SnapshotWords), "") {
		add("preload.words, snapshot_words: an empty word is in every program")
	}
	of := map[string]map[string]string{"env": d.Env}
	if d.Preload != nil {
		of["preload.env"], of["preload.snapshot_env"] = d.Preload.Env, d.Preload.SnapshotEnv
	}
	for field, env := range of {
		for key := range env {
			if key == "" || strings.ContainsAny(key, "=\x00") {
				add("%s: %q is not a variable's name", field, key)
			}
		}
	}
	return errors.Join(errs...)
}
