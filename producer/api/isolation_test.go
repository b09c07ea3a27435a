package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestOthersDoNotExist walks every route with another tenant's token.
func TestOthersDoNotExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	checkVisits(t, w)
	owner, _ := w.tenant(t, "owner", job.Terms{})
	stranger, _ := w.tenant(t, "stranger", job.Terms{})

	keys := w.Secrets(t)
	if a := w.do(t, "PUT", "/v1/secrets/OWNERS_TOKEN", strings.NewReader(`{"value":"a classified value"}`), "Authorization: Bearer "+owner); a.status != http.StatusOK {
		t.Fatalf("set secret: got %d %s", a.status, a.body)
	}
	if a := w.do(t, "PUT", "/v1/templates/owners", strings.NewReader(`{"spec":{"runtime":"python","source":"'the-code'"}}`), "Authorization: Bearer "+owner); a.status != http.StatusOK {
		t.Fatalf("set template: got %d %s", a.status, a.body)
	}
	if a := w.do(t, "PUT", "/v1/schedules/owners", strings.NewReader(`{"template":"owners","cron":"@daily"}`), "Authorization: Bearer "+owner); a.status != http.StatusOK {
		t.Fatalf("set schedule: got %d %s", a.status, a.body)
	}
	var problem job.ProblemHead
	stored := w.do(t, "POST", "/v1/problems", strings.NewReader(`{"name":"classified","tests":[{"name":"1","answer":"classified"}]}`), "Authorization: Bearer "+owner)
	if err := json.Unmarshal(stored.body, &problem); err != nil || stored.status != http.StatusOK {
		t.Fatalf("store problem: got %d %s, %v", stored.status, stored.body, err)
	}
	var hook job.Hook
	made := w.do(t, "POST", "/v1/hooks", strings.NewReader(`{"template":"owners","sender":"github","secret":"classified secret"}`), "Authorization: Bearer "+owner)
	if err := json.Unmarshal(made.body, &hook); err != nil || made.status != http.StatusCreated || strings.Contains(string(made.body), "classified") {
		t.Fatalf("create hook: got %d %s, %v", made.status, made.body, err)
	}
	var session job.Session
	made = w.do(t, "POST", "/v1/sessions", strings.NewReader(`{"runtime":"python","metadata":{"k":"classified"}}`), "Authorization: Bearer "+owner)
	if err := json.Unmarshal(made.body, &session); err != nil || made.status != http.StatusAccepted {
		t.Fatalf("start session: got %d %s, %v", made.status, made.body, err)
	}
	var run job.Run
	made = w.do(t, "POST", "/v1/runs", strings.NewReader(`{"pipeline":{"steps":{"classified":{"runtime":"python","source":"'the-code'"}}}}`), "Authorization: Bearer "+owner)
	if err := json.Unmarshal(made.body, &run); err != nil || made.status != http.StatusAccepted {
		t.Fatalf("start run: got %d %s, %v", made.status, made.body, err)
	}
	submit := func(spec string) string {
		t.Helper()
		var r job.Summary
		a := w.submit(t, spec, "Authorization: Bearer "+owner)
		if err := json.Unmarshal(a.body, &r); err != nil || a.status != http.StatusAccepted {
			t.Fatalf("submit: got %d %s, %v", a.status, a.body, err)
		}
		return r.ID
	}
	const spec = `{"runtime":"python","source":"'the-code'","callback":{"url":"https://hooks.owner.example/"},"metadata":{"k":"classified"}}`
	queued, running, ended := submit(spec), submit(spec), submit(spec)
	w.Start(t, running)
	w.End(t, w.Start(t, ended), map[string]string{"plot.txt": "classified"}, func(r *job.Result) { r.Stdout, r.Stderr = "classified", "classified" })
	const twoLines = `{"batch":{"metadata":{"k":"classified"},"callback":{"url":"https://hooks.owner.example/"}}}` + "\n" + spec + "\n" + spec
	_, begun, _ := w.batch(t, "application/x-ndjson", twoLines, "Authorization: Bearer "+owner, "Idempotency-Key: owners")
	_, completed, _ := w.batch(t, "application/x-ndjson", twoLines, "Authorization: Bearer "+owner)
	for i := range 2 {
		w.End(t, w.Start(t, job.ItemID(completed.ID, i)), nil, nil)
	}
	made = w.do(t, "POST", "/v1/endpoints", strings.NewReader(`{"url":"https://hooks.owner.example/","description":"classified"}`), "Authorization: Bearer "+owner)
	var endpoint producer.NewEndpoint
	if err := json.Unmarshal(made.body, &endpoint); err != nil || made.status != http.StatusCreated {
		t.Fatalf("create endpoint: got %d %s, %v", made.status, made.body, err)
	}
	delivery := record.DeliveryID(ended, job.EventCompleted, "https://hooks.owner.example/")
	known := w.do(t, "GET", "/v1/admin/tenants/owner", http.NoBody, "Authorization: Bearer "+adminToken)
	var before job.Tenant
	if err := json.Unmarshal(known.body, &before); err != nil || len(before.Tokens) != 1 {
		t.Fatalf("got %s, %v", known.body, err)
	}

	ask := func(v visit, id, token string, headers []string) answer {
		path := strings.NewReplacer("<id>", id, "<batch>", id, "<endpoint>", id, "<hook>", id, "<session>", id, "<run>", id, "<problem>", id, "<delivery>", id, "<token>", before.Tokens[0].ID).Replace(v.path)
		headers = append([]string{"Authorization: Bearer " + token}, headers...)
		if v.mediaType != "" {
			headers = append(headers, "Content-Type: "+v.mediaType)
		}
		return w.do(t, v.method, path, strings.NewReader(v.body), headers...)
	}
	for pattern, v := range everyVisit() {
		for _, headers := range append([][]string{nil}, headerSets(v.headers)...) {
			switch {
			case v.admin:
				if a := ask(v, "", stranger, headers); a.status != http.StatusForbidden || strings.Contains(string(a.body), "owner") {
					t.Errorf("%s: got %d %s, want 403", pattern, a.status, a.body)
				}
			case v.shared:
				a := ask(v, "", stranger, headers)
				for _, private := range []string{"owner", "classified", "the-code", queued, running, ended, begun.ID, completed.ID} {
					if strings.Contains(string(a.body), private) {
						t.Errorf("%s: the answer tells of %q: %s", pattern, private, a.body)
					}
				}
			default:
				// Whether the job exists in any state, or not, and whose it would be: one answer.
				newID := job.NewID
				others := map[string]string{"another's queued job": queued, "another's running job": running, "another's ended job": ended}
				if strings.Contains(v.path, "<batch>") {
					newID = job.NewBatchID
					others = map[string]string{"another's running batch": begun.ID, "another's completed batch": completed.ID}
				}
				if strings.Contains(v.path, "<endpoint>") {
					newID, others = job.NewEndpointID, map[string]string{"another's endpoint": endpoint.ID}
				}
				if strings.Contains(v.path, "<delivery>") {
					newID = func(of string) string { return record.DeliveryID(job.NewID(of), job.EventCompleted, "") }
					others = map[string]string{"another's delivery": delivery}
				}
				if strings.Contains(v.path, "<hook>") {
					newID = job.NewHookID
					others = map[string]string{"another's hook": hook.ID}
				}
				if strings.Contains(v.path, "<problem>") {
					newID = func(of string) string { return job.ProblemDigest([]byte(of)) }
					others = map[string]string{"another's problem": problem.Digest}
				}
				if strings.Contains(v.path, "<session>") {
					newID = job.NewSessionID
					others = map[string]string{"another's session": session.ID}
				}
				if strings.Contains(v.path, "<run>") {
					newID = job.NewRunID
					others = map[string]string{"another's run": run.ID}
				}
				none := ask(v, newID("owner"), stranger, headers)
				if none.status != http.StatusNotFound {
					t.Errorf("%s of no job: got %d %s, want 404", pattern, none.status, none.body)
				}
				others["no job of its own"] = newID("stranger")
				for what, id := range others {
					got := ask(v, id, stranger, headers)
					if diff := cmp.Diff(seen(none), seen(got)); diff != "" {
						t.Errorf("%s of %s differs from that of no job: %s", pattern, what, diff)
					}
				}
			}
		}
	}

	// And nothing of the owner's has changed by it.
	var now job.Endpoint
	shown := w.do(t, "GET", "/v1/endpoints/"+endpoint.ID, http.NoBody, "Authorization: Bearer "+owner)
	if err := json.Unmarshal(shown.body, &now); err != nil {
		t.Fatalf("the owner's endpoint: got %s, %v", shown.body, err)
	}
	if diff := cmp.Diff(endpoint.Endpoint, now); diff != "" {
		t.Errorf("the owner's endpoint: %s", diff)
	}
	sealed, err := secrets.NewStore(w.Records.Redis()).Get(t.Context(), "owner", "OWNERS_TOKEN")
	if err != nil {
		t.Fatalf("the owner's secret: %v", err)
	}
	if value, err := keys.Open("owner", "OWNERS_TOKEN", sealed); err != nil || string(value) != "a classified value" {
		t.Errorf("the owner's secret: got %q, %v", value, err)
	}
	for id, want := range map[string]string{queued: "queued", running: "running", ended: "succeeded"} {
		a := w.do(t, "GET", "/v1/jobs/"+id, http.NoBody, "Authorization: Bearer "+owner)
		if a.status != http.StatusOK || !strings.Contains(string(a.body), `"status":"`+want+`"`) {
			t.Errorf("the owner's job: got %d %s, want it %s", a.status, a.body, want)
		}
	}
	for id, want := range map[string]string{begun.ID: "running", completed.ID: "completed"} {
		a := w.do(t, "GET", "/v1/batches/"+id, http.NoBody, "Authorization: Bearer "+owner)
		if a.status != http.StatusOK || !strings.Contains(string(a.body), `"status":"`+want+`"`) || strings.Contains(string(a.body), "cancel_requested") {
			t.Errorf("the owner's batch: got %d %s, want it %s", a.status, a.body, want)
		}
	}
	if a := w.do(t, "GET", "/v1/deliveries?batch="+completed.ID, http.NoBody, "Authorization: Bearer "+stranger); a.status != http.StatusNotFound {
		t.Errorf("deliveries of the owner's batch: got %d %s, want 404", a.status, a.body)
	}
	if a := w.do(t, "GET", "/v1/deliveries?batch="+completed.ID, http.NoBody, "Authorization: Bearer "+owner); !strings.Contains(string(a.body), job.EventBatchCompleted) {
		t.Errorf("deliveries of its batch: got %d %s", a.status, a.body)
	}
	if a := w.do(t, "GET", "/v1/sessions/"+session.ID, http.NoBody, "Authorization: Bearer "+owner); a.status != http.StatusOK || !strings.Contains(string(a.body), `"status":"queued"`) {
		t.Errorf("the owner's session: got %d %s, want it queued", a.status, a.body)
	}
	if a, err := w.Records.Get(t.Context(), running); err != nil || a.CancelRequested {
		t.Errorf("got %+v, %v, want no request to cancel", a, err)
	}
	var after job.Tenant
	known = w.do(t, "GET", "/v1/admin/tenants/owner", http.NoBody, "Authorization: Bearer "+adminToken)
	if err := json.Unmarshal(known.body, &after); err != nil {
		t.Fatal(err)
	}
	for i := range after.Tokens {
		before.Tokens[i].LastUsedAt, after.Tokens[i].LastUsedAt = nil, nil // the owner's own doing
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the owner's tenant: %s", diff)
	}
}

// seen is all of an answer that may tell something.
func seen(a answer) map[string]any {
	header := a.header.Clone()
	header.Del("X-Request-Id") // random
	header.Del("Date")
	return map[string]any{"status": a.status, "header": header, "body": string(a.body)}
}
