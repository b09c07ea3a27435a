package policy

import (
	"cmp"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/glovebox-run/glovebox/job"
)

// What is judged.
const (
	KindJob       = "job" // also of a template, a hook or a schedule
	KindBatch     = "batch"
	KindPipeline  = "pipeline" // a job of a run
	KindSession   = "session"  // its start
	KindExecution = "execution"
)

// Subject is what a policy judges.
type Subject struct {
	Kind, Tenant string
	// Token is the label of the token that submitted it, or else the token's id; "" where there was none.
	Token string
	// Spec with all limits that it will have.
	Spec job.Spec
	// Limits that it will run under.
	Limits job.Limits
	// Session that it is an execution of, or "".
	Session string
	// Around is the callback of the job's run or batch, or nil. The job is judged a second time as if it were its own: what it leaves is posted there, too.
	Around *job.Callback
	// Opens says that a run or a batch is judged as a whole. It has a callback and metadata, and no program, so only rules that ask for the callback judge it.
	Opens bool
	// Context of the session that executes it, and its language; "" is the main one, which has the runtime's own.
	Context, Language string
}

// callbackHost is the variable by which rules ask where callbacks lead.
const callbackHost = "callback_host"

// variable is what a rule may name, and what it is of a subject.
type variable struct {
	name  string
	kind  *cel.Type
	value func(Subject) any
}

// variables are all; docs/policy.md explains them.
var variables = []variable{
	{"kind", cel.StringType, func(s Subject) any { return s.Kind }},
	{"tenant", cel.StringType, func(s Subject) any { return s.Tenant }},
	{"token", cel.StringType, func(s Subject) any { return s.Token }},
	{"session", cel.StringType, func(s Subject) any { return s.Session }},
	{"context", cel.StringType, func(s Subject) any { return s.Context }},
	{"language", cel.StringType, func(s Subject) any { return s.Language }},
	{"runtime", cel.StringType, func(s Subject) any { return s.Spec.Runtime }},
	{"image", cel.StringType, func(s Subject) any { return s.Spec.Image }},
	{"command", texts, func(s Subject) any { return list(s.Spec.Command) }},
	{"args", texts, func(s Subject) any { return list(s.Spec.Args) }},
	{"source", cel.StringType, func(s Subject) any { return s.Spec.Source }},
	{"code", cel.StringType, func(s Subject) any { return code(s.Spec) }},
	{"entrypoint", cel.StringType, func(s Subject) any { return s.Spec.Entrypoint }},
	{"files", cel.ListType(cel.MapType(cel.StringType, cel.DynType)), func(s Subject) any { return describe(s.Spec.Files) }},
	{"stdin", cel.StringType, func(s Subject) any { return stdin(s.Spec) }},
	{"compile", cel.StringType, func(s Subject) any { return commands(s.Spec.Commands).Compile }},
	{"run", cel.StringType, func(s Subject) any { return commands(s.Spec.Commands).Run }},
	{"checker", cel.StringType, func(s Subject) any { return program(s.Spec.CheckerProgram()) }},
	{"checker_runtime", cel.StringType, func(s Subject) any { return checkerOf(s.Spec).Runtime }},
	{"checker_limits", cel.MapType(cel.StringType, cel.DynType), func(s Subject) any { return checkerOf(s.Spec).Limits.ByName() }},
	{"tests", cel.IntType, func(s Subject) any { return len(s.Spec.Tests) }},
	{"env", table, func(s Subject) any { return entries(s.Spec.Env) }},
	{"secrets", texts, func(s Subject) any { return list(s.Spec.Secrets) }},
	{"metadata", table, func(s Subject) any { return entries(s.Spec.Metadata) }},
	{"limits", cel.MapType(cel.StringType, cel.DynType), func(s Subject) any { return s.Limits.ByName() }},
	{"priority", cel.StringType, func(s Subject) any { return string(cmp.Or(s.Spec.Priority, job.Normal)) }},
	{"isolation", cel.StringType, func(s Subject) any { return string(s.Spec.Isolation.Or()) }},
	{"placement", table, func(s Subject) any { return entries(s.Spec.Placement) }},
	{callbackHost, cel.StringType, func(s Subject) any { return host(s.Spec.Callback) }},
	{"interactive", cel.BoolType, func(s Subject) any { return s.Spec.Interactive }},
	{"fresh", cel.BoolType, func(s Subject) any { return s.Spec.Fresh }},
}

var (
	texts = cel.ListType(cel.StringType)
	table = cel.MapType(cel.StringType, cel.StringType)
	// declared is how CEL is told of the variables.
	declared = func() (options []cel.EnvOption) {
		for _, v := range variables {
			options = append(options, cel.Variable(v.name, v.kind))
		}
		return options
	}()
)

// Variables lists the names that a rule may use.
func Variables() []string {
	names := make([]string, len(variables))
	for i, v := range variables {
		names[i] = v.name
	}
	return names
}

// known has the variables' values. Each is made when a rule first asks for it: files can be many megabytes.
func (s Subject) known() map[string]any {
	known := make(map[string]any, len(variables))
	for _, v := range variables {
		known[v.name] = func() any { return v.value(s) }
	}
	return known
}

// describe is files as rules see them. What is kept elsewhere has no content here.
func describe(files []job.File) []map[string]any {
	all := make([]map[string]any, len(files))
	for i, f := range files {
		content, err := f.Bytes()
		size, from := int64(len(content)), "inline"
		if err != nil {
			size, from = f.Size, "upload"
		}
		if f.Artifact != "" {
			from = "artifact"
		}
		all[i] = map[string]any{"name": f.Name, "content": string(content), "size": size, "from": from, "sha256": f.SHA256}
	}
	return all
}

// code is the source, all files and the text of a checker program as one text: a program can be in any of them.
func code(spec job.Spec) string {
	all := []string{spec.Source, program(spec.CheckerProgram())}
	for _, f := range describe(spec.Files) {
		all = append(all, f["content"].(string))
	}
	return strings.Join(all, "\n")
}

func stdin(spec job.Spec) string {
	b, err := spec.StdinBytes()
	if err != nil {
		return "" // the spec was checked: it is kept elsewhere
	}
	return string(b)
}

// program is all of a checker's program that is text here.
func program(p *job.CheckerProgram) string {
	if p == nil {
		return ""
	}
	all := []string{p.Source}
	for _, f := range p.Files {
		content, err := f.Bytes()
		if err == nil { // else it is kept elsewhere
			all = append(all, string(content))
		}
	}
	c := commands(p.Commands)
	return strings.Join(append(all, c.Compile, c.Run), "\n")
}

// checkerOf is a job's checker program, with the limits that it will have; the zero value if it has none.
func checkerOf(spec job.Spec) job.CheckerProgram {
	p := spec.CheckerProgram()
	if p == nil {
		return job.CheckerProgram{}
	}
	of := *p
	of.Limits = of.Limits.Or(job.DefaultLimits)
	return of
}

func commands(c *job.Commands) job.Commands {
	if c == nil {
		return job.Commands{}
	}
	return *c
}

// host is where a callback leads.
func host(c *job.Callback) string {
	if c == nil {
		return ""
	}
	return job.HostOf(c.URL)
}

func list(l []string) []string {
	if l == nil {
		return []string{}
	}
	return l
}

func entries(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
