package pipelines_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/pipelines"
	"github.com/glovebox-run/glovebox/job"
)

const report = `{"pipeline":"report",
	"params":{"type":"object","properties":{"ref":{"type":"string","default":"main"},"cities":{"type":"array","items":{"type":"string"},"default":["Rome","Oslo"]}}},
	"deadline_seconds":600,
	"steps":{
		"fetch":{"runtime":"python","source":"x","args":[{"from":"/params/ref"}]},
		"parse":{"needs":["fetch"],"each":{"artifacts":"fetch","match":"*.csv"},"parallel":2,"runtime":"python","source":"x",
			"files":[{"name":"in.csv","from":"/item"},{"name":"n","content":{"from":"/index"}}],"args":[{"from":"/item/name"}],"retry":{"max":2,"on":["failed"],"delay_seconds":5}},
		"city":{"needs":["fetch"],"each":{"from":"/params/cities"},"runtime":"python","source":"x","args":[{"from":"/item"}]},
		"chart":{"needs":["parse"],"runtime":"python","source":"x","files":[{"artifacts":"parse","under":"parts"}],"stdin":{"from":"/needs/parse/outputs/1/rows"}},
		"alarm":{"needs":["parse"],"when":"needs.parse.failed > 0 && params.ref == 'main'","runtime":"python","source":"x"}},
	"outputs":{"chart":{"from":"/needs/chart/artifacts/plot.png"}}}`

func decode(tb testing.TB, text string) (p job.Pipeline) {
	tb.Helper()
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		tb.Fatal(err)
	}
	return p
}

func parse(tb testing.TB, text string) *pipelines.Definition {
	tb.Helper()
	d, err := pipelines.Parse(decode(tb, text))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// TestParseRefuses: each fault names its field, and none hides another.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, steps, field, message string }{
		{"no step", `{}`, "steps", "is a number of steps that no pipeline has"},
		{"name", `{"A-b":{}}`, "steps.A-b", "is no step's name"},
		{"unknown need", `{"a":{"needs":["b"]}}`, "steps.a.needs[0]", "is no step"},
		{"need twice", `{"b":{},"a":{"needs":["b","b"]}}`, "steps.a.needs[1]", "appears more than once"},
		{"itself", `{"a":{"needs":["a"]}}`, "steps.a.needs", "is a cycle"},
		{"cycle", `{"a":{"needs":["c"]},"b":{"needs":["a"]},"c":{"needs":["b"]}}`, "steps.b.needs", "is a cycle"},
		{"when of no need", `{"b":{},"a":{"when":"needs.b.failed > 0"}}`, "steps.a.when", "undeclared reference"},
		{"when of a type", `{"b":{},"a":{"needs":["b"],"when":"needs.b.failed"}}`, "steps.a.when", "is of type int"},
		{"when of words", `{"a":{"when":"1 +"}}`, "steps.a.when", "is no expression"},
		{"when compares", `{"b":{},"a":{"needs":["b"],"when":"needs.b.status > 3"}}`, "steps.a.when", "no matching overload"},
		{"pointer", `{"a":{"args":[{"from":"/params/other"}]}}`, "steps.a.args[0].from", "points at nothing"},
		{"pointer to no need", `{"b":{},"a":{"stdin":{"from":"/needs/b/status"}}}`, "steps.a.stdin.from", "points at nothing"},
		{"item without each", `{"a":{"args":[{"from":"/item"}]}}`, "steps.a.args[0].from", "points at nothing"},
		{"each of two", `{"b":{},"a":{"needs":["b"],"each":{"from":"/params/list","artifacts":"b"}}}`, "steps.a.each", "has not one of"},
		{"each of no need", `{"b":{},"a":{"each":{"artifacts":"b"}}}`, "steps.a.each.artifacts", "is no step that this one needs"},
		{"pattern", `{"b":{},"a":{"needs":["b"],"each":{"artifacts":"b","match":"[x"}}}`, "steps.a.each.match", "is no pattern"},
		{"parallel", `{"a":{"parallel":2}}`, "steps.a.parallel", "is for a step with each"},
		{"retry", `{"a":{"retry":{"max":11}}}`, "steps.a.retry.max", "is out of range"},
		{"retry on", `{"a":{"retry":{"max":1,"on":["canceled"]}}}`, "steps.a.retry.on[0]", "is no end after which"},
		{"template beside source", `{"a":{"template":"t","source":"x"}}`, "steps.a.source", "is beside template"},
		{"template beside files", `{"a":{"template":"t","files":[{"name":"x","content":"1"}]}}`, "steps.a.files", "is beside template"},
		{"template beside args", `{"a":{"template":"t","args":["x"]}}`, "steps.a.args", "is beside template"},
		{"template beside limits", `{"a":{"template":"t","limits":{"wall_ms":1}}}`, "steps.a.limits", "is beside template"},
		{"template beside metadata", `{"a":{"template":"t","metadata":{"x":"y"}}}`, "steps.a.metadata", "is beside template"},
		{"template beside callback", `{"a":{"template":"t","callback":{"url":"https://x.example/"}}}`, "steps.a.callback", "is beside template"},
		{"template beside secrets", `{"a":{"template":"t","secrets":["X"]}}`, "steps.a.secrets", "is beside template"},
		{"template beside run_at", `{"a":{"template":"t","run_at":"2030-01-01T00:00:00Z"}}`, "steps.a.run_at", "is beside template"},
		{"from without template", `{"a":{"from":{"x":"y"}}}`, "steps.a.from", "is for a template's parameters"},
		{"idempotency key", `{"a":{"idempotency_key":"k"}}`, "steps.a.idempotency_key", "is for a job of its own"},
		{"metadata", `{"a":{"metadata":{"glovebox.run":"x"}}}`, "steps.a.metadata.glovebox.run", "is Glovebox's"},
		{"file from outputs", `{"b":{},"a":{"needs":["b"],"files":[{"name":"x","from":"/needs/b/outputs/file"}]}}`, "steps.a.files[0].from", "points at no artifact"},
		{"file from an item of a list", `{"a":{"each":{"from":"/params/list"},"files":[{"name":"x","from":"/item"}]}}`, "steps.a.files[0].from", "points at no artifact"},
		{"under", `{"b":{},"a":{"needs":["b"],"files":[{"artifacts":"b","under":"../x"}]}}`, "steps.a.files[0].under", "is not a plain path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := decode(t, `{"params":{"type":"object","properties":{"list":{"type":"array"}}},"steps":`+tt.steps+`}`)
			_, err := pipelines.Parse(p)
			var invalid job.Invalid
			if !errors.As(err, &invalid) {
				t.Fatalf("got %v, want job.Invalid", err)
			}
			for _, f := range invalid {
				if f.Field == tt.field && strings.Contains(f.Message, tt.message) && f.Allowed != "" {
					return
				}
			}
			t.Errorf("got %v, want a fault of %s that says %q", err, tt.field, tt.message)
		})
	}
	_, err := pipelines.Parse(decode(t, `{"deadline_seconds":-1,"steps":{"a":{"needs":["b"],"args":[{"from":"/x"}]}},"outputs":{"o":{"from":"/needs/z/status"}}}`))
	var invalid job.Invalid
	if errors.As(err, &invalid); len(invalid) != 4 {
		t.Errorf("got %d faults, want all 4: %v", len(invalid), err)
	}
}

// TestWhenCost: an expression that calculates for long fails its step.
func TestWhenCost(t *testing.T) {
	t.Parallel()
	list := make([]any, 200)
	for i := range list {
		list[i] = json.Number(fmt.Sprint(i))
	}
	d := parse(t, `{"params":{"type":"object","properties":{"l":{"type":"array"}}},"steps":{"a":{"runtime":"python","source":"x","when":"params.l.all(a, params.l.all(b, params.l.all(c, a + b + c >= 0)))"}}}`)
	v := d.Decide("a", pipelines.State{}, pipelines.Context{Params: map[string]any{"l": list}}, 0)
	if v.Word != pipelines.Fail || !strings.Contains(v.Why, "cost limit") {
		t.Errorf("got %+v, want a failure for its cost", v)
	}
}

// TestAllowCanceled: what needs a step that may fail begins where a job of it was canceled, as the run has succeeded then.
func TestAllowCanceled(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"steps":{"b":{"runtime":"python","source":"x","allow_failure":true},"a":{"needs":["b"],"runtime":"python","source":"x"}}}`)
	s := pipelines.State{Steps: map[string]pipelines.StepState{"b": {
		Verdict: pipelines.Verdict{Word: pipelines.Begin, Count: 1}, Items: map[int]pipelines.Item{0: {Try: 1, Status: job.Canceled}},
	}}}
	if v := d.Decide("a", s, pipelines.Context{}, 1); v.Word != pipelines.Begin {
		t.Errorf("got %+v, want it begun", v)
	}
	s.Cancel = true
	if actions := pipelines.Next(d.Pipeline, s); len(actions) != 1 || actions[0].Do != pipelines.End {
		t.Errorf("got %+v of a run that was canceled, want its end", actions)
	}
}

// TestItemsBounded: what a step fans out over may be as large as what a step before may leave, and no larger.
func TestItemsBounded(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"params":{"type":"object","properties":{"l":{"type":"array"}}},"steps":{"a":{"runtime":"python","source":"x","each":{"from":"/params/l"}}}}`)
	for each, word := range map[int]string{4000: pipelines.Begin, 5000: pipelines.Fail} {
		c := pipelines.Context{Params: map[string]any{"l": slices.Repeat([]any{strings.Repeat("x", each)}, job.MaxEach)}}
		if v := d.Decide("a", pipelines.State{}, c, 0); v.Word != word {
			t.Errorf("%d items of %d bytes: got %s %s, want %s", job.MaxEach, each, v.Word, v.Why, word)
		}
	}
}

// TestDecide: the order is needs, when, each; whatever begins nothing says why.
func TestDecide(t *testing.T) {
	t.Parallel()
	failed := pipelines.State{Steps: map[string]pipelines.StepState{"b": {Verdict: pipelines.Verdict{Word: pipelines.Fail}}}}
	tests := []struct{ name, step, word, why string }{
		{"need failed", `{"needs":["b"]}`, pipelines.Skip, "b, which it needs, is failed"},
		{"when in its place", `{"needs":["b"],"when":"needs.b.status == 'failed'"}`, pipelines.Begin, ""},
		{"when is false", `{"needs":["b"],"when":"needs.b.count > 1"}`, pipelines.Skip, "when is false: needs.b.count > 1"},
		{"when fails", `{"needs":["b"],"when":"needs.b.outputs.x == 1"}`, pipelines.Fail, "when: "},
		{"skipped before each", `{"needs":["b"],"each":{"from":"/needs/b/outputs/list"}}`, pipelines.Skip, "b, which it needs, is failed"},
		{"each is missing", `{"needs":["b"],"when":"true","each":{"from":"/needs/b/outputs/list"}}`, pipelines.Fail, "each: /needs/b/outputs/list is missing"},
		{"each is no list", `{"each":{"from":"/params/text"}}`, pipelines.Fail, "each: /params/text is no list"},
		{"each is too long", `{"each":{"from":"/params/long"}}`, pipelines.Fail, "there are 257 items"},
		{"each is empty", `{"each":{"from":"/params/empty"}}`, pipelines.Begin, ""},
	}
	params := map[string]any{"text": "x", "long": make([]any, 257), "empty": []any{}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, `{"params":{"type":"object","properties":{"text":{},"long":{},"empty":{}}},"steps":{"b":{"runtime":"python","source":"x"},"a":`+tt.step+`}}`)
			c := pipelines.Context{Params: params, Needs: map[string]pipelines.Need{"b": failed.Need(d.Pipeline, "b")}}
			v := d.Decide("a", failed, c, 0)
			if v.Word != tt.word || !strings.Contains(v.Why, tt.why) {
				t.Errorf("got %+v, want %s: %s", v, tt.word, tt.why)
			}
		})
	}
	for step, word := range map[string]string{`"when":"needs.b.outputs.x == 1"`: pipelines.Fail, `"when":"needs.b.count == 1"`: pipelines.Begin, `"when":"true","stdin":{"from":"/needs/b/outputs/x"}`: pipelines.Fail} {
		d := parse(t, `{"steps":{"b":{"runtime":"python","source":"x"},"a":{"needs":["b"],`+step+`}}}`)
		need := failed.Need(d.Pipeline, "b")
		need.Count, need.Jobs = 1, []pipelines.Ended{{Fault: "outputs.json is no JSON object"}}
		v := d.Decide("a", failed, pipelines.Context{Needs: map[string]pipelines.Need{"b": need}}, 0)
		if v.Word != word || word == pipelines.Fail && v.Why != "b: outputs.json is no JSON object (job 1 of 1)" {
			t.Errorf("%s: got %+v, want %s", step, v, word)
		}
	}
	d := parse(t, `{"steps":{"a":{}}}`)
	if v := d.Decide("a", pipelines.State{}, pipelines.Context{}, job.MaxRunJobs); v.Word != pipelines.Fail {
		t.Errorf("got %+v, want a failure: the run has too many jobs", v)
	}
}

// TestGraph shows a run under way in each format.
func TestGraph(t *testing.T) {
	t.Parallel()
	d := parse(t, report)
	s := pipelines.State{Steps: map[string]pipelines.StepState{
		"fetch": {Verdict: pipelines.Verdict{Word: pipelines.Begin, Count: 1}, Items: map[int]pipelines.Item{0: {Try: 1, Status: job.Succeeded}}},
		"parse": {Verdict: pipelines.Verdict{Word: pipelines.Begin, Count: 3}, Items: map[int]pipelines.Item{0: {Try: 1, Status: job.Succeeded}, 1: {Try: 1, Status: job.Running}}},
		"city":  {Verdict: pipelines.Verdict{Word: pipelines.Skip, Why: "when is false:\x1b[2J x"}},
	}}
	want := `1  fetch  succeeded
2  city   skipped  needs fetch  (when is false: [2J x)
2  parse  running 1/3  needs fetch
3  alarm  waiting  needs parse
3  chart  waiting  needs parse
`
	if diff := cmp.Diff(want, pipelines.Graph(d.Pipeline, s, pipelines.Text)); diff != "" {
		t.Error(diff)
	}
	for format, lines := range map[pipelines.Format][]string{
		pipelines.Mermaid: {"flowchart LR\n", `  s_parse["parse<br/>running 1/3"]:::running`, "  s_fetch --> s_parse\n", "  classDef failed fill:#d55e00,color:#000\n"},
		pipelines.Dot:     {"digraph pipeline {\n", `  s_parse [label="parse\nrunning 1/3" fillcolor="#56b4e9"]`, "  s_fetch -> s_parse\n"},
	} {
		text := pipelines.Graph(d.Pipeline, s, format)
		for _, line := range lines {
			if !strings.Contains(text, line) {
				t.Errorf("%s: got\n%s\nwant a line %q", format, text, line)
			}
		}
	}
}

// TestKept: what a repetition takes over is what has succeeded or was not to run, and follows from nothing that runs again.
func TestKept(t *testing.T) {
	t.Parallel()
	p := decode(t, `{"steps":{
		"a":{"runtime":"python","source":"x"},
		"b":{"needs":["a"],"runtime":"python","source":"x"},
		"c":{"needs":["b"],"when":"false","runtime":"python","source":"x"},
		"d":{"needs":["b","c"],"runtime":"python","source":"x"},
		"e":{"runtime":"python","source":"x"}}}`)
	begun := func(status job.Status) pipelines.StepState {
		return pipelines.StepState{Verdict: pipelines.Verdict{Word: pipelines.Begin, Count: 1}, Items: map[int]pipelines.Item{0: {Try: 1, Status: status}}}
	}
	skipped := pipelines.StepState{Verdict: pipelines.Verdict{Word: pipelines.Skip}}
	for _, c := range []struct {
		from, b, kept, fault string
		cancel               bool
	}{
		{b: "failed", kept: "a e"},
		{b: "timed_out", kept: "a e"},
		{b: "failed", from: "e", kept: "a"},
		{b: "succeeded", from: "b", kept: "a e"},
		{b: "succeeded", from: "d", kept: "a b c e"},
		{b: "succeeded", from: "a", kept: "e"},
		{b: "canceled", kept: "a e", cancel: true},
		{b: "succeeded", fault: "is missing, and every step has succeeded or was not to run"},
		{b: "failed", from: "x", fault: "is no step of the run's pipeline"},
	} {
		s := pipelines.State{Cancel: c.cancel, Steps: map[string]pipelines.StepState{"a": begun(job.Succeeded), "b": begun(job.Status(c.b)), "c": skipped, "d": skipped, "e": begun(job.Succeeded)}}
		kept, err := pipelines.Kept(p, s, c.from)
		var faults job.Invalid
		if errors.As(err, &faults) != (c.fault != "") || c.fault != "" && faults[0].Message != c.fault {
			t.Errorf("%+v: got %v", c, err)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(kept)), " "); got != c.kept {
			t.Errorf("%+v: got %q kept", c, got)
		}
	}
}

// TestReads: what of its needs a step reads is what its expression and its pointers say, however they are written, and nothing that its
// program's text happens to have.
func TestReads(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"steps":{
		"a":{"runtime":"python","source":"x"},
		"ba":{"runtime":"python","source":"x"},
		"spaced":{"needs":["a","ba"],"when":"has(needs.ba .outputs. files)","runtime":"python","source":"x"},
		"lines":{"needs":["a","ba"],"when":"needs.ba\n  .outputs.n > 1","runtime":"python","source":"x"},
		"text":{"needs":["a","ba"],"when":"params.x == 'needs.a.outputs'","runtime":"python","source":"open('/needs/a/outputs/n')"},
		"points":{"needs":["a","ba"],"runtime":"python","source":"x","args":[{"from":"/needs/a/outputs/n"}]}},
		"params":{"type":"object","properties":{"x":{"type":"string"}}}}`)
	for step, want := range map[string]string{"spaced": "ba", "lines": "ba", "text": "", "points": "a"} {
		got := ""
		for _, need := range []string{"a", "ba"} {
			if d.Reads(step, need) {
				got += need
			}
		}
		if got != want {
			t.Errorf("%s: reads %q, want %q", step, got, want)
		}
	}
}

// TestPointersBounded: what pointers find together is bounded, as each may find the same MiB.
func TestPointersBounded(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"params":{"type":"object","properties":{"x":{"type":"string"}}},"steps":{"a":{"template":"t","from":{"p":{"from":"/params/x"},"q":{"from":"/params/x"}}}},"outputs":{"p":{"from":"/params/x"},"q":{"from":"/params/x"}}}`)
	known := pipelines.Context{Params: map[string]any{"x": strings.Repeat("x", 40<<10)}}
	one := `{"p":"` + strings.Repeat("x", 40<<10) + `"}`
	if got, left := d.Outputs(slices.Values([]pipelines.Context{known}), 64<<10); string(got) != one || !slices.Equal(left, []string{"q"}) {
		t.Errorf("got outputs of %d bytes, and %q left out, want the first alone", len(got), left)
	}
	if got, left := d.Outputs(slices.Values([]pipelines.Context{known}), 128<<10); len(got) < 80<<10 || left != nil {
		t.Errorf("got outputs of %d bytes, and %q left out, want both", len(got), left)
	}
	if got, left := d.Outputs(slices.Values([]pipelines.Context{known}), len(one)); len(got) > len(one) || len(left) == 0 {
		t.Errorf("got outputs of %d bytes, want at most %d", len(got), len(one))
	}
	if got, left := d.Outputs(slices.Values([]pipelines.Context{known}), 100); string(got) != "{}" || len(left) != 2 {
		t.Errorf("got outputs %s, and %q left out, want none", got, left)
	}
	if got, left := d.Outputs(slices.Values([]pipelines.Context{{}, known, {}}), 128<<10); len(got) < 80<<10 || left != nil {
		t.Errorf("got outputs of %d bytes, and %q left out, of three contexts, want both", len(got), left)
	}
	var faults job.Invalid
	if _, err := d.TemplateParams("a", pipelines.Verdict{}, 0, known); !errors.As(err, &faults) || faults[0].Message != "point at too much" {
		t.Errorf("got %v", err)
	}
	many := decode(t, `{"steps":{"a":{"runtime":"python","source":"x"}}}`)
	many.Outputs = map[string]job.Value{}
	for i := range job.MaxPointers + 1 {
		many.Outputs[fmt.Sprint("o", i)] = job.Value{Text: "x"}
	}
	if _, err := pipelines.Parse(many); !errors.As(err, &faults) || faults[0].Field != "outputs" {
		t.Errorf("got %v", err)
	}
}
