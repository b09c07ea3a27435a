package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestHookRefuses: what is not the sender's starts nothing, and tells a stranger nothing.
func TestHookRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	made := w.hook(t, `"sender":"github","secret":"`+hookSecret+`"`)
	const body = `{"ref":"main"}`
	expect := func(what string, want int, a answer) {
		t.Helper()
		if a.status != want || strings.Contains(string(a.body), hookSecret) {
			t.Errorf("%s: got %d %s, want %d", what, a.status, a.body, want)
		}
	}
	none := w.github(t, "/v1/hooks/"+job.NewHookID("default"), hookSecret, "d", body)
	expect("no such hook", http.StatusNotFound, none)
	expect("no such tenant", http.StatusNotFound, w.github(t, "/v1/hooks/"+job.NewHookID("nobody"), hookSecret, "d", body))
	expect("no hook's id", http.StatusNotFound, w.github(t, "/v1/hooks/x", hookSecret, "d", body))
	expect("another secret", http.StatusUnauthorized, w.github(t, made.Path, "another secret", "d", body))
	expect("no signature", http.StatusUnauthorized, w.do(t, "POST", made.Path, strings.NewReader(body)))
	expect("a token in its place", http.StatusUnauthorized, w.do(t, "POST", made.Path, strings.NewReader(body), "Authorization: Bearer "+token))
	expect("a large body", http.StatusRequestEntityTooLarge, w.github(t, made.Path, hookSecret, "d", strings.Repeat("x", 25<<20)))
	expect("no JSON", http.StatusUnprocessableEntity, w.github(t, made.Path, hookSecret, "d", "no JSON"))
	expect("no ref", http.StatusUnprocessableEntity, w.github(t, made.Path, hookSecret, "d", "{}"))
	expect("a long ref", http.StatusUnprocessableEntity, w.github(t, made.Path, hookSecret, "d", `{"ref":"`+strings.Repeat("x", 51)+`"}`))
	if a := w.github(t, made.Path, hookSecret, "d", `{"zen":1}`, "X-GitHub-Event: ping"); a.status != http.StatusOK || string(a.body) != "pong\n" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a ping: got %d %s %v", a.status, a.body, a.header)
	}

	// Paused, it is as if it were not there.
	change := func(settings string) {
		t.Helper()
		if a := w.do(t, "PUT", made.Path, strings.NewReader(settings)); a.status != http.StatusOK {
			t.Fatalf("change hook: got %d %s", a.status, a.body)
		}
	}
	change(`{"template":"report","sender":"github","paused":true}`)
	paused := w.github(t, made.Path, hookSecret, "d", body)
	expect("paused", http.StatusNotFound, paused)
	if string(paused.body) != string(none.body) {
		t.Errorf("paused: got %s, want %s", paused.body, none.body)
	}
	change(`{"template":"report","sender":"github","from":{"ref":"/body/ref","event":"/headers/x-github-event"}}`)
	if got := jobs(t, w); got != 0 {
		t.Fatalf("got %d jobs, want none", got)
	}

	// A secret that is rotated out starts nothing.
	if a := w.do(t, "POST", made.Path+"/rotate", strings.NewReader(`{"secret":"the second secret"}`)); a.status != http.StatusOK {
		t.Fatalf("rotate: got %d %s", a.status, a.body)
	}
	started(t, w.github(t, made.Path, hookSecret, "old", `{"ref":"old"}`))
	started(t, w.github(t, made.Path, "the second secret", "new", `{"ref":"new"}`))
	expect("a third secret", http.StatusConflict, w.do(t, "POST", made.Path+"/rotate", strings.NewReader(`{"secret":"the third secret"}`)))
	if a := w.do(t, "POST", made.Path+"/rotate", strings.NewReader(`{"secret":"the third secret","expire_seconds":0}`)); a.status != http.StatusOK {
		t.Fatalf("rotate: got %d %s", a.status, a.body)
	}
	expect("an expired secret", http.StatusUnauthorized, w.github(t, made.Path, hookSecret, "old2", `{"ref":"old2"}`))
	expect("an expired secret", http.StatusUnauthorized, w.github(t, made.Path, "the second secret", "new2", `{"ref":"new2"}`))

	outcomes := map[string]int{}
	for _, d := range deliveries(t, w, made.Path) {
		outcomes[d.Outcome]++
		if d.Outcome == job.DeliveryRefused && d.Reason == "" {
			t.Errorf("no reason: %+v", d)
		}
	}
	if fmt.Sprint(outcomes) != "map[refused:3 started:2]" || jobs(t, w) != 2 {
		t.Errorf("got %v, %d jobs", outcomes, jobs(t, w))
	}
	for key := range w.Raw.HGetAll(t.Context(), "gb:{default}:hooks").Val() {
		if stored := w.Raw.HGet(t.Context(), "gb:{default}:hooks", key).Val(); strings.Contains(stored, "third secret") {
			t.Errorf("Redis has a secret: %s", stored)
		}
	}
	if strings.Contains(w.log.String(), "secret of github") || strings.Contains(w.log.String(), "third secret") {
		t.Error("the log has a secret")
	}
	if a := w.do(t, "DELETE", made.Path, http.NoBody); a.status != http.StatusNoContent {
		t.Errorf("delete: got %d %s", a.status, a.body)
	}
	expect("deleted", http.StatusNotFound, w.github(t, made.Path, "the third secret", "d", body))
}

// TestHookComesBack: where there is no room the sender is told to come back, and then its job is
// made; also if an api died before it had made it.
func TestHookComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	owner, _ := w.tenant(t, "owner", job.Terms{Quotas: job.Quotas{JobsQueued: 1}})
	auth := "Authorization: Bearer " + owner
	made := w.hook(t, `"sender":"github","secret":"`+hookSecret+`"`, auth)
	first := started(t, w.github(t, made.Path, hookSecret, "d1", `{"ref":"1"}`)).JobID
	full := w.github(t, made.Path, hookSecret, "d2", `{"ref":"2"}`)
	if full.status != http.StatusServiceUnavailable || full.header.Get("Retry-After") == "" {
		t.Fatalf("no room: got %d %s %v, want 503", full.status, full.body, full.header)
	}
	w.Start(t, first)
	if again := started(t, w.github(t, made.Path, hookSecret, "d2", `{"ref":"2"}`)); again.Duplicate || again.JobID == first {
		t.Errorf("it comes again: got %+v", again)
	}
	if again := started(t, w.github(t, made.Path, hookSecret, "d2", `{"ref":"2"}`)); !again.Duplicate {
		t.Errorf("and once more: got %+v", again)
	}
	if got := jobs(t, w, auth); got != 2 {
		t.Errorf("got %d jobs, want 2", got)
	}

	terms := w.do(t, "GET", "/v1/admin/tenants/owner", http.NoBody, "Authorization: Bearer "+adminToken)
	var tenant job.Tenant
	if err := json.Unmarshal(terms.body, &tenant); err != nil {
		t.Fatal(err)
	}
	if a := w.do(t, "PUT", "/v1/admin/tenants/owner", strings.NewReader(fmt.Sprintf(`{"revision":%d,"terms":{"disabled":true}}`, tenant.Revision)), "Authorization: Bearer "+adminToken); a.status != http.StatusOK {
		t.Fatalf("disable: got %d %s", a.status, a.body)
	}
	if a := w.github(t, made.Path, hookSecret, "d3", `{"ref":"3"}`); a.status != http.StatusNotFound {
		t.Errorf("of a disabled tenant: got %d %s, want 404", a.status, a.body)
	}
}

// TestHookDenied: a sender isn't told which rule refuses what it sends; the hook's owner is.
func TestHookDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	owner, _ := w.tenant(t, "owner", job.Terms{Policy: []job.Rule{{Name: "no-main", When: "size(args) > 0 && args[0] == 'main'", Then: job.RuleDeny, Message: "a word among us"}}})
	auth := "Authorization: Bearer " + owner
	made := w.hook(t, `"sender":"github","secret":"`+hookSecret+`"`, auth)
	a := w.github(t, made.Path, hookSecret, "d1", `{"ref":"main"}`)
	if text := string(a.body); a.status != http.StatusUnprocessableEntity || !strings.Contains(text, "the rules of the hook's owner refuse it") || strings.Contains(text, "no-main") || strings.Contains(text, "among us") {
		t.Errorf("got %d %s, want 422 and no word of the rule", a.status, a.body)
	}
	if list := deliveries(t, w, made.Path, auth); len(list) != 1 || list[0].Outcome != job.DeliveryRefused || !strings.Contains(list[0].Reason, "no-main") || !strings.Contains(list[0].Reason, "among us") {
		t.Errorf("got %+v, want the rule and its message", list)
	}
	started(t, w.github(t, made.Path, hookSecret, "d2", `{"ref":"other"}`))
}

// TestHookSettings: what a hook can't be is said when it is made.
func TestHookSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	made := w.hook(t, `"sender":"standard-webhooks"`)
	if !strings.HasPrefix(made.Secret, "whsec_") {
		t.Errorf("got secret %q, want one that is made", made.Secret)
	}
	for want, settings := range map[string]string{
		"template":           `{"template":"none","sender":"github"}`,
		"sender":             `{"template":"report","sender":"myspace"}`,
		"secret":             `{"template":"report","sender":"stripe","from":{"ref":"/body/ref"}}`,
		`"field":"secret"`:   `{"template":"report","sender":"github","secret":"short","from":{"ref":"/body/ref"}}`,
		"64 hex digits":      `{"template":"report","sender":"discord","secret":"not a public key","from":{"ref":"/body/ref"}}`,
		"whsec_":             `{"template":"report","sender":"standard-webhooks","secret":"not of that form","from":{"ref":"/body/ref"}}`,
		"scheme":             `{"template":"report","sender":"hmac","secret":"12345678"}`,
		"scheme.content":     `{"template":"report","sender":"hmac","secret":"12345678","scheme":{"signature":"X","encoding":"hex","content":"nothing"}}`,
		"scheme.timestamp":   `{"template":"report","sender":"hmac","secret":"12345678","scheme":{"signature":"X","encoding":"hex","content":"{body}","timestamp":"X-T"}}`,
		"scheme.id":          `{"template":"report","sender":"hmac","secret":"12345678","scheme":{"signature":"X","encoding":"hex","content":"{id}{body}"}}`,
		`"field":"answer"`:   `{"template":"report","sender":"github","answer":"whenever"}`,
		"answer_seconds":     `{"template":"report","sender":"github","answer":"result","answer_seconds":61}`,
		"content_type":       `{"template":"report","sender":"github","answer":"result","content_type":"text/html"}`,
		"with answer":        `{"template":"report","sender":"github","content_type":"application/json"}`,
		"from.ref":           `{"template":"report","sender":"github","from":{"ref":"/secret"}}`,
		`"field":"body"`:     `{"template":"report","sender":"github","body":"../x"}`,
		"becomes main.py":    `{"template":"report","sender":"github","body":"main.py"}`,
		"schema requires it": `{"template":"report","sender":"github","from":{"event":"/body/x"}}`,
		"from.event":         `{"template":"report","sender":"github","from":{"event":"/body/a~2b"}}`,
		`"field":"url"`:      `{"template":"report","sender":"github","url":"https://x"}`,
		"not a known field":  `{"template":"report","sender":"github","more":1}`,
	} {
		if a := w.do(t, "POST", "/v1/hooks", strings.NewReader(settings)); a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: got %d %s, want %s to be wrong", settings, a.status, a.body, want)
		}
	}
	if a := w.do(t, "PUT", made.Path, strings.NewReader(`{"template":"report","sender":"github","from":{"ref":"/body/ref"}}`)); a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "can't change") {
		t.Errorf("another sender: got %d %s", a.status, a.body)
	}
	if a := w.do(t, "OPTIONS", made.Path, http.NoBody, "WebHook-Request-Origin: events.example"); a.status != http.StatusOK || a.header.Get("WebHook-Allowed-Origin") != "events.example" {
		t.Errorf("CloudEvents' handshake: got %d %v", a.status, a.header)
	}
	for i := 1; i < job.MaxHooks; i++ {
		w.hookOf(t, http.StatusCreated)
	}
	w.hookOf(t, http.StatusConflict)

	// What starts nothing may be stopped all the same.
	w.do(t, "DELETE", "/v1/templates/report", http.NoBody)
	const paused = `{"template":"report","sender":"standard-webhooks","from":{"ref":"/body/ref","event":"/headers/x-github-event"},"paused":true}`
	if a := w.do(t, "PUT", made.Path, strings.NewReader(paused)); a.status != http.StatusOK {
		t.Errorf("pause, without the template: got %d %s", a.status, a.body)
	}
}
