package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestSessionFilesRefused: what can't be asked of a session's files is refused before the session is, and what it doesn't come to in time is canceled. There is no worker.
func TestSessionFilesRefused(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(c *apiConfig) { c.MaxWait = 3 * time.Second })
	w.Runtimes(t)
	var x job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python"}`, http.StatusAccepted, &x)
	files := "/v1/sessions/" + x.ID + "/files"
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", files + "/..%2Fa", "", 422, "is not a plain path"},
		{"GET", files + "/%2Fetc%2Fpasswd", "", 422, "is absolute"},
		{"GET", files + "/", "", 422, "is empty"},
		{"PUT", files + "/a%0Ab", "1", 422, "control"},
		{"PUT", files + "/" + strings.Repeat("n", 256), "1", 422, "longer than 255"},
		{"PUT", files + "/a?directory=yes", "", 422, "true or false"},
		{"GET", files + "?path=../a", "", 422, `"field":"path"`},
		{"PUT", files + "/a", strings.Repeat("x", 40<<20), 413, "too_large"},
		{"GET", "/v1/sessions/" + strings.Replace(x.ID, "-s-", "-s-a", 1)[:len(x.ID)] + "/files", "", 404, "not_found"},
		{"GET", files + "/a", "", 429, "session_busy"},
		{"PUT", files + "/a", "1", 429, "session_busy"},
		{"DELETE", files + "/a", "", 429, "session_busy"},
		{"GET", files, "", 429, "session_busy"},
	} {
		a := w.do(t, c.method, c.path, strings.NewReader(c.body))
		if a.status != c.status || !strings.Contains(string(a.body), c.says) {
			t.Errorf("%s %.80s: got %d %.300s, want %d with %q", c.method, c.path, a.status, a.body, c.status, c.says)
		}
	}
	w.tenant(t, "acme", job.Terms{})
	var its job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python"}`, http.StatusAccepted, &its, as(w.token(t, producer.TokenRequest{}).Secret))
	for scope, methods := range map[job.Scope][]string{job.ScopeSubmit: {"GET", "HEAD"}, job.ScopeRead: {"GET", "PUT", "DELETE"}} {
		token := as(w.token(t, producer.TokenRequest{Scopes: []job.Scope{scope}}).Secret)
		for _, method := range methods {
			if a := w.do(t, method, "/v1/sessions/"+its.ID+"/files/a", http.NoBody, token); a.status != http.StatusForbidden || method != http.MethodHead && !strings.Contains(string(a.body), "missing_scope") {
				t.Errorf("%s with the scope %s alone: got %d %s, want 403", method, scope, a.status, a.body)
			}
		}
	}
	page, err := w.Client.ListExecutions(t.Context(), x.ID, producer.SessionListOptions{})
	if err != nil || len(page.Jobs) != 4 {
		t.Fatalf("got %d executions, %v, want those that were accepted", len(page.Jobs), err)
	}
	for _, j := range page.Jobs {
		if j.Status != job.Canceled {
			t.Errorf("%s is %s, want it canceled", j.ID, j.Status)
		}
	}
}
