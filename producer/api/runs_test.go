package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const twoSteps = `{"params":{"type":"object","required":["ref"],"properties":{"ref":{"type":"string","maxLength":5}}},
	"steps":{"first":{"runtime":"python","source":"1","args":[{"from":"/params/ref"}]},
		"last":{"runtime":"python","source":"2","needs":["first"],"files":[{"name":"in.txt","from":"/needs/first/artifacts/out.txt"}]}},
	"outputs":{"chart":{"from":"/needs/last/artifacts/plot.png"},"told":{"from":"/needs/first/outputs/told"}}}`

// expecting sends a request, and decodes what is answered.
func (w *world) expecting(t *testing.T, method, path, body string, status int, into any, headers ...string) {
	t.Helper()
	a := w.do(t, method, path, strings.NewReader(body), headers...)
	if a.status != status {
		t.Fatalf("%s %s: got %d %s, want %d", method, path, a.status, a.body, status)
	}
	if into != nil {
		if err := json.Unmarshal(a.body, into); err != nil {
			t.Fatal(err)
		}
	}
}

// advance does what an api's sweeper would.
func (w *world) advance(t *testing.T, id string) {
	t.Helper()
	if err := w.Client.Advance(t.Context(), id, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// TestRuns: a pipeline is started, worked off and canceled, and what it can't be is refused.
func TestRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.expecting(t, "PUT", "/v1/templates/takes", `{"params":{"type":"object","required":["ref"]},"spec":{"runtime":"python","source":"1"}}`, http.StatusOK, nil)
	for body, field := range map[string]string{
		`{}`: "pipeline",
		`{"template":"t","pipeline":` + twoSteps + `}`:                                                         "template",
		`{"pipeline":` + twoSteps + `}`:                                                                        "params",
		`{"pipeline":` + twoSteps + `,"params":{"ref":"too long"}}`:                                            "params.ref",
		`{"pipeline":` + twoSteps + `,"params":{"ref":"x"},"idempotency_key":"ü"}`:                             "idempotency_key",
		`{"pipeline":{"steps":{"a":{"runtime":"cobol","source":"1"}}}}`:                                        "steps.a.runtime",
		`{"pipeline":{"steps":{"a":{"runtime":"python","source":"1","needs":["b"]}}}}`:                         "steps.a.needs[0]",
		`{"pipeline":{"steps":{"a":{"runtime":"python","source":"1","when":"1 +"}}}}`:                          "steps.a.when",
		`{"pipeline":{"steps":{"a":{"template":"takes","from":{"b":"1"}}}}}`:                                   "steps.a.from.ref",
		`{"pipeline":{"steps":{"a":{"template":"nowhere"}}}}`:                                                  "steps.a.template",
		`{"pipeline":{"steps":{"a":{"runtime":"python","source":"1"}},"callback":{"url":"ftp://x"}}}`:          "callback.url",
		`{"pipeline":{"steps":{"a":{"runtime":"python","source":"1"}},"outputs":{"../x":{"from":"/params"}}}}`: "outputs.../x",
	} {
		var p producer.Problem
		w.expecting(t, "POST", "/v1/runs", body, http.StatusUnprocessableEntity, &p)
		if !slices.ContainsFunc(p.Errors, func(f job.FieldError) bool { return f.Field == field }) {
			t.Errorf("%s: got %+v, want an error of %s", body, p.Errors, field)
		}
	}
	w.expecting(t, "POST", "/v1/runs", `{"template":"nowhere"}`, http.StatusNotFound, nil)
	w.expecting(t, "GET", "/v1/runs?cursor=x", "", http.StatusUnprocessableEntity, nil)

	var run, again job.Run
	start := `{"pipeline":` + twoSteps + `,"params":{"ref":"main"}}`
	w.expecting(t, "POST", "/v1/runs", start, http.StatusAccepted, &run, "Idempotency-Key: push-1")
	w.expecting(t, "POST", "/v1/runs", start, http.StatusAccepted, &again, "Idempotency-Key: push-1")
	if run.ID != again.ID || run.Status != job.Running || run.Steps["first"].Status != "waiting" {
		t.Errorf("got %+v and %s", run, again.ID)
	}
	w.expecting(t, "POST", "/v1/runs", strings.Replace(start, "main", "next", 1), http.StatusConflict, nil, "Idempotency-Key: push-1")

	path := "/v1/runs/" + run.ID
	w.advance(t, run.ID)
	w.expecting(t, "GET", path, "", http.StatusOK, &run)
	first := run.Steps["first"].Jobs
	if len(first) != 1 || first[0].Status != "queued" {
		t.Fatalf("got %+v, want a job that is queued", run.Steps)
	}
	j := w.Start(t, first[0].ID)
	if j.Metadata[job.RunKey] != run.ID || j.Metadata[job.StepKey] != "first" || !slices.Equal(j.Spec.Args, []string{"main"}) {
		t.Errorf("got %+v of %v", j.Spec.Args, j.Metadata)
	}
	w.End(t, j, map[string]string{"out.txt": "x", job.OutputsFile: `{"told":{"artifact":"` + j.ID + `/out.txt"}}`}, nil)
	w.advance(t, run.ID)
	w.expecting(t, "GET", path, "", http.StatusOK, &run)
	j = w.Start(t, run.Steps["last"].Jobs[0].ID)
	if len(j.Spec.Files) != 1 || j.Spec.Files[0].Name != "in.txt" {
		t.Errorf("got %+v, want the file of the step before", j.Spec.Files)
	}
	w.End(t, j, map[string]string{"plot.png": "PNG"}, nil)
	w.advance(t, run.ID)
	w.expecting(t, "GET", path, "", http.StatusOK, &run, "Prefer: wait=30")
	var outputs struct {
		Chart struct{ Artifact, URL, SHA256 string }
		Told  map[string]string
	}
	if err := json.Unmarshal(run.Outputs, &outputs); err != nil || run.Status != job.Succeeded || run.FinishedAt == nil || outputs.Chart.Artifact != j.ID+"/plot.png" {
		t.Fatalf("got %+v with %s, %v", run, run.Outputs, err)
	}
	if len(outputs.Told) != 1 { // it only looks like an artifact
		t.Errorf("got %v, want what the job wrote and no URL", outputs.Told)
	}
	res, err := http.Get(outputs.Chart.URL) //nolint:noctx // the test's own server
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("the chart: got %s", res.Status)
	}
	w.expecting(t, "DELETE", path, "", http.StatusConflict, nil)
	for format, want := range map[string]string{"": "flowchart LR\n", "?format=dot": "digraph", "?format=text": "1  first  succeeded"} {
		if a := w.do(t, "GET", path+"/graph"+format, http.NoBody); a.status != http.StatusOK || !strings.HasPrefix(string(a.body), want) {
			t.Errorf("graph%s: got %d %s", format, a.status, a.body)
		}
	}
	w.expecting(t, "GET", path+"/graph?format=svg", "", http.StatusUnprocessableEntity, nil)
	var repeated, same job.Run
	w.expecting(t, "POST", path+"/rerun", `{"from":"last"}`, http.StatusAccepted, &repeated, "Idempotency-Key: again-1")
	w.expecting(t, "POST", path+"/rerun", `{"from":"last"}`, http.StatusAccepted, &same, "Idempotency-Key: again-1")
	if repeated.ID != same.ID || repeated.RerunOf != run.ID {
		t.Errorf("got %s and %s, reruns of %s, want one under the key", repeated.ID, same.ID, repeated.RerunOf)
	}
	w.expecting(t, "POST", path+"/rerun", `{"from":"last","idempotency_key":"again-2"}`, http.StatusUnprocessableEntity, nil, "Idempotency-Key: again-1")

	w.expecting(t, "POST", "/v1/runs", start, http.StatusAccepted, &again)
	w.advance(t, again.ID)
	w.expecting(t, "DELETE", "/v1/runs/"+again.ID, "", http.StatusAccepted, nil)
	w.advance(t, again.ID)
	w.expecting(t, "GET", "/v1/runs/"+again.ID, "", http.StatusOK, &again)
	if again.Status != job.Canceled || again.Reason != "canceled" {
		t.Errorf("got %+v, want it canceled", again)
	}
	var list producer.RunPage
	w.expecting(t, "GET", "/v1/runs", "", http.StatusOK, &list)
	if len(list.Runs) != 3 || list.Runs[0].ID != again.ID || list.Runs[1].ID != repeated.ID || list.Runs[2].Status != job.Succeeded || list.Runs[2].FinishedAt == nil {
		t.Errorf("got %+v", list)
	}
}

// TestHookOfATemplateAway: a delivery that came while a hook's template was not there starts what the template is once it is back.
func TestHookOfATemplateAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	const stored = `{"pipeline":{"steps":{"only":{"runtime":"python","source":"1"}}}}`
	w.expecting(t, "PUT", "/v1/templates/report", stored, http.StatusOK, nil)
	var hook producer.NewHook
	w.expecting(t, "POST", "/v1/hooks", `{"template":"report","sender":"github","secret":"`+hookSecret+`"}`, http.StatusCreated, &hook)
	if a := w.do(t, "DELETE", "/v1/templates/report", http.NoBody); a.status >= 300 {
		t.Fatalf("delete: got %d %s", a.status, a.body)
	}
	if a := w.github(t, "/v1/hooks/"+hook.ID, hookSecret, "one", `{}`); a.status != http.StatusUnprocessableEntity {
		t.Fatalf("without the template: got %d %s", a.status, a.body)
	}
	w.expecting(t, "PUT", "/v1/templates/report", stored, http.StatusOK, nil)
	var said producer.HookAccepted
	if a := w.github(t, "/v1/hooks/"+hook.ID, hookSecret, "one", `{}`); json.Unmarshal(a.body, &said) != nil || said.RunID == "" || said.Duplicate {
		t.Errorf("got %d %s, want a run", a.status, a.body)
	}
}

// TestStoredPipeline: a template that is a pipeline is started by name, by a hook and by a schedule, and makes no job.
func TestStoredPipeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.Secrets(t)
	var p producer.Problem
	for body, field := range map[string]string{
		`{"spec":{"runtime":"python","source":"1"},"pipeline":{"steps":{"a":{"runtime":"python","source":"1"}}}}`: "spec",
		`{"pipeline":{"params":{"type":"object"},"steps":{"a":{"runtime":"python","source":"1"}}}}`:               "pipeline.params",
		`{"pipeline":{"steps":{"a":{"runtime":"python","source":"1","args":[{"from":"/params/x"}]}}}}`:            "pipeline.steps.a.args[0].from",
	} {
		w.expecting(t, "PUT", "/v1/templates/report", body, http.StatusUnprocessableEntity, &p)
		if len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: got %+v, want an error of %s", body, p.Errors, field)
		}
	}
	const schema = `{"type":"object","required":["ref"],"properties":{"ref":{"type":"string","maxLength":5}}}`
	const stored = `{"params":` + schema + `,"pipeline":{"steps":{"only":{"runtime":"python","source":"1","args":[{"from":"/params/ref"}]}}}}`
	var template job.Template
	w.expecting(t, "PUT", "/v1/templates/report", stored, http.StatusOK, nil)
	w.expecting(t, "GET", "/v1/templates/report", "", http.StatusOK, &template)
	if template.Pipeline == nil || template.Revision != 1 {
		t.Fatalf("got %+v", template)
	}
	var run job.Run
	w.expecting(t, "POST", "/v1/runs", `{"template":"report","params":{"ref":"main"},"metadata":{"project":"atlas"}}`, http.StatusAccepted, &run)
	if run.Template != "report@1" || run.Pipeline != "report" || run.Metadata["project"] != "atlas" {
		t.Errorf("got %+v", run)
	}
	var runs producer.RunPage
	w.expecting(t, "GET", "/v1/runs", "", http.StatusOK, &runs)
	if len(runs.Runs) != 1 || runs.Runs[0].Metadata["project"] != "atlas" {
		t.Errorf("got %+v", runs)
	}
	w.expecting(t, "POST", "/v1/runs", `{"template":"report","params":{"ref":"main"},"metadata":{"":"x"}}`, http.StatusUnprocessableEntity, &p)
	if len(p.Errors) != 1 || p.Errors[0].Field != "metadata" {
		t.Errorf("got %+v", p.Errors)
	}
	w.expecting(t, "POST", "/v1/templates/report/run", `{"params":{"ref":"main"}}`, http.StatusUnprocessableEntity, nil)
	w.expecting(t, "POST", "/v1/runs", `{"pipeline":{"steps":{"a":{"template":"report","from":{"ref":"x"}}}}}`, http.StatusUnprocessableEntity, nil)

	for body, field := range map[string]string{`"body":"stdin"`: "body", `"answer":"result"`: "answer"} {
		w.expecting(t, "POST", "/v1/hooks", `{"template":"report","sender":"github","secret":"`+hookSecret+`",`+body+`}`, http.StatusUnprocessableEntity, &p)
		if len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: got %+v", body, p.Errors)
		}
	}
	var hook producer.NewHook
	w.expecting(t, "POST", "/v1/hooks", `{"template":"report","sender":"github","secret":"`+hookSecret+`","from":{"ref":"/body/ref"}}`, http.StatusCreated, &hook)
	deliver := func(delivery, body string) (said producer.HookAccepted) {
		t.Helper()
		a := w.github(t, "/v1/hooks/"+hook.ID, hookSecret, delivery, body)
		if err := json.Unmarshal(a.body, &said); err != nil || a.status != http.StatusAccepted {
			t.Fatalf("got %d %s, %v", a.status, a.body, err)
		}
		return said
	}
	first, same := deliver("one", `{"ref":"main"}`), deliver("one", `{"ref":"main"}`)
	if first.RunID == "" || first.JobID != "" || first.Duplicate || same.RunID != first.RunID || !same.Duplicate {
		t.Errorf("got %+v and %+v, want one run", first, same)
	}
	w.expecting(t, "GET", "/v1/runs/"+first.RunID, "", http.StatusOK, &run)
	if run.Template != "report@1" || !strings.Contains(string(run.Params), `"main"`) || run.Metadata[job.HookKey] != hook.ID || run.Metadata[job.DeliveryKey] != "one" {
		t.Errorf("got %+v with %s", run, run.Params)
	}
	if a := w.github(t, "/v1/hooks/"+hook.ID, hookSecret, "two", `{"ref":"too long"}`); a.status != http.StatusUnprocessableEntity {
		t.Errorf("parameters that the schema refuses: got %d %s", a.status, a.body)
	}
	var told producer.HookDeliveryList
	w.expecting(t, "GET", "/v1/hooks/"+hook.ID+"/deliveries", "", http.StatusOK, &told)
	if len(told.Deliveries) != 3 || told.Deliveries[0].Outcome != job.DeliveryRefused || told.Deliveries[1].Run != first.RunID || told.Deliveries[2].Run != first.RunID {
		t.Errorf("got %+v", told)
	}

	w.expecting(t, "PUT", "/v1/schedules/nightly", `{"template":"report","cron":"* * * * *","params":{"ref":"x"},"callback":{"url":"https://example.com/"}}`, http.StatusUnprocessableEntity, nil)
	var sc job.Schedule
	w.expecting(t, "PUT", "/v1/schedules/nightly", `{"template":"report","cron":"* * * * *","params":{"ref":"x"},"metadata":{"k":"v"}}`, http.StatusOK, &sc)
	due := *sc.NextAt
	if err := w.Client.Fire(t.Context(), "nightly", due); err != nil {
		t.Fatal(err)
	}
	w.expecting(t, "GET", "/v1/schedules/nightly", "", http.StatusOK, &sc)
	w.expecting(t, "GET", "/v1/runs/"+sc.LastRun, "", http.StatusOK, &run)
	if sc.LastJob != "" || run.Status != job.Running || run.Metadata["k"] != "v" || run.Metadata[job.ScheduleKey] != "nightly" || run.Metadata[job.FireKey] == "" {
		t.Errorf("got %+v and %+v", sc, run)
	}
	if err := w.Client.Fire(t.Context(), "nightly", due.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var fires producer.FireList
	w.expecting(t, "GET", "/v1/schedules/nightly/fires", "", http.StatusOK, &fires)
	if len(fires.Fires) != 2 || fires.Fires[0].Outcome != job.FireSkipped || fires.Fires[1].Run != sc.LastRun {
		t.Errorf("got %+v, want the second fire skipped as the run has not ended", fires.Fires)
	}
}

// TestRunLocation: answers that hold a run say where it is, as those that hold a job do.
func TestRunLocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	var path string
	for _, c := range []struct {
		name, method, below, body string
		status                    int
		headers                   []string
	}{
		{"start", "POST", "", `{"pipeline":` + twoSteps + `,"params":{"ref":"main"}}`, http.StatusAccepted, nil},
		{"get", "GET", "", "", http.StatusOK, nil},
		{"get, held", "GET", "", "", http.StatusAccepted, []string{"Prefer: wait=1"}},
		{"cancel", "DELETE", "", "", http.StatusAccepted, nil},
		{"rerun", "POST", "/rerun", `{}`, http.StatusAccepted, nil},
		{"start, held", "POST", "", `{"pipeline":` + twoSteps + `,"params":{"ref":"main"}}`, http.StatusAccepted, []string{"Prefer: wait=1"}},
	} {
		at := path + c.below
		if c.method == "POST" && c.below == "" {
			at = "/v1/runs"
		}
		if c.name == "rerun" {
			w.advance(t, strings.TrimPrefix(path, "/v1/runs/")) // the canceled run ends
		}
		a := w.do(t, c.method, at, strings.NewReader(c.body), c.headers...)
		var run job.Run
		if err := json.Unmarshal(a.body, &run); err != nil || a.status != c.status || a.header.Get("Location") != "/v1/runs/"+run.ID {
			t.Fatalf("%s: got %d at %q, %s, %v", c.name, a.status, a.header.Get("Location"), a.body, err)
		}
		path = "/v1/runs/" + run.ID
	}
}
