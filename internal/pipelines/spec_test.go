package pipelines_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/pipelines"
	"github.com/glovebox-run/glovebox/internal/templates"
	"github.com/glovebox-run/glovebox/job"
)

func csv(id, name string) job.Artifact { return job.Artifact{Name: name, Size: 3, SHA256: id} }

// TestSpec: what a step points at is where it points from, and nothing else.
func TestSpec(t *testing.T) {
	t.Parallel()
	d := parse(t, report)
	params, err := d.Params([]byte(`{"ref":"v1; rm -rf /"}`))
	if err != nil {
		t.Fatal(err)
	}
	c := pipelines.Context{Params: params, Needs: map[string]pipelines.Need{"fetch": {
		Status: pipelines.Succeeded, Count: 1, Succeeded: 1,
		Jobs: []pipelines.Ended{{ID: "t-1", Artifacts: []job.Artifact{csv("2", "b.csv"), csv("1", "a.csv"), csv("3", "c.txt")}}},
	}}}
	spec, err := d.Spec("fetch", pipelines.Verdict{Word: pipelines.Begin, Count: 1}, 0, c)
	if want := []string{"v1; rm -rf /"}; err != nil || !cmp.Equal(spec.Args, want) {
		t.Errorf("got %q, %v, want %q", spec.Args, err, want)
	}
	s := pipelines.State{Steps: map[string]pipelines.StepState{"fetch": {
		Verdict: pipelines.Verdict{Word: pipelines.Begin, Count: 1}, Items: map[int]pipelines.Item{0: {Try: 1, Status: job.Succeeded}},
	}}}
	v := d.Decide("parse", s, c, 1)
	if v.Word != pipelines.Begin || v.Count != 2 {
		t.Fatalf("got %+v, want two items", v)
	}
	if spec, err = d.Spec("parse", v, 1, c); err != nil {
		t.Fatal(err)
	}
	want := []job.File{{Name: "n", Content: "1"}, {Name: "in.csv", Artifact: "t-1/b.csv"}}
	if diff := cmp.Diff(want, spec.Files); diff != "" || !cmp.Equal(spec.Args, []string{"b.csv"}) {
		t.Errorf("args %q, files: %s", spec.Args, diff)
	}
	outputs, err := pipelines.ParseOutputs([]byte(`{"rows":12345678901234567890}`))
	if err != nil {
		t.Fatal(err)
	}
	c.Needs["parse"] = pipelines.Need{Status: pipelines.Succeeded, Each: true, Count: 2, Succeeded: 2, Jobs: []pipelines.Ended{
		{ID: "t-2", Artifacts: []job.Artifact{csv("1", "out.csv")}}, {ID: "t-3", Artifacts: []job.Artifact{csv("2", "out.csv"), csv("4", job.OutputsFile)}, Outputs: outputs},
	}}
	if spec, err = d.Spec("chart", pipelines.Verdict{Word: pipelines.Begin, Count: 1}, 0, c); err != nil {
		t.Fatal(err)
	}
	want = []job.File{{Name: "parts/0/out.csv", Artifact: "t-2/out.csv", Size: 3, SHA256: "1"}, {Name: "parts/1/out.csv", Artifact: "t-3/out.csv", Size: 3, SHA256: "2"}}
	if diff := cmp.Diff(want, spec.Files); diff != "" || spec.Stdin != "12345678901234567890" {
		t.Errorf("stdin %q, files: %s", spec.Stdin, diff)
	}
}

// TestProgramBesideArtifacts: a step's only file stays its program, whatever artifacts come beside it.
func TestProgramBesideArtifacts(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"steps":{"b":{"runtime":"python","source":"x"},"a":{"needs":["b"],"runtime":"python","files":[{"artifacts":"b"},{"name":"main.py","content":"x"}]}}}`)
	spec, err := d.Spec("a", pipelines.Verdict{Word: pipelines.Begin, Count: 1}, 0, pipelines.Context{Needs: map[string]pipelines.Need{"b": {
		Status: pipelines.Succeeded, Count: 1, Succeeded: 1, Jobs: []pipelines.Ended{{ID: "t-1", Artifacts: []job.Artifact{csv("1", "a.csv")}}},
	}}})
	if err != nil || spec.Entrypoint != "main.py" || len(spec.Files) != 2 {
		t.Errorf("got the entrypoint %q of %d files, %v, want main.py of two", spec.Entrypoint, len(spec.Files), err)
	}
}

// TestParamsAreTheStepsOwn: the defaults that a template gives its parameters are in no other step's.
func TestParamsAreTheStepsOwn(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"params":{"type":"object","properties":{"o":{"type":"object"}}},"steps":{"a":{"template":"t","from":{"o":{"from":"/params/o"}}}}}`)
	c := pipelines.Context{Params: map[string]any{"o": map[string]any{"list": []any{map[string]any{}}}}}
	params, err := d.TemplateParams("a", pipelines.Verdict{Word: pipelines.Begin, Count: 1}, 0, c)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := templates.Parse([]byte(`{"type":"object","properties":{"o":{"type":"object","properties":{"x":{"default":1}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Check(params); err != nil {
		t.Fatal(err)
	}
	params["o"].(map[string]any)["list"].([]any)[0].(map[string]any)["y"] = 1
	if diff := cmp.Diff(map[string]any{"o": map[string]any{"list": []any{map[string]any{}}}}, c.Params); diff != "" {
		t.Errorf("what other steps read has changed (-want +got):\n%s", diff)
	}
}
