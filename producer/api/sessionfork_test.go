package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/job"
)

// TestForkSession: a fork has what is its own, and else what its session has; rules see it as a start; what can't be forked says so, and names the replay.
func TestForkSession(t *testing.T) {
	t.Parallel()
	rules, err := policy.Parse("policy", []job.Rule{{Name: "no-forks", When: "kind == 'session' && metadata['k'] == 'denied'", Then: job.RuleDeny}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, func(c *apiConfig) { c.Client = c.Client.WithPolicy(rules) })
	w.Runtimes(t)
	var x, fork, again job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python3","limits":{"wall_ms":2000},"env":{"A":"b"},"metadata":{"k":"v"},"ttl_seconds":60,"callback":{"url":"https://example.com/"}}`, http.StatusAccepted, &x)
	path := "/v1/sessions/" + x.ID + "/fork"
	if a := w.do(t, "POST", path, strings.NewReader(`{"metadata":{"k":"v"}}`)); a.status != http.StatusConflict || !strings.Contains(string(a.body), job.CodeUnforkable) || !strings.Contains(string(a.body), "glovebox session replay") {
		t.Errorf("of one that nobody holds: got %d %s, want 409 and the replay", a.status, a.body)
	}
	if _, err := w.Worker.ClaimForkable(t.Context(), x.ID, "w1"); err != nil {
		t.Fatal(err)
	}
	for body, status := range map[string]int{
		`{"metadata":{"k":"denied"}}`:                       http.StatusForbidden,
		`{"metadata":{"k":"v"},"ttl_seconds":5401}`:         http.StatusUnprocessableEntity,
		`{"metadata":{"k":"v"},"runtime":"node"}`:           http.StatusUnprocessableEntity,
		`{"metadata":{"k":"v"},"callback":{"url":"ftp:x"}}`: http.StatusUnprocessableEntity,
	} {
		if a := w.do(t, "POST", path, strings.NewReader(body)); a.status != status {
			t.Errorf("%s: got %d %s, want %d", body, a.status, a.body, status)
		}
	}
	const own = `{"metadata":{"k":"fork"},"ttl_seconds":300,"idle_seconds":7,"budget":{"executions":2},"idempotency_key":"once"}`
	w.expecting(t, "POST", path, own, http.StatusAccepted, &fork)
	w.expecting(t, "POST", path, own, http.StatusAccepted, &again)
	if fork.ID != again.ID || fork.ID == x.ID || fork.ForkOf != x.ID || fork.Status != job.SessionQueued || fork.Runtime != "python" || !cmp.Equal(fork.Limits, x.Limits) ||
		fork.TTLSeconds != 300 || fork.IdleSeconds != 7 || fork.Metadata["k"] != "fork" || fork.Budget == nil || fork.Budget.Executions != 2 {
		t.Errorf("got %+v and %+v", fork, again)
	}
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python","metadata":{"k":"v"},"idempotency_key":"once"}`, http.StatusConflict, nil)
	r, err := w.Records.GetSession(t.Context(), fork.ID)
	if err != nil || r.Settings.Env["A"] != "b" || r.Callback != "" {
		t.Errorf("got %+v, %v, want the session's environment and no callback", r, err)
	}
	w.expecting(t, "POST", "/v1/sessions/"+fork.ID+"/execute", `{"code":"1"}`, http.StatusAccepted, nil) // it waits
	w.expecting(t, "DELETE", "/v1/sessions/"+x.ID, "", http.StatusOK, nil)
	w.expecting(t, "GET", "/v1/sessions/"+fork.ID, "", http.StatusOK, &fork)
	if fork.Status != job.SessionEnded || fork.End.Reason != job.EndFailed {
		t.Errorf("its session has ended: got %+v", fork)
	}
	w.expecting(t, "POST", path, `{"metadata":{"k":"v"}}`, http.StatusGone, nil)
	w.expecting(t, "DELETE", "/v1/sessions/"+x.ID+"?purge=true", "", http.StatusNoContent, nil)
	w.expecting(t, "POST", path, `{"metadata":{"k":"v"}}`, http.StatusNotFound, nil)
	if w.expecting(t, "POST", path, own, http.StatusAccepted, &again); again.ID != fork.ID {
		t.Errorf("its session is gone, the same key: got %+v, want the fork", again)
	}
}
