package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestSessionSecrets: a session names secrets that the tenant has, rules see their names at its start and at each execution, and nothing but names is ever shown.
func TestSessionSecrets(t *testing.T) {
	t.Parallel()
	rules, err := policy.Parse("policy", []job.Rule{
		{Name: "guarded", When: "kind == 'session' && 'GUARDED' in secrets", Then: job.RuleDeny},
		{Name: "careful", When: "kind == 'execution' && 'TOKEN' in secrets && code.contains('look')", Then: job.RuleHold},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, func(c *apiConfig) { c.Client = c.Client.WithPolicy(rules) })
	w.Runtimes(t)
	w.Secrets(t)
	for _, name := range []string{"TOKEN", "GUARDED"} {
		w.expecting(t, "PUT", "/v1/secrets/"+name, `{"value":"correct-horse"}`, http.StatusOK, nil)
	}
	a := w.do(t, "POST", "/v1/sessions", strings.NewReader(`{"runtime":"python","secrets":["TOKEN","NONE"]}`))
	if a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "secrets[1]") {
		t.Errorf("a secret that nobody stored: got %d %s", a.status, a.body)
	}
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python","secrets":["GUARDED"]}`, http.StatusForbidden, nil)
	var x, again job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python","secrets":["TOKEN"],"env":{"A":"b"}}`, http.StatusAccepted, &x)
	w.expecting(t, "GET", "/v1/sessions/"+x.ID, "", http.StatusOK, &again)
	if want := []string{"TOKEN"}; !cmp.Equal(x.Secrets, want) || !cmp.Equal(again.Secrets, want) {
		t.Errorf("got %v and %v, want %v", x.Secrets, again.Secrets, want)
	}
	if _, err := w.Worker.ClaimSession(t.Context(), x.ID, "w1"); err != nil {
		t.Fatal(err)
	}
	var added job.Summary
	w.expecting(t, "POST", "/v1/sessions/"+x.ID+"/execute", `{"code":"1"}`, http.StatusAccepted, &added)
	j, err := w.Worker.TakeTurn(t.Context(), x.ID, "w1", "", nil, record.Rest{Slot: true})
	if err != nil || j.ID != added.ID || len(j.Spec.Secrets) > 0 {
		t.Errorf("got %+v, %v; want an execution that leaves secrets to the session", j, err)
	}
	ended := j.Failure(job.Failed, nil, j.Started)
	ended.Session = &job.ExecutionState{ID: x.ID, Sequence: 1, Generation: 1, State: job.StateKept}
	result, err := job.Marshal(ended)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Worker.End(t.Context(), j, record.Ending{Status: ended.Status, Result: result}); err != nil {
		t.Fatal(err)
	}
	var held job.Summary
	w.expecting(t, "POST", "/v1/sessions/"+x.ID+"/execute", `{"code":"look"}`, http.StatusAccepted, &held)
	if held.Status != job.Held || held.Hold == nil || held.Hold.Rule != "careful" {
		t.Errorf("got %+v, want it held", held)
	}
	client, err := producer.New(w.srv.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range client.Transcript(t.Context(), x.ID) {
		if err != nil || e.Input == nil {
			t.Fatalf("transcript: got %+v, %v", e, err)
		}
		if want := []string{"TOKEN"}; e.Input.Env["A"] != "b" || !cmp.Equal(e.Input.Secrets, want) {
			t.Errorf("transcript: got %+v, want the environment and the names %v", e.Input, want)
		}
	}
}
