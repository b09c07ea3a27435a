package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/job"
)

// TestEnclosingCallback: the callback of a run or of a batch is held to the rules of a job's, as it is opened and with each of its jobs.
func TestEnclosingCallback(t *testing.T) {
	t.Parallel()
	deny := func(name, when string) job.Rule { return job.Rule{Name: name, When: when, Then: job.RuleDeny} }
	rules, err := policy.Parse("policy", []job.Rule{
		deny("known-runtimes", "!(runtime in ['python', 'bash'])"), // of a whole run nobody knows it
		deny("no-evil", "callback_host == 'evil.example'"),
		deny("no-bash-elsewhere", "runtime == 'bash' && callback_host == 'elsewhere.example'"),
		{Name: "ask", When: "callback_host == 'ask.example'", Then: job.RuleHold},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, func(c *apiConfig) { c.Client = c.Client.WithPolicy(rules) })
	w.Runtimes(t)
	pipeline := func(url string) string {
		return `{"steps":{"a":{"runtime":"bash","source":"1"},"b":{"runtime":"python","source":"1"}},"callback":{"url":"` + url + `"}}`
	}
	batch := func(url string) answer {
		t.Helper()
		return w.do(t, "POST", "/v1/batches", strings.NewReader(`{"callback":{"url":"`+url+`"},"jobs":[{"runtime":"bash","source":"1"},{"runtime":"python","source":"1"}]}`), "Content-Type: application/json")
	}
	run := func(url string) answer {
		t.Helper()
		return w.do(t, "POST", "/v1/runs", strings.NewReader(`{"pipeline":`+pipeline(url)+`}`))
	}
	for _, evil := range []string{"https://evil.example/x", "https://EVIL.example.:8443/"} {
		for what, send := range map[string]func(string) answer{"run": run, "batch": batch} {
			if a := send(evil); a.status != http.StatusForbidden || !strings.Contains(string(a.body), job.CodeDenied) || !strings.Contains(string(a.body), "no-evil") {
				t.Errorf("a %s told to %s: got %d %s, want 403", what, evil, a.status, a.body)
			}
		}
	}
	w.expecting(t, "PUT", "/v1/templates/stored", `{"pipeline":`+pipeline("https://evil.example/")+`}`, http.StatusOK, nil)
	w.expecting(t, "POST", "/v1/runs", `{"template":"stored"}`, http.StatusForbidden, nil)

	// A rule that asks for a job's runtime besides judges each job.
	statuses := func(url string) (a, b string) {
		t.Helper()
		var r job.Run
		if err := json.Unmarshal(run(url).body, &r); err != nil {
			t.Fatal(err)
		}
		if err := w.Client.WithPolicy(rules).Advance(t.Context(), r.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
		w.expecting(t, "GET", "/v1/runs/"+r.ID, "", http.StatusOK, &r)
		return r.Steps["a"].Jobs[0].Status, r.Steps["b"].Jobs[0].Status
	}
	if a, b := statuses("https://elsewhere.example/"); a != "refused" || b != "queued" {
		t.Errorf("got %s and %s, want bash refused", a, b)
	}
	if a, b := statuses("https://fine.example/"); a != "queued" || b != "queued" {
		t.Errorf("got %s and %s, want both", a, b)
	}
	for url, jobs := range map[string]int{"https://elsewhere.example/": 1, "https://fine.example/": 2, "https://ask.example/": 2} {
		var made job.Batch
		if a := batch(url); json.Unmarshal(a.body, &made) != nil || a.status != http.StatusAccepted || made.Jobs != jobs {
			t.Errorf("a batch told to %s: got %d %s, want %d jobs", url, a.status, a.body, jobs)
		}
	}
	var held struct{ Jobs []job.Summary }
	w.expecting(t, "GET", "/v1/jobs?status=held", "", http.StatusOK, &held)
	if len(held.Jobs) != 2 {
		t.Errorf("%d jobs are held, want both of the batch that somebody is to be asked about", len(held.Jobs))
	}
}
