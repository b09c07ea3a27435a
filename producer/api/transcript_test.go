package api_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/notebook"
)

// pixels are what an execution drew.
const pixels = "\x89PNG\r\n\x1a\n"

// executedInSession has a session execute what bodies ask for, and ends each with a result, as a worker does: the last one's code and result are
// in the bucket, and so is its chart. It returns the session, and the executions.
func (w *world) executedInSession(t *testing.T, bodies ...string) (session string, ids []string) {
	t.Helper()
	w.Runtimes(t)
	ctx := t.Context()
	var x job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python","env":{"A":"b"}}`, http.StatusAccepted, &x)
	if _, err := w.Worker.ClaimSession(ctx, x.ID, "w1"); err != nil {
		t.Fatal(err)
	}
	done := ""
	for i, body := range bodies {
		var added job.Summary
		w.expecting(t, "POST", "/v1/sessions/"+x.ID+"/execute", body, http.StatusAccepted, &added)
		j, err := w.Worker.TakeTurn(ctx, x.ID, "w1", done, nil, record.Rest{Slot: true})
		if err != nil || j.ID != added.ID {
			t.Fatalf("got %+v, %v", j, err)
		}
		done, ids = j.ID, append(ids, j.ID)
		code := 1
		result := j.Failure(job.Failed, nil, j.Started)
		result.ExitCode = &code
		result.Stdout, result.Stderr = "out\n", "warned\nTraceback (most recent call last):\n  File \"<3>\", line 1\nZeroDivisionError: division by zero\n"
		result.Session = &job.ExecutionState{ID: x.ID, Sequence: j.Sequence, Generation: 1, State: job.StateKept}
		ending := record.Ending{Status: result.Status}
		if i == len(bodies)-1 {
			keys, err := artifacts.JobKeys("default", j.ID)
			if err != nil {
				t.Fatal(err)
			}
			result.Artifacts = append(result.Artifacts, job.Artifact{Name: "plot.png", Size: int64(len(pixels)), MediaType: "image/png", Kind: job.KindChart, SHA256: "x", URL: "artifacts/plot.png"})
			ending.ResultRef, ending.InputRef = keys.Result(1), keys.Input(1)
			spec, err := job.Marshal(*j.Spec)
			if err != nil {
				t.Fatal(err)
			}
			b, err := job.Marshal(result)
			if err != nil {
				t.Fatal(err)
			}
			for key, content := range map[string][]byte{keys.Result(1): b, keys.Input(1): spec, keys.Artifact(1, "plot.png"): []byte(pixels)} {
				if _, err := w.Objects.PutBytes(ctx, key, "application/octet-stream", content); err != nil {
					t.Fatal(err)
				}
			}
		} else if ending.Result, err = job.Marshal(result); err != nil {
			t.Fatal(err)
		}
		if err := w.Worker.End(ctx, j, ending); err != nil {
			t.Fatal(err)
		}
	}
	var canceled job.Summary
	w.expecting(t, "POST", "/v1/sessions/"+x.ID+"/execute", `{"code":"never"}`, http.StatusAccepted, &canceled)
	w.expecting(t, "DELETE", "/v1/jobs/"+canceled.ID, "", http.StatusOK, nil)
	return x.ID, append(ids, canceled.ID)
}

// TestPurgeSession: what is kept of a session that has ended goes with all of its executions, and of no other.
func TestPurgeSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session, ids := w.executedInSession(t, `{"code":"1"}`, `{"code":"draw()"}`)
	path, other := "/v1/sessions/"+session, w.accepted(t)
	var live producer.Problem
	w.expecting(t, "DELETE", path+"?purge=true", "", http.StatusConflict, &live)
	if live.Code() != job.CodeNotEnded || !strings.Contains(live.Detail, "the session has not ended: end it") {
		t.Errorf("the session is live: got %+v", live)
	}
	w.expecting(t, "DELETE", path+"?purge=yes", "", http.StatusUnprocessableEntity, nil)
	w.expecting(t, "DELETE", path, "", http.StatusOK, nil)
	w.tenant(t, "default", job.Terms{})
	made, err := w.Client.AddToken(t.Context(), "default", producer.TokenRequest{Scopes: []job.Scope{job.ScopeSubmit, job.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	w.expecting(t, "DELETE", path+"?purge=true", "", http.StatusForbidden, nil, as(made.Secret))
	client, err := producer.New(w.srv.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.PurgeSession(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		w.expecting(t, "GET", "/v1/jobs/"+id, "", http.StatusNotFound, nil)
		keys, err := artifacts.JobKeys("default", id)
		if err != nil {
			t.Fatal(err)
		}
		if r, _, err := w.Objects.Get(t.Context(), keys.Result(1)); err == nil {
			r.Close()
			t.Errorf("the result of %s is still in the bucket", id)
		}
	}
	w.expecting(t, "GET", path, "", http.StatusNotFound, nil)
	w.expecting(t, "DELETE", path+"?purge=true", "", http.StatusNotFound, nil)
	w.expecting(t, "GET", "/v1/jobs/"+other, "", http.StatusOK, nil)
	var page producer.SessionPage
	w.expecting(t, "GET", "/v1/sessions", "", http.StatusOK, &page)
	if len(page.Sessions) != 0 {
		t.Errorf("got %+v, want no session", page)
	}
	lines := w.audited()
	if !slices.ContainsFunc(lines, func(l auditLine) bool {
		return l.Action == "session.purge" && l.Object == session && l.Outcome == job.OutcomeOK
	}) {
		t.Errorf("got %+v, want the purge", lines)
	}
}

// TestTranscript: a session's transcript has, in its order, the code of each execution and what came of it, wherever these are kept; and the client reads it.
func TestTranscript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session, ids := w.executedInSession(t, `{"code":"1/0"}`, `{"files":[{"name":"a.txt","content":"x"}],"code":"1/0","wall_ms":500}`, `{"code":"draw()"}`)
	client, err := producer.New(w.srv.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		ID     string
		Number int64
		Input  *job.ExecutionInput
	}
	env := map[string]string{"A": "b"}
	want := []entry{
		{ids[0], 1, &job.ExecutionInput{Code: "1/0", Env: env}},
		{ids[1], 2, &job.ExecutionInput{Code: "1/0", Env: env, Files: []job.File{{Name: "a.txt", Content: "x"}}, WallMS: 500}},
		{ids[2], 3, &job.ExecutionInput{Code: "draw()", Env: env}},
		{ids[3], 0, nil},
	}
	var got []entry
	for e, err := range client.Transcript(t.Context(), session) {
		if err != nil {
			t.Fatal(err)
		}
		one := entry{ID: e.ID, Input: e.Input}
		if e.Session != nil {
			one.Number = e.Session.Sequence
		}
		if one.Input != nil && one.Input.WallMS != 500 {
			one.Input.WallMS = 0 // the session's own
		}
		got = append(got, one)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, path := range []string{"/transcript", "/notebook"} {
		w.expecting(t, "GET", "/v1/sessions/"+session+"x"+path, "", http.StatusNotFound, nil)
		if a := w.do(t, "GET", "/v1/sessions/"+session+path, nil, "Authorization: Bearer "+otherToken); a.status != http.StatusNotFound && a.status != http.StatusUnauthorized {
			t.Errorf("another tenant: got %d %s", a.status, a.body)
		}
	}
	// Once one is purged, the others are still there.
	if err := client.Purge(t.Context(), ids[1]); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range client.Transcript(t.Context(), session) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("got %d executions, want 3", n)
	}
	for _, err := range client.Transcript(t.Context(), "../"+url.PathEscape(session)) {
		if err == nil {
			t.Error("a session that is none has a transcript")
		}
	}
}

// TestNotebook: the answer is the notebook that anybody with the client writes, and its cells are what was executed.
func TestNotebook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session, _ := w.executedInSession(t, `{"files":[{"name":"a.txt","content":"x"}],"code":"1/0"}`, `{"code":"draw()"}`)
	a := w.do(t, "GET", "/v1/sessions/"+session+"/notebook", nil)
	if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), notebook.MediaType) {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	var book struct {
		Cells []struct {
			ID      string
			Source  string
			Outputs []struct {
				Type string `json:"output_type"`
				Name string
				Text string
				Data map[string]string
				// Of an error.
				Ename, Evalue string
			}
		}
	}
	if err := json.Unmarshal(a.body, &book); err != nil {
		t.Fatal(err)
	}
	if len(book.Cells) != 3 || book.Cells[0].ID != "f1" || book.Cells[1].Source != "1/0" || book.Cells[2].ID != "x2" {
		t.Fatalf("got %s", a.body)
	}
	if out := book.Cells[1].Outputs; len(out) != 3 || out[0].Text != "out\n" || out[1].Text != "warned\n" || out[2].Ename != "ZeroDivisionError" || out[2].Evalue != "division by zero" {
		t.Errorf("got %+v", out)
	}
	if out := book.Cells[2].Outputs; len(out) != 4 || out[2].Type != "display_data" || out[2].Data["image/png"] != "iVBORw0KGgo=" || out[3].Ename != "ZeroDivisionError" {
		t.Errorf("got %+v", out)
	}
	client, err := producer.New(w.srv.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	var local bytes.Buffer
	if err := notebook.Write(t.Context(), &local, client, session); err != nil {
		t.Fatal(err)
	}
	var once, twice any
	if err := json.Unmarshal(local.Bytes(), &once); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(a.body, &twice); err != nil || !cmp.Equal(once, twice) {
		t.Errorf("the API's and the client's differ: %s", cmp.Diff(once, twice))
	}
}
