package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of the templates that a tenant stores.
const (
	MaxTemplates         = 100
	MaxTemplateRevisions = 50        // of one template: the newest are kept
	MaxTemplateBytes     = 128 << 10 // of one revision, as JSON
	MaxTemplatesBytes    = 8 << 20   // of all that a tenant has
	MaxSchemaBytes       = 16 << 10  // of the JSON Schema of its parameters
	MaxParamsBytes       = 64 << 10  // of the parameters of one run, as JSON

	maxTemplateName = 64
)

// TemplateKey is what the metadata of a job that a template started say about that: name@revision.
const TemplateKey = "glovebox.template"

// Template is a job that is stored under a name, with parameters. Each change makes a new
// revision; a job is made of one.
type Template struct {
	Name string `json:"name" example:"report"`
	// Revision counts from 1.
	Revision int64 `json:"revision" doc:"Counts from 1. Storing the template that is there already makes no new one." example:"3"`
	// Params is the JSON Schema of the parameters (draft 2020-12), of an object. Without it there are none.
	Params json.RawMessage `json:"params,omitempty" doc:"The JSON Schema of the parameters (draft 2020-12): an object's, without $ref, up to 16 KiB. A parameter that is left out has the schema's default. Absent: the template has no parameters."`
	// Spec is the job. Values in it may point at parameters.
	Spec TemplateSpec `json:"spec,omitzero" doc:"The job, as POST /v1/jobs takes it. In args, env, stdin, files[].content and metadata a value may be {\"from\": \"/params/NAME\"}, which points at a parameter (RFC 6901)."`
	// Pipeline is what it starts instead of a job.
	Pipeline  *Pipeline `json:"pipeline,omitempty" doc:"Instead of spec: a pipeline, whose parameters are params. POST /v1/runs, a hook or a schedule starts it."`
	CreatedAt time.Time `json:"created_at" doc:"When this revision was stored."`
}

// Ref is name@revision, which names this revision and no later one.
func (t Template) Ref() string { return t.Name + "@" + strconv.FormatInt(t.Revision, 10) }

// ErrIsPipeline is answered where a job was to be made of a template that is a pipeline.
var ErrIsPipeline error = Invalid{{Field: "template", Message: "is a pipeline, of which no job can be made", Allowed: "a template with a spec; POST /v1/runs starts a pipeline"}}

// Steps returns the pipeline of a template that is one, with its parameters and a name.
func (t Template) Steps() Pipeline {
	p := *t.Pipeline
	p.Params = t.Params
	if p.Name == "" {
		p.Name = t.Name
	}
	return p
}

// TemplateSpec is a [Spec] whose args, env, stdin, files and metadata may point at values. What a
// pointer finds becomes one argument, variable, file or text, and is never read as anything else: it
// can't become a part of the program.
type TemplateSpec struct {
	Spec
	Args     []Value          `json:"args,omitempty" doc:"The program's arguments: text, or {\"from\": \"/params/NAME\"}."`
	Env      map[string]Value `json:"env,omitempty" doc:"Environment variables added to the runtime's own: text, or {\"from\": \"/params/NAME\"}."`
	Stdin    Value            `json:"stdin,omitzero" doc:"What the program reads from standard input: text, or {\"from\": \"/params/NAME\"}."`
	Files    []TemplateFile   `json:"files,omitempty" doc:"Files placed in the job's directory; with no source, entrypoint names the one to run."`
	Metadata map[string]Value `json:"metadata,omitempty" doc:"Carried through to the result, unread: text, or {\"from\": \"/params/NAME\"}."`
}

// TemplateFile is a [File] whose content may point at a value.
type TemplateFile struct {
	File
	Content Value `json:"content,omitzero" doc:"The file's text, or {\"from\": \"/params/NAME\"}."`
}

// Value is a text, or points at one.
type Value struct {
	Text string `json:"-"`
	// From is a JSON pointer (RFC 6901): "/params/ref". Text that it finds is taken as it is, all else as
	// JSON.
	From string `json:"from" doc:"A JSON pointer (RFC 6901). Text that it finds is taken as it is, all else as JSON." example:"/params/ref"`
}

// MarshalJSON writes the text, or {"from": …}.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.From == "" {
		return Marshal(v.Text)
	}
	return Marshal(struct {
		From string `json:"from"`
	}{v.From})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (v *Value) UnmarshalJSON(b []byte) error {
	*v = Value{}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &v.Text)
	}
	var pointer struct{ From *string }
	if err := json.Unmarshal(b, &pointer); err != nil {
		return err
	}
	if pointer.From == nil || *pointer.From == "" {
		if string(b) == "null" {
			return nil
		}
		return errors.New(`want text, or {"from": "/params/NAME"}`)
	}
	v.From = *pointer.From
	return nil
}

// ValidTemplateName reports whether a template can have that name: 1 to 64 lower-case letters,
// digits, - and _, the first of them a letter or digit.
func ValidTemplateName(name string) bool {
	return name != "" && len(name) <= maxTemplateName && name[0] != '-' && name[0] != '_' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// ParseTemplateRef reads "name", which is the newest revision, 0, or "name@revision". It fails with
// ErrNoTemplate for what names none.
func ParseTemplateRef(ref string) (name string, revision int64, err error) {
	name, number, pinned := strings.Cut(ref, "@")
	if pinned {
		revision, err = strconv.ParseInt(number, 10, 64)
		if err != nil || revision < 1 || strconv.FormatInt(revision, 10) != number {
			return "", 0, ErrNoTemplate
		}
	}
	if !ValidTemplateName(name) {
		return "", 0, ErrNoTemplate
	}
	return name, revision, nil
}

// CheckTemplateName returns what is wrong with a template's name as [Invalid], or nil.
func CheckTemplateName(name string) error {
	if ValidTemplateName(name) {
		return nil
	}
	return Invalid{{"name", clip(name), "is no template's name", fmt.Sprintf("1 to %d lower-case letters, digits, - and _, starting with a letter or digit", maxTemplateName)}}
}
