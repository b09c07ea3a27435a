package api_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestSessionCallback: a session's callback is held to the rules of a job's, at its start and at each execution that it is told of, and nobody else sees its deliveries.
func TestSessionCallback(t *testing.T) {
	t.Parallel()
	rules, err := policy.Parse("policy", []job.Rule{{Name: "no-evil", When: "callback_host == 'evil.acme.example'", Then: job.RuleDeny}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, func(c *apiConfig) { c.Client = c.Client.WithPolicy(rules) })
	w.Runtimes(t)
	token, _ := w.tenant(t, "acme", job.Terms{CallbackHosts: []string{"*.acme.example"}})
	post := func(path, body string) answer { return w.do(t, "POST", path, strings.NewReader(body), as(token)) }
	for _, events := range []string{`[]`, `["session.ended"]`, `["job.completed"]`} {
		for host, want := range map[string]int{"acme.example.evil.net": http.StatusUnprocessableEntity, "evil.acme.example": http.StatusForbidden} {
			if a := post("/v1/sessions", `{"runtime":"python","callback":{"url":"https://`+host+`/","events":`+events+`}}`); a.status != want {
				t.Errorf("%s %s: got %d %s, want %d", host, events, a.status, a.body, want)
			}
		}
	}
	a := post("/v1/sessions", `{"runtime":"python","callback":{"url":"https://hooks.acme.example/x?token=t"}}`)
	var x job.Session
	if err := json.Unmarshal(a.body, &x); err != nil || a.status != http.StatusAccepted || strings.Contains(string(a.body), "hooks.acme") {
		t.Fatalf("got %d %s, %v, want it accepted and its callback not shown", a.status, a.body, err)
	}
	a = post("/v1/sessions/"+x.ID+"/execute", `{"code":"1"}`)
	var r job.Summary
	if err := json.Unmarshal(a.body, &r); err != nil || a.status != http.StatusAccepted {
		t.Fatalf("got %d %s, %v", a.status, a.body, err)
	}
	if j, err := w.Records.Get(t.Context(), r.ID); err != nil || j.Callback != "https://hooks.acme.example/x?token=t" {
		t.Errorf("got callback %q, %v, want the session's", j.Callback, err)
	}
	if a := post("/v1/sessions/"+x.ID+"/execute", `{"code":"1","callback":{"url":"https://evil.acme.example/"}}`); a.status != http.StatusForbidden {
		t.Errorf("an execution's own callback: got %d %s, want 403", a.status, a.body)
	}
	// Where callbacks may lead to is changed: nothing else is told of by the old one.
	if a := w.admin(t, "PUT", "/tenants/acme", `{"revision":1,"terms":{"callback_hosts":["elsewhere.example"]}}`); a.status != http.StatusOK {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	if a := post("/v1/sessions/"+x.ID+"/execute", `{"code":"1"}`); a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "callback.url") {
		t.Errorf("got %d %s, want it refused for its session's callback", a.status, a.body)
	}
	if a := w.do(t, "DELETE", "/v1/sessions/"+x.ID, http.NoBody, as(token)); a.status != http.StatusOK {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	var told struct{ Deliveries []producer.Delivery }
	w.expecting(t, "GET", "/v1/deliveries?session="+x.ID, "", http.StatusOK, &told, as(token))
	if len(told.Deliveries) != 1 || told.Deliveries[0].SessionID != x.ID {
		t.Fatalf("got %+v, want the delivery of its end", told)
	}
	for _, query := range []string{"session=" + x.ID, "session=" + x.ID + "&job=" + r.ID} {
		if a := w.do(t, "GET", "/v1/deliveries?"+query, http.NoBody); a.status != http.StatusNotFound && a.status != http.StatusUnprocessableEntity {
			t.Errorf("another tenant: got %d %s", a.status, a.body)
		}
	}
	// What is purged is told to nobody, and its URL is kept nowhere.
	w.expecting(t, "DELETE", "/v1/sessions/"+x.ID+"?purge=true", "", http.StatusNoContent, nil, as(token))
	if d, err := w.Records.GetDelivery(t.Context(), "acme", told.Deliveries[0].ID); !errors.Is(err, job.ErrNoDelivery) {
		t.Errorf("got %+v, %v, want it purged with its session", d, err)
	}
	if n := w.Raw.ZCard(t.Context(), "gb:{acme}:outbox").Val(); n != 0 {
		t.Errorf("%d deliveries are pending of what was purged", n)
	}
}
