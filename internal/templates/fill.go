package templates

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/job"
)

// Check refuses pointers of a template's job that no parameter answers to, and what a run decides. It
// returns the job with a placeholder for each value that is pointed at, which a submit can check. It
// fails with job.Invalid.
func Check(spec job.TemplateSpec, schema *Schema) (job.Spec, error) {
	var invalid job.Invalid
	add := func(field string, value any, message, allowed string) {
		invalid = append(invalid, job.FieldError{Field: "spec." + field, Value: value, Message: message, Allowed: allowed})
	}
	if !spec.RunAt.IsZero() {
		add("run_at", spec.RunAt, "is one time, where a template has many runs", "nothing")
	}
	if !spec.Deadline.IsZero() {
		add("deadline", spec.Deadline, "is one time, where a template has many runs", "nothing")
	}
	if spec.IdempotencyKey != "" {
		add("idempotency_key", nil, "names one job, where a template has many", "nothing; give each run its own")
	}
	for _, f := range job.OwnMetadata(spec.Metadata) {
		add(f.Field, f.Value, f.Message, f.Allowed)
	}
	sample, err := fill(spec, func(field, pointer string) (string, error) {
		words, ok := job.ParsePointer(pointer)
		if !ok || len(words) == 0 || words[0] != "params" || len(words) > 1 && !schema.Has(words[1]) {
			pointers := []string{"/params"}
			for _, name := range schema.Names() {
				pointers = append(pointers, "/params/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
			}
			add(field+".from", job.Clip(pointer, 120), "points at no parameter", job.Clip(strings.Join(pointers, ", "), 500))
		}
		return "0", nil
	})
	if err == nil && invalid != nil {
		err = invalid
	}
	if sample.Metadata == nil {
		sample.Metadata = map[string]string{}
	}
	for key, most := range map[string]int{job.TemplateKey: 90, job.HookKey: 80, job.DeliveryKey: job.MaxDeliveryName} { // what a run by a hook adds
		sample.Metadata[key] = strings.Repeat("0", most)
	}
	return sample, err
}

// Fill returns the job of a template with parameters that its schema has checked. It fails with
// job.Invalid for a value that is pointed at and is not there, and where values are larger than a job's
// may be: a template may point at one value many hundred times.
func Fill(t job.Template, params map[string]any) (job.Spec, error) {
	spec, err := FillFrom(t.Spec, map[string]any{"params": params})
	if spec.Metadata == nil {
		spec.Metadata = map[string]string{}
	}
	spec.Metadata[job.TemplateKey] = t.Ref()
	return spec, err
}

// FillFrom returns the job with the values of root to which it points. It fails as Fill does.
func FillFrom(from job.TemplateSpec, root map[string]any) (job.Spec, error) {
	f := filler{
		root: root, texts: map[string]string{},
		most: int(from.Limits.Or(job.DefaultLimits).SourceKB<<10) + job.MaxWordsBytes,
	}
	spec, err := fill(from, f.text)
	if err == nil && f.invalid != nil {
		err = f.invalid
	}
	return spec, err
}

// Pointers calls do for each value of the job that is pointed at, and returns the job with a placeholder
// for it, which a submit can check.
func Pointers(spec job.TemplateSpec, do func(field, pointer string)) job.Spec {
	sample, _ := fill(spec, func(field, pointer string) (string, error) { // it fails only as do does
		do(field, pointer)
		return "0", nil
	})
	return sample
}

// filler finds the texts that a template points at.
type filler struct {
	root    map[string]any
	texts   map[string]string // by pointer: each is made once
	filled  int               // bytes, of all places
	most    int               // of filled
	invalid job.Invalid
}

// text returns what the pointer finds. Once something is too large the job is none, and the rest of it
// stays empty.
func (f *filler) text(field, pointer string) (string, error) {
	if f.filled > f.most {
		return "", nil
	}
	text, made := f.texts[pointer]
	if !made {
		v, ok := jsonvalue.Find(f.root, pointer)
		if !ok {
			f.add(pointer, nil, "is missing: spec."+field+" of the template points at it", "a value; or a default in the template's schema")
			return "", nil
		}
		var err error
		if text, err = jsonvalue.Text(v); err != nil {
			return "", err
		}
		if len(text) > job.MaxParamsBytes {
			f.add(pointer, fmt.Sprintf("%d bytes", len(text)), "is too large for spec."+field+" of the template", fmt.Sprintf("up to %d bytes", job.MaxParamsBytes))
			text = ""
		}
		f.texts[pointer] = text
	}
	if f.filled += len(text); f.filled > f.most {
		f.add("/params", fmt.Sprintf("more than %d bytes", f.most), "are too large in all the places where the template points at them",
			fmt.Sprintf("up to %d bytes together (limits.source_kb, and %d of args and env)", f.most, job.MaxWordsBytes))
		return "", nil
	}
	return text, nil
}

func (f *filler) add(pointer string, value any, message, allowed string) {
	field := strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", ".")
	f.invalid = append(f.invalid, job.FieldError{Field: field, Value: value, Message: message, Allowed: allowed})
}

// fill makes the job, with what find answers for each value that is pointed at.
func fill(from job.TemplateSpec, find func(field, pointer string) (string, error)) (job.Spec, error) {
	var failed error
	text := func(field string, v job.Value) string {
		if v.From == "" {
			return v.Text
		}
		s, err := find(field, v.From)
		if err != nil {
			failed = err
		}
		return s
	}
	spec := from.Spec
	spec.Args, spec.Env, spec.Files, spec.Metadata = nil, nil, nil, nil
	for i, v := range from.Args {
		spec.Args = append(spec.Args, text(fmt.Sprintf("args[%d]", i), v))
	}
	all := func(field string, values map[string]job.Value) map[string]string {
		var filled map[string]string
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if filled == nil {
				filled = map[string]string{}
			}
			filled[name] = text(field+"."+job.Clip(name, 64), values[name])
		}
		return filled
	}
	spec.Env = all("env", from.Env)
	spec.Metadata = all("metadata", from.Metadata)
	spec.Stdin = text("stdin", from.Stdin)
	for i, f := range from.Files {
		file := f.File
		file.Content = text(fmt.Sprintf("files[%d].content", i), f.Content)
		spec.Files = append(spec.Files, file)
	}
	return spec, failed
}
