package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
)

// once leaves out repeats: entries whose answer from Redis comes late are written again.
func once(list []job.AuditEntry) (distinct []job.AuditEntry) {
	for _, e := range list {
		if !slices.Contains(distinct, e) {
			distinct = append(distinct, e)
		}
	}
	return distinct
}

// What changes something is written down with its author, what fails as well, and what only
// reads is not; no secret, code or token gets there.
func TestAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.Secrets(t)
	began := time.Now().Add(-time.Second)
	token, id := w.tenant(t, "acme", job.Terms{})
	reader := w.token(t, producer.TokenRequest{Scopes: []job.Scope{job.ScopeRead}})
	var j job.Summary
	if err := json.Unmarshal(w.submit(t, `{"runtime":"python","source":"'the-code'"}`, as(token)).body, &j); err != nil {
		t.Fatal(err)
	}
	w.submit(t, `{"runtime":"python","source":"'the-code'"}`, as(reader.Secret))
	w.submit(t, `{"runtime":"cobol","source":"'the-code'"}`, as(token))
	_, b, _ := w.batch(t, "application/x-ndjson", line, as(token))
	w.do(t, "GET", "/v1/jobs/"+j.ID, http.NoBody, as(token))
	w.do(t, "DELETE", "/v1/jobs/"+j.ID, http.NoBody, as(token))
	w.do(t, "DELETE", "/v1/jobs/"+j.ID+"?purge=true", http.NoBody, as(token))
	w.do(t, "DELETE", "/v1/batches/"+b.ID, http.NoBody, as(token))
	w.do(t, "PUT", "/v1/secrets/KEY", strings.NewReader(`{"value":"a private value"}`), as(token))
	w.do(t, "DELETE", "/v1/secrets/KEY", http.NoBody, as(token))
	w.admin(t, "PUT", "/tenants/acme", `{"revision":1,"terms":{"disabled":true}}`)
	w.admin(t, "POST", "/tenants/acme/stop", "")
	w.admin(t, "DELETE", "/tenants/acme/tokens/"+id, "")
	w.do(t, "DELETE", "/v1/admin/tenants/acme/tokens/"+id, http.NoBody, as(made(1)))

	type entry struct{ Tenant, Token, Action, Object, Outcome string }
	const admin, ok, refused = "GLOVEBOX_ADMIN_TOKEN", job.OutcomeOK, job.OutcomeRefused
	want := []entry{
		{"acme", admin, "tenant.create", "acme", ok},
		{"acme", admin, "token.add", "acme/" + id, ok},
		{"acme", id, "job.submit", j.ID, ok},
		{"acme", reader.ID, "job.submit", "", refused},
		{"acme", id, "job.submit", "", refused},
		{"acme", id, "batch.submit", b.ID, ok},
		{"acme", id, "job.cancel", j.ID, ok},
		{"acme", id, "job.purge", j.ID, ok},
		{"acme", id, "batch.cancel", b.ID, ok},
		{"acme", id, "secret.set", "KEY", ok},
		{"acme", id, "secret.delete", "KEY", ok},
		{"acme", admin, "tenant.terms", "acme", ok},
		{"acme", admin, "tenant.stop", "acme", ok},
		{"acme", admin, "token.revoke", "acme/" + id, ok},
		{"", "", "auth.failed", "DELETE /v1/admin/tenants/{name}/tokens/{token}", refused},
	}
	var page producer.AuditPage
	var a answer
	gbtest.Eventually(t, "all is written", func() bool {
		a = w.admin(t, "GET", "/audit?since="+began.UTC().Format(time.RFC3339), "")
		page = producer.AuditPage{}
		if err := json.Unmarshal(a.body, &page); err != nil || a.status != http.StatusOK {
			t.Fatalf("got %d %s, %v", a.status, a.body, err)
		}
		page.Entries = once(page.Entries)
		return len(page.Entries) >= len(want)
	})
	var got []entry
	for _, e := range page.Entries {
		got = append(got, entry{e.Tenant, e.TokenID, e.Action, e.Object, e.Outcome})
		if e.Address != "127.0.0.1" || e.RequestID == "" || e.Status == 0 || time.Since(e.At) > time.Minute {
			t.Errorf("got %+v", e)
		}
	}
	// Two streams are merged by time, to the millisecond: neighbours may change places.
	for _, e := range want {
		if i := slices.Index(got, e); i < 0 {
			t.Errorf("%+v is missing", e)
		} else {
			got = append(got[:i:i], got[i+1:]...)
		}
	}
	if diff := cmp.Diff([]entry{}, append([]entry{}, got...)); diff != "" {
		t.Errorf("what nobody expects: %s", diff)
	}
	log := w.log.String()
	for _, secret := range []string{"the-code", "a private value", token, reader.Secret, adminToken, made(1)} {
		if strings.Contains(string(a.body), secret) || strings.Contains(log, secret) {
			t.Errorf("%q is written down", secret)
		}
	}
	if n := strings.Count(log, `"msg":"audit"`); n != len(want) {
		t.Errorf("got %d entries in the log, want %d", n, len(want))
	}
	// Of one tenant, and of one kind; and by pages.
	a = w.admin(t, "GET", "/audit?tenant=acme&action=secret&limit=1", "")
	if err := json.Unmarshal(a.body, &page); err != nil || len(page.Entries) != 1 || page.Entries[0].Action != "secret.set" || !page.More {
		t.Errorf("got %s, %v", a.body, err)
	}
	a = w.admin(t, "GET", "/audit?tenant=acme&action=secret&limit=1&cursor="+page.Next, "")
	if err := json.Unmarshal(a.body, &page); err != nil || len(page.Entries) != 1 || page.Entries[0].Action != "secret.delete" {
		t.Errorf("got %s, %v", a.body, err)
	}
	for _, bad := range []string{"limit=0", "limit=1001", "since=yesterday", "cursor=x"} {
		if a := w.admin(t, "GET", "/audit?"+bad, ""); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: got %d %s", bad, a.status, a.body)
		}
	}
	// Each route that changes something has a name in it, or tools that do; what is sent to a hook is in that
	// hook's own log.
	unnamed := []string{"POST /v1/uploads", "POST /v1/tools/{name}", "POST /mcp", "POST /v1/hooks/{id}", "OPTIONS /v1/hooks/{id}"}
	for _, pattern := range w.api.Patterns() {
		if method, _, _ := strings.Cut(pattern, " "); method != http.MethodGet && api.Action(pattern) == "" && !slices.Contains(unnamed, pattern) {
			t.Errorf("%s changes something, and the audit log has no name for it", pattern)
		}
	}
}

// Requests that are refused because Redis is away don't wait for the audit log, and are in it
// once Redis is back.
func TestAuditWithoutRedis(t *testing.T) {
	t.Parallel()
	w := newHangingWorld(t)
	w.Redis.Signal(syscall.SIGSTOP)
	a := w.submit(t, `{"runtime":"python","source":"1"}`)
	w.Redis.Signal(syscall.SIGCONT)
	if a.status != http.StatusServiceUnavailable {
		t.Errorf("got %d", a.status)
	}
	gbtest.Eventually(t, "it is written", func() bool {
		page, err := w.Client.Audit(t.Context(), producer.AuditOptions{})
		return err == nil && len(page.Entries) > 0 && page.Entries[0].Action == "job.submit" && page.Entries[0].Outcome == job.OutcomeFailed && page.Entries[0].TokenID == "GLOVEBOX_TOKEN"
	})
}

// A token whose requests are refused, for what it may not or beyond its tenant's quota, is in
// the audit log once a minute, and counts against that quota; what the operator did is where no
// tenant writes.
func TestAuditOfRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full, _ := w.tenant(t, "acme", job.Terms{Quotas: job.Quotas{RequestsPerMinute: 5}})
	w.tenant(t, "gone", job.Terms{})
	w.admin(t, "PUT", "/tenants/gone", `{"revision":1,"terms":{"disabled":true}}`)
	const tries = 50
	reader := w.token(t, producer.TokenRequest{Scopes: []job.Scope{job.ScopeRead}})
	refused := map[int]int{}
	began := time.Now()
	for range tries {
		refused[w.do(t, "DELETE", "/v1/secrets/X", http.NoBody, as(reader.Secret)).status]++
		refused[w.do(t, "POST", "/v1/admin/tenants/acme/stop", http.NoBody, as(reader.Secret)).status]++
		w.do(t, "DELETE", "/v1/secrets/X", http.NoBody, as(full))
	}
	most := 5 + int(time.Since(began)/(12*time.Second)) + 1 // the quota, and what it grew by meanwhile
	if refused[http.StatusForbidden] > most || refused[http.StatusTooManyRequests] < 2*tries-most {
		t.Errorf("a token without the scope got %v, want what its tenant's quota says", refused)
	}
	w.admin(t, "DELETE", "/tenants/acme/tokens/"+reader.ID, "")
	var page producer.AuditPage
	gbtest.Eventually(t, "all is written", func() bool {
		var err error
		page, err = w.Client.Audit(t.Context(), producer.AuditOptions{})
		return err == nil && slices.ContainsFunc(page.Entries, func(e job.AuditEntry) bool { return e.Action == "token.revoke" })
	})
	refusals, operators := 0, 0
	for _, e := range page.Entries {
		switch {
		case e.TokenID == "GLOVEBOX_ADMIN_TOKEN":
			operators++
		case e.Outcome == job.OutcomeRefused:
			refusals++
		}
	}
	if refusals == 0 || refusals > 2*2+5 { // each token by scope and by rate; and secrets that there are not
		t.Errorf("got %d refusals in the audit log of %d", refusals, 3*tries)
	}
	redis := w.Records.Redis()
	if own := redis.XLen(t.Context(), "gb:audit:operator").Val(); int(own) != operators || operators < 5 {
		t.Errorf("got %d entries in the operator's stream, want %d", own, operators)
	}
	if n := redis.XLen(t.Context(), "gb:audit").Val() + redis.XLen(t.Context(), "gb:audit:jobs").Val(); int(n) != len(page.Entries)-operators {
		t.Errorf("got %d entries in the tenants' streams of %d", n, len(page.Entries))
	}
}
