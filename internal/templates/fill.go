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
	for _, key := range []string{job.TemplateKey, job.HookKey, job.DeliveryKey, job.ScheduleKey, job.FireKey} {
		if _, ok := spec.Metadata[key]; ok {
			add("metadata."+key, nil, "is Glovebox's", "another name")
		}
	}
	sample, err := fill(spec, func(field, pointer string) (string, error) {
		words, ok := jsonvalue.ParsePointer(pointer)
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
	for _, key := range []string{job.TemplateKey, job.HookKey, job.DeliveryKey} { // what a run by a hook adds
		sample.Metadata[key] = "0"
	}
	return sample, err
}

// Fill returns the job of a template with parameters that its schema has checked. It fails with
// job.Invalid for a value that is pointed at and is not there.
func Fill(t job.Template, params map[string]any) (job.Spec, error) {
	var invalid job.Invalid
	root := map[string]any{"params": params}
	spec, err := fill(t.Spec, func(field, pointer string) (string, error) {
		v, ok := jsonvalue.Find(root, pointer)
		if !ok {
			invalid = append(invalid, job.FieldError{
				Field: strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", "."), Message: "is missing: spec." + field + " of the template points at it",
				Allowed: "a value; or a default in the template's schema",
			})
			return "", nil
		}
		return jsonvalue.Text(v)
	})
	if err == nil && invalid != nil {
		err = invalid
	}
	if spec.Metadata == nil {
		spec.Metadata = map[string]string{}
	}
	spec.Metadata[job.TemplateKey] = t.Ref()
	return spec, err
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
