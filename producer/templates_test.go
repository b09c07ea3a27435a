package producer_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// templates is the contract of producer.Templates.
func (s suite) templates(t *testing.T) {
	own, others := s.jobs.(producer.Templates), s.other.(producer.Templates)
	ctx := t.Context()
	if list, err := own.ListTemplates(ctx); err != nil || list == nil || len(list) > 0 {
		t.Errorf("got %v, %v, want an empty list", list, err)
	}
	request := producer.TemplateRequest{Params: json.RawMessage(`{"type":"object","properties":{"who":{"type":"string","default":"world"},"n":{"type":"integer"}}}`)}
	request.Spec.Spec = job.Spec{Runtime: "python", Source: "import sys; print(sys.argv)"}
	request.Spec.Args = []job.Value{{Text: "hello"}, {From: "/params/who"}}
	stored, err := own.SetTemplate(ctx, "greet", request)
	if err != nil || stored.Ref() != "greet@1" || time.Since(stored.CreatedAt).Abs() > time.Minute {
		t.Fatalf("got %+v, %v", stored, err)
	}
	if again, err := own.SetTemplate(ctx, "greet", request); err != nil || cmp.Diff(stored, again) != "" {
		t.Errorf("the same again: got %+v, %v, want revision 1", again, err)
	}
	second := request
	second.Spec.Args = []job.Value{{From: "/params/who"}, {From: "/params/n"}}
	if t2, err := own.SetTemplate(ctx, "greet", second); err != nil || t2.Revision != 2 {
		t.Fatalf("got %+v, %v, want revision 2", t2, err)
	}
	if _, err := others.SetTemplate(ctx, "greet", second); err != nil {
		t.Fatal(err)
	}
	if first, err := own.Template(ctx, "greet@1"); err != nil || cmp.Diff(stored, first) != "" {
		t.Errorf("got %+v, %v: %s", first, err, cmp.Diff(stored, first))
	}
	if list, err := own.ListTemplates(ctx); err != nil || len(list) != 1 || list[0].Name != "greet" || list[0].Revision != 2 {
		t.Errorf("got %+v, %v, want greet, revision 2", list, err)
	}

	args := func(j producer.Job, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		spec := s.w.Start(t, j.ID).Spec
		return strings.Join(spec.Args, "|") + " " + spec.Metadata[job.TemplateKey]
	}
	if got := args(own.RunTemplate(ctx, "greet", producer.RunRequest{Params: json.RawMessage(`{"who":"a b; c","n":7}`)})); got != "a b; c|7 greet@2" {
		t.Errorf("got %s", got)
	}
	if got := args(own.RunTemplate(ctx, "greet@1", producer.RunRequest{})); got != "hello|world greet@1" {
		t.Errorf("got %s", got)
	}

	// A key is of what was asked for, whatever the template is by now.
	keyed := producer.RunRequest{Params: json.RawMessage(`{"n":1}`), IdempotencyKey: "greet-1"}
	first, err := own.RunTemplate(ctx, "greet", keyed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.SetTemplate(ctx, "greet", request); err != nil {
		t.Fatal(err)
	}
	if again, err := own.RunTemplate(ctx, "greet", keyed); err != nil || again.ID != first.ID {
		t.Errorf("got %s, %v, want %s", again.ID, err, first.ID)
	}
	keyed.Params = json.RawMessage(`{"n":2}`)
	if _, err := own.RunTemplate(ctx, "greet", keyed); !errors.Is(err, job.ErrConflict) {
		t.Errorf("another run under the key: got %v, want ErrConflict", err)
	}

	s.templateRefusals(t, own)
	if err := own.DeleteTemplate(ctx, "greet"); err != nil {
		t.Error(err)
	}
	if err := own.DeleteTemplate(ctx, "greet"); !errors.Is(err, job.ErrNoTemplate) {
		t.Errorf("got %v, want ErrNoTemplate", err)
	}
	for _, ref := range []string{"greet", "greet@1"} {
		if _, err := own.Template(ctx, ref); !errors.Is(err, job.ErrNoTemplate) {
			t.Errorf("%s: got %v, want ErrNoTemplate", ref, err)
		}
	}
	if kept, err := others.Template(ctx, "greet@1"); err != nil || kept.Revision != 1 {
		t.Errorf("another tenant's: got %+v, %v", kept, err)
	}
}

func (s suite) templateRefusals(t *testing.T, own producer.Templates) {
	t.Helper()
	ctx := t.Context()
	for _, ref := range []string{"none", "greet@0", "greet@9", "greet@01", "greet@", "../x", "GREET", ""} {
		if _, err := own.RunTemplate(ctx, ref, producer.RunRequest{}); !errors.Is(err, job.ErrNoTemplate) {
			t.Errorf("run %q: got %v, want ErrNoTemplate", ref, err)
		}
	}
	spec := func(change func(*producer.TemplateRequest)) producer.TemplateRequest {
		r := producer.TemplateRequest{}
		r.Spec.Spec = job.Spec{Runtime: "python", Source: "1"}
		change(&r)
		return r
	}
	for want, r := range map[string]producer.TemplateRequest{
		"spec.runtime":          spec(func(r *producer.TemplateRequest) { r.Spec.Runtime = "cobol" }),
		"spec.args[0].from":     spec(func(r *producer.TemplateRequest) { r.Spec.Args = []job.Value{{From: "/params/x"}} }),
		"params":                spec(func(r *producer.TemplateRequest) { r.Params = json.RawMessage(`{"type":"array"}`) }),
		"spec.secrets[0]":       spec(func(r *producer.TemplateRequest) { r.Spec.Secrets = []string{"NO_SUCH"} }),
		"spec.env":              spec(func(r *producer.TemplateRequest) { r.Spec.Env = map[string]job.Value{"1": {Text: "x"}} }),
		"spec":                  spec(func(r *producer.TemplateRequest) { r.Spec.Source = strings.Repeat("x", job.MaxTemplateBytes) }),
		"spec.limits.memory_mb": spec(func(r *producer.TemplateRequest) { r.Spec.Limits.MemoryMB = 1 << 30 }),
		"spec.files[0].name":    spec(func(r *producer.TemplateRequest) { r.Spec.Files = []job.TemplateFile{{File: job.File{Name: "../x"}}} }),
		"spec.run_at":           spec(func(r *producer.TemplateRequest) { r.Spec.RunAt = time.Now() }),
		"params.properties.a.type": spec(func(r *producer.TemplateRequest) {
			r.Params = json.RawMessage(`{"type":"object","properties":{"a":{"type":"x"}}}`)
		}),
	} {
		_, err := own.SetTemplate(ctx, "bad", r)
		var invalid job.Invalid
		if !errors.As(err, &invalid) || invalid[0].Field != want {
			t.Errorf("got %v, want %s to be wrong", err, want)
		}
	}
	for name, params := range map[string]string{"params.n": `{"n":"1"}`, "params": `[]`} {
		_, err := own.RunTemplate(ctx, "greet", producer.RunRequest{Params: json.RawMessage(params)})
		var invalid job.Invalid
		if !errors.As(err, &invalid) || invalid[0].Field != name {
			t.Errorf("%s: got %v, want %s to be wrong", params, err, name)
		}
	}
	_, err := own.RunTemplate(ctx, "greet@2", producer.RunRequest{})
	var invalid job.Invalid
	if !errors.As(err, &invalid) || invalid[0].Field != "params.n" {
		t.Errorf("what is pointed at is missing: got %v", err)
	}
	if _, err := own.SetTemplate(ctx, "Bad name", producer.TemplateRequest{}); !errors.As(err, &invalid) || invalid[0].Field != "name" {
		t.Errorf("got %v, want name to be wrong", err)
	}
}
