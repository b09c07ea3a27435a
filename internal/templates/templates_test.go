package templates_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/templates"
	"github.com/glovebox-run/glovebox/job"
)

const schemaText = `{"type":"object","required":["ref"],"additionalProperties":false,"properties":{
	"ref":{"type":"string","maxLength":100},"count":{"type":"integer","default":3,"maximum":10},
	"when":{"type":"string","format":"date"},"a/b~c":{"default":[1,{"x":null}]},
	"options":{"type":"object","default":{},"properties":{"deep":{"type":"boolean","default":true}}}}}`

const specText = `{"runtime":"python","source":"print(1)","args":["--ref",{"from":"/params/ref"},{"from":"/params/count"}],
	"env":{"REF":{"from":"/params/ref"},"PLAIN":"${params.ref}"},"stdin":{"from":"/params"},
	"files":[{"name":"b.json","content":{"from":"/params/a~1b~0c"}},{"name":"x","content_base64":"AAE="},{"name":"y","content":"text"}],
	"metadata":{"deep":{"from":"/params/options/deep"}}}`

func decode[T any](tb testing.TB, text string) (v T) {
	tb.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		tb.Fatal(err)
	}
	return v
}

// TestFill: what a pointer finds is one argument, variable, file or text, whatever it holds.
func TestFill(t *testing.T) {
	t.Parallel()
	schema, err := templates.Parse(json.RawMessage(schemaText))
	if err != nil {
		t.Fatal(err)
	}
	template := job.Template{Name: "report", Revision: 3, Params: json.RawMessage(schemaText), Spec: decode[job.TemplateSpec](t, specText)}
	if _, err := templates.Check(template.Spec, schema); err != nil {
		t.Fatal(err)
	}
	for _, hostile := range []string{"main", "", "'; rm -rf / #", "$(id)", `{"from":"/params/count"}`, "{{.Env}}", "a\nb", "--help"} {
		given, err := json.Marshal(map[string]any{"ref": hostile})
		if err != nil {
			t.Fatal(err)
		}
		params, err := schema.Params(given)
		if err != nil {
			t.Fatal(err)
		}
		got, err := templates.Fill(template, params)
		if err != nil {
			t.Fatal(err)
		}
		all, err := job.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		want := job.Spec{
			Runtime: "python", Source: "print(1)", Args: []string{"--ref", hostile, "3"},
			Env: map[string]string{"REF": hostile, "PLAIN": "${params.ref}"}, Stdin: string(all),
			Files:    []job.File{{Name: "b.json", Content: `[1,{"x":null}]`}, {Name: "x", ContentBase64: "AAE="}, {Name: "y", Content: "text"}},
			Metadata: map[string]string{"deep": "true", "glovebox.template": "report@3"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", hostile, diff)
		}
	}
	// What is filled in is each run's own.
	first, err := schema.Params(json.RawMessage(`{"ref":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	first["options"].(map[string]any)["deep"] = "spoiled"
	if second, err := schema.Params(json.RawMessage(`{"ref":"x"}`)); err != nil || second["options"].(map[string]any)["deep"] != true {
		t.Errorf("got %v, %v", second, err)
	}
}

// TestFillIsBounded: a template that points at one value in many hundred places makes no job that is
// larger than a job may be, and takes little memory to find that out. Nothing runs beside it.
func TestFillIsBounded(t *testing.T) { //nolint:paralleltest // what it allocates is counted
	var spec job.TemplateSpec
	for i := range job.MaxArgs {
		spec.Args = append(spec.Args, job.Value{From: "/params"})
		spec.Files = append(spec.Files, job.TemplateFile{File: job.File{Name: fmt.Sprint(i)}, Content: job.Value{From: "/params/text"}})
	}
	spec.Env = map[string]job.Value{}
	for i := range job.MaxEnv {
		spec.Env[fmt.Sprintf("E%d", i)] = job.Value{From: "/params"}
	}
	for _, c := range []struct {
		text, field string
	}{
		{strings.Repeat("<", 60<<10), "params"},
		{strings.Repeat("\x01", 60<<10), "params"},
		{strings.Repeat("x", job.MaxParamsBytes+1), "params.text"},
	} {
		params := map[string]any{"text": c.text}
		spent := gbtest.Allocated(func() {
			_, err := templates.Fill(job.Template{Name: "many", Spec: spec}, params)
			var invalid job.Invalid
			if !errors.As(err, &invalid) || len(invalid) > 4 || !strings.Contains(err.Error(), c.field) || !strings.Contains(err.Error(), "too large") {
				t.Errorf("%.4q: got %v, want %s to be too large", c.text, err, c.field)
			}
		})
		if spent > 8<<20 {
			t.Errorf("%.4q: %d MiB were allocated", c.text, spent>>20)
		}
	}
	// What fits is as it was, each place has its text.
	got, err := templates.Fill(job.Template{Name: "many", Spec: spec}, map[string]any{"text": strings.Repeat("x", 1000)})
	if err != nil || len(got.Args[255]) != 1011 || len(got.Files[255].Content) != 1000 || len(got.Env["E127"]) != 1011 {
		t.Errorf("got %v, want all filled", err)
	}
}

// TestSampleHasWhatRunsAdd: a template whose runs, by a hook too, would have too many metadata is found
// when it is stored.
func TestSampleHasWhatRunsAdd(t *testing.T) {
	t.Parallel()
	schema, err := templates.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	sample, err := templates.Check(decode[job.TemplateSpec](t, `{"runtime":"python","source":"x","metadata":{"mine":"1"}}`), schema)
	if err != nil || len(sample.Metadata) != 4 || sample.Metadata["mine"] != "1" {
		t.Errorf("got %v, %v", sample.Metadata, err)
	}
	for key, longest := range map[string]string{
		job.TemplateKey: strings.Repeat("a", 64) + "@" + strconv.FormatInt(math.MaxInt64, 10), job.HookKey: job.NewHookID(strings.Repeat("a", 32)),
		job.DeliveryKey: strings.Repeat("a", job.MaxDeliveryName),
	} {
		if got := len(sample.Metadata[key]); got < len(longest) {
			t.Errorf("%s: got room for %d bytes, want %d", key, got, len(longest))
		}
	}
}

// TestSpecStays: a template is stored as it was sent.
func TestSpecStays(t *testing.T) {
	t.Parallel()
	spec := decode[job.TemplateSpec](t, specText)
	b, err := job.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decode[map[string]any](t, specText), decode[map[string]any](t, string(b)), cmp.FilterPath(func(p cmp.Path) bool {
		return strings.HasSuffix(p.String(), "limits")
	}, cmp.Ignore())); diff != "" && !strings.Contains(diff, `"limits"`) {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(spec, decode[job.TemplateSpec](t, string(b))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFilled: what parameters have become with their defaults is read again, however large that is.
func TestFilled(t *testing.T) {
	t.Parallel()
	schema, err := templates.Parse(json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"},"b":{"default":"` + strings.Repeat("x", 8<<10) + `"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	params, err := schema.Params(json.RawMessage(`{"a":"` + strings.Repeat("x", 60<<10) + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := job.Marshal(params)
	if err != nil || len(text) <= job.MaxParamsBytes {
		t.Fatalf("got %d bytes, %v", len(text), err)
	}
	again, err := schema.Filled(text)
	if diff := cmp.Diff(params, again); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%.300s", err, diff)
	}
	if _, err := schema.Params(text); err == nil {
		t.Error("from somebody else: want it refused")
	}
}

func TestParamsRefuses(t *testing.T) {
	t.Parallel()
	schema, err := templates.Parse(json.RawMessage(schemaText))
	if err != nil {
		t.Fatal(err)
	}
	for params, want := range map[string]string{
		``:                          "params: is wrong: missing property 'ref'",
		`null`:                      "params: is wrong: missing property 'ref'",
		`[]`:                        "params: is not an object",
		`{"ref":1}`:                 "params.ref: is wrong: got number, want string",
		`{"ref":"x","more":1}`:      "params: is wrong: additional properties 'more' not allowed",
		`{"ref":"x","count":11}`:    "params.count: is wrong: maximum: got 11, want 10",
		`{"ref":"x","when":"soon"}`: "params.when: is wrong: 'soon' is not valid date",
		`{"ref":"x"} {}`:            "params: is more than one JSON value",
		`{"ref":`:                   "params: is not JSON",
		`{"ref":"x","count":1e999}`: "params: has a number",
		`{"ref":"x","count":` + strings.Repeat("9", 65) + `}`:                 "params: has a number",
		`{"ref":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`: "params: is nested deeper",
		`{"ref":"` + strings.Repeat("x", job.MaxParamsBytes) + `"}`:           "params: are too large",
		`{"ref":[` + strings.Repeat("1,", 5000) + `1]}`:                       "params: have too many values",
		`{"ref":"` + strings.Repeat("é", 101) + `","options":{"deep":1}}`:     "params.options.deep: is wrong",
	} {
		_, err := schema.Params(json.RawMessage(params))
		var invalid job.Invalid
		if !errors.As(err, &invalid) || !strings.Contains(shown(invalid), want) {
			t.Errorf("%.60s: got %v, want %s", params, err, want)
		}
	}
	none, err := templates.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Params(nil); err != nil {
		t.Errorf("no parameters for none: %v", err)
	}
	if _, err := none.Params(json.RawMessage(`{"x":1}`)); err == nil {
		t.Error("a parameter for none is taken")
	}
}

func shown(invalid job.Invalid) string {
	var lines []string
	for _, f := range invalid {
		lines = append(lines, fmt.Sprintf("%s: %s", f.Field, f.Message))
	}
	return strings.Join(lines, "\n")
}

// TestParseRefuses: a schema can't open files, ask others, or make validation take long.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{}`:                  "is not the schema of an object",
		`true`:                "is not the schema of an object",
		`{"type":["object"]}`: "is not the schema of an object",
		`{"type":"object"`:    "is not JSON",
		`{"type":"object","properties":{"a":{"type":"text"}}}`:                                          "params.properties.a.type: is wrong",
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`:                            "has $ref",
		`{"type":"object","allOf":[{"$ref":"#"}]}`:                                                      "has $ref",
		`{"type":"object","$dynamicRef":"#a"}`:                                                          "has $dynamicRef",
		`{"type":"object","$schema":"file:///etc/passwd"}`:                                              "is not a JSON Schema",
		`{"type":"object","$schema":"https://example.com/schema"}`:                                      "is not a JSON Schema",
		`{"type":"object","properties":{"a":{"pattern":"("}}}`:                                          "params.properties.a.pattern: is wrong",
		`{"type":"object","properties":{"a":{"pattern":"` + strings.Repeat("a", 300) + `"}}}`:           "too many patterns",
		`{"type":"object","allOf":[` + strings.Repeat(`{"pattern":"a"},`, 33) + `{}]}`:                  "too many patterns",
		`{"type":"object","properties":{"a":{"pattern":"(` + strings.Repeat("a?", 123) + `){1000}b"}}}`: "take too long to match",
		`{"type":"object","patternProperties":{"([a-z]{9}[0-9]{9}abcdefghijklmnopqrstuv){100}":{}}}`:    "take too long to match",
		`{"type":"object","allOf":[` + strings.Repeat(`{"pattern":"a{150}"},`, 30) + `{}]}`:             "take too long to match",
		`{"type":"object","allOf":[` + strings.Repeat(`{},`, 3000) + `{}]}`:                             "has too many values",
		`{"type":"object","description":"` + strings.Repeat("x", job.MaxSchemaBytes) + `"}`:             "is too large",
		`{"type":"object","properties":{"a":{"multipleOf":1e-999}}}`:                                    "has a number",
	} {
		_, err := templates.Parse(json.RawMessage(schema))
		var invalid job.Invalid
		if !errors.As(err, &invalid) || !strings.Contains(shown(invalid), want) {
			t.Errorf("%.80s: got %v, want %s", schema, err, want)
		}
	}
	// A parameter may have the name of a keyword.
	if _, err := templates.Parse(json.RawMessage(`{"type":"object","properties":{"$ref":{"type":"string"},"pattern":{"type":"string"}}}`)); err != nil {
		t.Error(err)
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	schema, err := templates.Parse(json.RawMessage(schemaText))
	if err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{
		`{"args":[{"from":"/params/rev"}]}`:                         "spec.args[0].from: points at no parameter",
		`{"env":{"X":{"from":"/body/ref"}}}`:                        "spec.env.X.from: points at no parameter",
		`{"stdin":{"from":"params"}}`:                               "spec.stdin.from: points at no parameter",
		`{"files":[{"name":"a","content":{"from":"/params/a~2"}}]}`: "spec.files[0].content.from: points at no parameter",
		`{"metadata":{"glovebox.template":"x"}}`:                    "spec.metadata.glovebox.template: is Glovebox's",
		`{"metadata":{"glovebox.run":"x"}}`:                         "spec.metadata.glovebox.run: is Glovebox's",
		`{"run_at":"2030-01-01T00:00:00Z"}`:                         "spec.run_at: is one time",
		`{"deadline":"2030-01-01T00:00:00Z"}`:                       "spec.deadline: is one time",
		`{"idempotency_key":"x"}`:                                   "spec.idempotency_key: names one job",
	} {
		_, err := templates.Check(decode[job.TemplateSpec](t, spec), schema)
		var invalid job.Invalid
		if !errors.As(err, &invalid) || !strings.Contains(shown(invalid), want) {
			t.Errorf("%s: got %v, want %s", spec, err, want)
		}
	}
	// A value that is not there is told, not left out: what follows it would move up.
	if _, err := templates.Fill(job.Template{Spec: decode[job.TemplateSpec](t, `{"args":[{"from":"/params/when"},"x"]}`)}, map[string]any{}); err == nil || !strings.Contains(err.Error(), "params.when: is missing") {
		t.Errorf("got %v", err)
	}
}

// TestNames: a name that the schema knows none by, and a lack of what it requires, would have runs refused.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, names, want string }{
		{`{"type":"object","required":["a"],"properties":{"a":{}}}`, "a", ""},
		{`{"type":"object","required":["a"],"properties":{"a":{}}}`, "b", "from.a: is missing"},
		{`{"type":"object","required":["a"],"properties":{"a":{"default":1}}}`, "", ""},
		{`{"type":"object","required":["a"]}`, "", "from.a: is missing"},
		{`{"type":"object","properties":{"a":{}}}`, "b", ""}, // any others are allowed
		{`{"type":"object","additionalProperties":false,"properties":{"a":{}}}`, "b a", "from.b: is no parameter of the template; allowed: a"},
		{`{"type":"object","additionalProperties":false,"patternProperties":{"^b":{}}}`, "b", ""},
		{``, "b", "from.b: is no parameter of the template; allowed: nothing: it has none"},
		{``, "", ""},
	} {
		schema, err := templates.Parse(json.RawMessage(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		names := strings.Fields(c.names)
		got := append(schema.Missing(names), schema.Unknown(names)...).Error()
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s, %q: got %q, want %q", c.schema, c.names, got, c.want)
		}
	}
}

// FuzzParse: no schema and no parameters panic, and what is checked can be filled in.
func FuzzParse(f *testing.F) {
	f.Add(schemaText, `{"ref":"x"}`)
	f.Add(`{"type":"object","properties":{"a":{"uniqueItems":true,"multipleOf":0.1}}}`, `{"a":[1,1.0,1e0]}`)
	f.Add(`{"type":"object","unevaluatedProperties":false}`, `{"a":{"b":1e308}}`)
	f.Fuzz(func(t *testing.T, schemaText, paramsText string) {
		schema, err := templates.Parse(json.RawMessage(schemaText))
		if err != nil {
			var invalid job.Invalid
			if !errors.As(err, &invalid) {
				t.Fatalf("got %v, want job.Invalid", err)
			}
			return
		}
		params, err := schema.Params(json.RawMessage(paramsText))
		if err != nil {
			return
		}
		spec, err := templates.Fill(job.Template{Name: "x", Revision: 1, Spec: job.TemplateSpec{Stdin: job.Value{From: "/params"}}}, params)
		if err != nil || !json.Valid([]byte(spec.Stdin)) {
			t.Errorf("got %q, %v", spec.Stdin, err)
		}
	})
}
