package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
)

// maxInput bounds what is read from a file, so that a mistaken name of a huge one, or
// of /dev/zero, is found out here.
const maxInput = 64 << 20

// specOptions describe a job on the command line.
type specOptions struct {
	source                      string // FILE or -; none beside an image
	image                       string
	command                     []string
	runtime, stdinFile, problem string
	args, env, limits, metadata []string
	secrets                     []string
	files, artifacts            []string
	callback, priority          string
	key, runAt, deadline        string
	retention                   time.Duration
	fresh                       bool
	isolation                   string
	placement                   []string
	mergeStderr, truncateOutput bool
	interactive                 bool
	compileCommand, runCommand  string
}

// add adds the flags of a job.
func (o *specOptions) add(cmd *cobra.Command) {
	o.addProgram(cmd)
	f := cmd.Flags()
	f.StringVar(&o.image, "image", "", "`NAME@sha256:DIGEST` of an image to run in instead; the command goes behind --")
	f.StringArrayVar(&o.args, "arg", nil, "`ARGUMENT` of the program; can be given again")
	f.StringVar(&o.callback, "callback", "", "`URL` where the signed result is posted")
	f.StringArrayVar(&o.metadata, "metadata", nil, "`KEY=VALUE` that the result carries")
	f.DurationVar(&o.retention, "retention", 0, "`DURATION` to keep the job, its result and files for after its end, such as 24h; as long as the operator allows by default")
	f.StringVar(&o.priority, "priority", "", "high, normal or low")
	f.StringVar(&o.key, "key", "", "idempotency `KEY`: the same job again under it is the first one, for 24 hours")
	f.StringVar(&o.runAt, "run-at", "", "start at `TIME` at the earliest: 2026-11-20T09:00:00Z, or 90m for in so long")
	f.StringVar(&o.deadline, "deadline", "", "cancel the job if it has not ended at `TIME`: 2026-11-20T10:00:00Z, or 2h for in so long")
}

// addProgram adds the flags that say what is run, and how.
func (o *specOptions) addProgram(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.runtime, "runtime", "r", "", "`NAME` of the runtime; guessed from FILE's extension by default")
	f.StringVar(&o.problem, "problem", "", "`DIGEST` of a stored problem that grades the program (\"glovebox problem upload\")")
	f.StringVar(&o.runCommand, "run-command", "", "`LINE` for bash that is run in place of the runtime's own command; arguments are its \"$@\"")
	f.StringVar(&o.compileCommand, "compile-command", "", "`LINE` for bash that is run before that, and has to succeed")
	f.BoolVar(&o.mergeStderr, "merge-stderr", false, "what the program prints on standard error goes to its standard output, in order")
	f.BoolVar(&o.truncateOutput, "truncate-output", false, "drop the output beyond output_kb and let the program go on, instead of stopping it")
	f.StringArrayVar(&o.env, "env", nil, "`NAME=VALUE` for the program's environment; NAME alone takes the value from here")
	f.StringVar(&o.stdinFile, "stdin-file", "", "`PATH` of what the program reads from its standard input; - for ours")
	f.BoolVarP(&o.interactive, "interactive", "i", false, "keep the program's standard input open for what is sent while it runs")
	f.StringArrayVar(&o.files, "file", nil, "`[NAME=]PATH` of a file to place beside the program; a large one is uploaded first")
	f.StringArrayVar(&o.secrets, "secret", nil, "`NAME` of a stored secret that the program has in its environment")
	f.StringArrayVar(&o.artifacts, "artifact", nil, "`[NAME=]ID/FILE`: a file that another job left, to place beside the program")
	f.StringArrayVar(&o.limits, "limit", nil, "`LIMIT=NUMBER` such as wall_ms=5000 or memory_mb=512")
	f.StringVar(&o.isolation, "isolation", "", "the least that you accept: gvisor, or process where the operator allows it, for code that you trust")
	f.StringArrayVar(&o.placement, "placement", nil, "`KEY=VALUE`: a label that the worker has to have; can be given again")
	f.BoolVar(&o.fresh, "fresh", false, "a sandbox that is started from nothing: none that waited, none that goes on from a snapshot")
}

// isolation is the least that a job accepts: what the command line says, or else what the env file of a dev says that has nothing more.
func (a *app) isolation(said string) (job.Isolation, error) {
	if said == "" {
		c, err := a.settings()
		if err != nil {
			return "", err
		}
		said = c.Isolation
	}
	i, err := job.ParseIsolation(said)
	if err != nil {
		return "", usagef("--isolation: %v", err)
	}
	if i == job.GVisor {
		i = "" // as any job that says nothing
	}
	return i, nil
}

// spec reads the files and makes a job of the options. What the job may ask for is the
// API's to say.
func (a *app) spec(o specOptions) (job.Spec, error) {
	spec := job.Spec{
		Problem: o.problem, Runtime: o.runtime, Image: o.image, Command: o.command,
		Args: o.args, Priority: job.Priority(o.priority), IdempotencyKey: o.key, Fresh: o.fresh,
		Interactive: o.interactive, MergeStderr: o.mergeStderr, TruncateOutput: o.truncateOutput,
	}
	var err error
	if spec.Isolation, err = a.isolation(o.isolation); err != nil {
		return spec, err
	}
	if o.source == "-" && o.stdinFile == "-" {
		return spec, usagef("the program and its input can't both come from standard input")
	}
	if o.runCommand != "" || o.compileCommand != "" {
		spec.Commands = &job.Commands{Compile: o.compileCommand, Run: o.runCommand}
	}
	if o.image == "" {
		source, err := a.read(o.source)
		if err != nil {
			return spec, err
		}
		if err := setSource(&spec, o.source, source); err != nil {
			return spec, err
		}
	}
	if o.stdinFile != "" {
		stdin, err := a.read(o.stdinFile)
		if err != nil {
			return spec, err
		}
		spec.Stdin, spec.StdinBase64 = textOrBase64(stdin)
	}
	if spec.Files, err = a.filesOf(spec.Files, o.files); err != nil {
		return spec, err
	}
	for _, ref := range o.artifacts {
		name, artifact, named := strings.Cut(ref, "=")
		if !named {
			artifact = ref
		}
		id, file, ok := strings.Cut(artifact, "/")
		if !ok || id == "" || file == "" {
			return spec, usagef("--artifact %s: want ID/FILE, or NAME=ID/FILE", ref)
		}
		if !named {
			name = file
		}
		spec.Files = append(spec.Files, job.File{Name: name, Artifact: artifact})
	}
	if spec.Env, err = a.environment(o.env); err != nil {
		return spec, err
	}
	spec.Secrets = o.secrets
	if spec.Metadata, err = pairs("--metadata", o.metadata); err != nil {
		return spec, err
	}
	if spec.Placement, err = pairs("--placement", o.placement); err != nil {
		return spec, err
	}
	if spec.Limits, err = parseLimits("--limit", o.limits, job.Limits{}); err != nil {
		return spec, err
	}
	now := time.Now()
	if spec.RunAt, err = timeToCome("--run-at", o.runAt, now); err != nil {
		return spec, err
	}
	if spec.Deadline, err = timeToCome("--deadline", o.deadline, now); err != nil {
		return spec, err
	}
	if o.retention%time.Second != 0 || o.retention < 0 {
		return spec, usagef("--retention %s: want whole seconds, such as 90s, 12h or 168h", o.retention)
	}
	spec.RetentionSeconds = int64(o.retention / time.Second)
	spec.SpecVersion = spec.Needs()
	if o.callback != "" {
		spec.Callback = &job.Callback{URL: o.callback}
	}
	return spec, nil
}

// timeToCome reads a time, or in how long it is; "" is none.
func timeToCome(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if in, err := time.ParseDuration(s); err == nil && in >= 0 {
		return now.Add(in), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return at, usagef("%s %s: want a time such as 2026-11-20T09:00:00Z, or in how long: 90m", flag, s)
	}
	return at, nil
}

// setSource makes content the program, under its own name, which error messages then show.
func setSource(spec *job.Spec, path string, content []byte) error {
	name := filepath.Base(path)
	if path == "-" || job.CheckName(name) != "" {
		name = ""
	}
	if len(content) == 0 {
		return usagef("%s is empty: there is nothing to run", path)
	}
	switch {
	case utf8.Valid(content):
		spec.Source, spec.Entrypoint = string(content), name
	case name != "": // JSON can't carry it as text
		spec.Files, spec.Entrypoint = append(spec.Files, file(name, content)), name
	default:
		return usagef("%s is not UTF-8 text", path)
	}
	return nil
}

// file is text where it is UTF-8, and base64 otherwise.
func file(name string, content []byte) job.File {
	text, encoded := textOrBase64(content)
	return job.File{Name: name, Content: text, ContentBase64: encoded}
}

// textOrBase64 is data as text, or as base64 where it is none.
func textOrBase64(data []byte) (text, encoded string) {
	if utf8.Valid(data) {
		return string(data), ""
	}
	return "", base64.StdEncoding.EncodeToString(data)
}

// read returns what a file, or - for standard input, holds.
func (a *app) read(path string) ([]byte, error) {
	r := a.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, &failure{code: exitUsage, err: err}
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, usagef("%s is a directory, not a file", path)
		}
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(b) > maxInput {
		return nil, usagef("%s is larger than %s", path, bytesOf(maxInput))
	}
	return b, nil
}

// environment reads NAME=VALUE, and NAME with the value that it has here.
func (a *app) environment(given []string) (map[string]string, error) {
	full := make([]string, len(given))
	for i, e := range given {
		full[i] = e
		if !strings.Contains(e, "=") {
			full[i] = e + "=" + a.getenv(e)
		}
	}
	return pairs("--env", full)
}

func pairs(flag string, given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	m := map[string]string{}
	for _, p := range given {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, usagef("%s %s: want NAME=VALUE", flag, p)
		}
		if _, twice := m[k]; twice {
			return nil, usagef("%s: %s appears more than once", flag, k)
		}
		m[k] = v
	}
	return m, nil
}

// parseLimits sets what LIMIT=NUMBER says in l, by way of JSON, so that names and types
// are the API's.
func parseLimits(flag string, given []string, l job.Limits) (job.Limits, error) {
	m, err := pairs(flag, given)
	if err != nil {
		return l, err
	}
	for name, value := range m {
		if !json.Valid([]byte(value)) || strings.ContainsAny(value, `"{[tfn `) {
			return l, usagef("%s %s=%s: want a number", flag, name, value)
		}
		dec := json.NewDecoder(bytes.NewReader(fmt.Appendf(nil, `{%q:%s}`, name, value)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&l); err != nil {
			var mistyped *json.UnmarshalTypeError
			if errors.As(err, &mistyped) {
				return l, usagef("%s %s=%s: want a whole number", flag, name, value)
			}
			return l, usagef("%s %s: there is no such limit; there are %s", flag, name, strings.Join(limitNames(), ", "))
		}
	}
	return l, nil
}

// limitNames are the names of job.Limits in JSON, in their order.
func limitNames() []string {
	t := reflect.TypeFor[job.Limits]()
	names := make([]string, t.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return names
}

// filesOf adds the files that are given as [NAME=]PATH.
func (a *app) filesOf(files []job.File, given []string) ([]job.File, error) {
	for _, f := range given {
		name, path := namedFile(f)
		content, err := a.read(path)
		if err != nil {
			return nil, err
		}
		files = append(files, file(name, content))
	}
	return files, nil
}
