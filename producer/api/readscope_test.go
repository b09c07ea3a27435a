package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestArtifactsNeedRead walks every route by which files come: a token without the scope read gives nothing of what another job made to a
// job, an execution, a step, or what starts by itself.
func TestArtifactsNeedRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.tenant(t, "acme", job.Terms{})
	all := as(w.token(t, producer.TokenRequest{}).Secret)
	submits := as(w.token(t, producer.TokenRequest{Scopes: []job.Scope{job.ScopeSubmit}}).Secret)
	manages := as(w.token(t, producer.TokenRequest{Scopes: []job.Scope{job.ScopeManage, job.ScopeSubmit}}).Secret)
	var made job.Summary
	w.expecting(t, "POST", "/v1/jobs", `{"runtime":"python","source":"1"}`, http.StatusAccepted, &made, all)
	w.End(t, w.Start(t, made.ID), map[string]string{"a.csv": "secret"}, nil)
	var x job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python"}`, http.StatusAccepted, &x, all)
	uses := `"runtime":"python","source":"1","files":[{"name":"x","artifact":"` + made.ID + `/a.csv"}]`
	w.expecting(t, "PUT", "/v1/templates/job", `{"spec":{`+uses+`}}`, http.StatusOK, nil, all)
	w.expecting(t, "PUT", "/v1/templates/line", `{"pipeline":{"steps":{"a":{`+uses+`}}}}`, http.StatusOK, nil, all)
	w.expecting(t, "PUT", "/v1/templates/nested", `{"pipeline":{"steps":{"a":{"template":"job"}}}}`, http.StatusOK, nil, all)
	var run job.Run
	w.expecting(t, "POST", "/v1/runs", `{"template":"line"}`, http.StatusAccepted, &run, all)
	var canceled job.Run
	w.expecting(t, "DELETE", "/v1/runs/"+run.ID, ``, http.StatusAccepted, &canceled, submits)
	if canceled.ID != run.ID || canceled.Status != job.Running || canceled.CreatedAt.IsZero() || canceled.Template != "" || len(canceled.Steps) != 0 || canceled.Params != nil {
		t.Errorf("who may not read, and cancels a run, is told %+v", canceled)
	}
	w.advance(t, run.ID)
	if a := w.do(t, "POST", "/v1/runs/"+run.ID+"/rerun", strings.NewReader(`{}`), submits); a.status != http.StatusForbidden {
		t.Errorf("rerun: got %d %s, want 403", a.status, a.body)
	}
	w.expecting(t, "POST", "/v1/runs/"+run.ID+"/rerun", `{}`, http.StatusAccepted, nil, all)
	w.expecting(t, "PUT", "/v1/schedules/job", `{"template":"job","cron":"0 0 1 1 *"}`, http.StatusOK, nil, all)
	hook := `,"sender":"github","secret":"` + hookSecret + `"}`
	for _, r := range []struct{ method, path, body, token string }{
		{"POST", "/v1/jobs", `{` + uses + `}`, submits},
		{"POST", "/v1/sessions/" + x.ID + "/execute", `{"code":"1",` + uses[strings.Index(uses, `"files"`):] + `}`, submits},
		{"POST", "/v1/templates/job/run", `{}`, submits},
		{"POST", "/v1/schedules/job/run", ``, submits},
		{"POST", "/v1/runs", `{"pipeline":{"steps":{"a":{` + uses + `}}}}`, submits},
		{"POST", "/v1/runs", `{"pipeline":{"steps":{"a":{"template":"job"}}}}`, submits},
		{"POST", "/v1/runs", `{"template":"line"}`, submits},
		{"POST", "/v1/runs", `{"template":"nested"}`, submits},
		{"PUT", "/v1/templates/mine", `{"spec":{` + uses + `}}`, manages},
		{"PUT", "/v1/templates/mine", `{"pipeline":{"steps":{"a":{` + uses + `}}}}`, manages},
		{"PUT", "/v1/schedules/mine", `{"template":"job","cron":"0 0 1 1 *"}`, manages},
		{"PUT", "/v1/schedules/mine", `{"template":"nested","cron":"0 0 1 1 *"}`, manages},
		{"POST", "/v1/hooks", `{"template":"job"` + hook, manages},
		{"POST", "/v1/hooks", `{"template":"line"` + hook, manages},
		{"POST", "/v1/hooks", `{"template":"nested"` + hook, manages},
	} {
		a := w.do(t, r.method, r.path, strings.NewReader(r.body), r.token)
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "needs a token with the scope read") {
			t.Errorf("%s %s %s: got %d %s, want 422", r.method, r.path, r.body, a.status, a.body)
		}
		if a := w.do(t, r.method, r.path, strings.NewReader(r.body), all); a.status >= 300 {
			t.Errorf("%s %s %s, with the scope read: got %d %s", r.method, r.path, r.body, a.status, a.body)
		}
	}
	if _, b, _ := w.batch(t, "application/x-ndjson", fmt.Sprintf("{%s}\n", uses), submits); b.Rejected != 1 || !strings.Contains(b.Errors[0].Message, "the scope read") {
		t.Errorf("a batch: got %+v", b)
	}
}

// TestCancelWithoutRead: a token without the scope read that cancels what others submitted is told where that stands, and nothing of what it left.
func TestCancelWithoutRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.tenant(t, "acme", job.Terms{})
	all := as(w.token(t, producer.TokenRequest{}).Secret)
	submits := as(w.token(t, producer.TokenRequest{Scopes: []job.Scope{job.ScopeSubmit}}).Secret)
	const hidden = "hidden"
	var made job.Summary
	w.expecting(t, "POST", "/v1/jobs", `{"runtime":"python","source":"1","metadata":{"k":"hidden"}}`, http.StatusAccepted, &made, all)
	started := w.Start(t, made.ID)
	cancel := func(status int) {
		t.Helper()
		a := w.do(t, "DELETE", "/v1/jobs/"+made.ID, http.NoBody, submits)
		var j producer.Job
		if err := json.Unmarshal(a.body, &j); err != nil || a.status != status || j.ID != made.ID || j.Timing.CreatedAt.IsZero() || strings.Contains(string(a.body), hidden) {
			t.Errorf("job: got %d %s, %v, want %d and no more than id, status and times", a.status, a.body, err, status)
		}
	}
	cancel(http.StatusAccepted)
	w.End(t, started, map[string]string{"hidden.csv": "1"}, func(r *job.Result) { r.Status, r.ExitCode, r.Stdout = job.Canceled, nil, hidden })
	cancel(http.StatusOK)
	if a := w.do(t, "DELETE", "/v1/jobs/"+made.ID, http.NoBody, all); a.status != http.StatusOK || !strings.Contains(string(a.body), "hidden.csv") {
		t.Errorf("job, with the scope read: got %d %s, want all of it", a.status, a.body)
	}

	const options = `{"batch":{"idempotency_key":"theirs","metadata":{"k":"hidden"}}}` + "\n"
	_, b, _ := w.batch(t, producer.LinesMediaType, options+line+line+`{"runtime":"hidden","source":"1"}`, all)
	w.End(t, w.Start(t, job.ItemID(b.ID, 0)), nil, nil)
	a := w.do(t, "DELETE", "/v1/batches/"+b.ID, http.NoBody, submits)
	var got job.Batch
	if err := json.Unmarshal(a.body, &got); err != nil || a.status != http.StatusOK || got.ID != b.ID || got.Status != job.BatchCanceled || got.Counts[job.Succeeded] != 1 ||
		got.FinishedAt == nil || got.ResultsURL != "" || strings.Contains(string(a.body), hidden) {
		t.Errorf("batch: got %d %s, %v, want no more than id, status, counts and times", a.status, a.body, err)
	}
	if a := w.do(t, "DELETE", "/v1/batches/"+b.ID, http.NoBody, all); !strings.Contains(string(a.body), "results_url") || !strings.Contains(string(a.body), hidden) {
		t.Errorf("batch, with the scope read: got %d %s, want all of it", a.status, a.body)
	}
	for who, want := range map[string]bool{submits: false, all: true} { // another batch under its key
		if a, _, p := w.batch(t, producer.LinesMediaType, options+line+line+line+line, who); a.status != http.StatusConflict || p.Batch == nil || (p.Batch.ResultsURL != "") != want {
			t.Errorf("another batch under the key: got %d %s, want 409 and a results_url: %t", a.status, a.body, want)
		}
	}
}
