package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/producer/facade/e2b"
)

const guest = "Authorization: "

// newE2B is an API with the façade on, which lets those without a token in as the tenant "default".
func newE2B(t *testing.T) *world {
	t.Helper()
	w := newWorldWith(t, func(c *apiConfig) {
		c.Facades, c.FacadeTenant = []facade.Facade{e2b.New()}, "default"
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} // for many wrong tokens
	})
	w.Runtimes(t)
	return w
}

// e2bSandbox is what is told of one.
type e2bSandbox struct{ SandboxID, Domain, EnvdAccessToken, TrafficAccessToken string }

// sandbox starts one.
func (w *world) sandbox(t *testing.T, headers ...string) (made e2bSandbox) {
	t.Helper()
	a := w.do(t, "POST", "/e2b/sandboxes", strings.NewReader(`{"templateID":"base"}`), headers...)
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != http.StatusCreated {
		t.Fatalf("got %d %s, want 201", a.status, a.body)
	}
	return made
}

// limited makes a tenant with a token of these scopes.
func (w *world) limited(t *testing.T, tenant string, scopes ...job.Scope) (secret, id string) {
	t.Helper()
	if _, err := w.Records.CreateTenant(t.Context(), tenant, job.Terms{}); err != nil {
		t.Fatal(err)
	}
	secret, known, err := w.Records.AddToken(t.Context(), tenant, job.Token{Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return secret, known.ID
}

// e2bRoutes are all that lead to a sandbox.
var e2bRoutes = []struct{ method, path, body string }{
	{"GET", "/e2b/sandboxes/ID", ""},
	{"GET", "/e2b/sandboxes/ID/metrics", ""},
	{"POST", "/e2b/sandboxes/ID/timeout", `{"timeout":9}`},
	{"POST", "/e2b/sandboxes/ID/refreshes", `{"duration":9}`},
	{"POST", "/e2b/sandboxes/ID/connect", `{}`},
	{"POST", "/e2b/v2/sandboxes/ID/connect", `{}`},
	{"POST", "/e2b/sandboxes/ID/resume", `{}`},
	{"DELETE", "/e2b/sandboxes/ID", ""},
	{"GET", "/e2b/health", ""},
	{"POST", "/e2b/execute", `{"code":"1"}`},
	{"GET", "/e2b/contexts", ""},
	{"POST", "/e2b/contexts", `{}`},
	{"DELETE", "/e2b/contexts/main", ""},
	{"POST", "/e2b/contexts/main/restart", ""},
	{"GET", "/e2b/files?path=a", ""},
	{"POST", "/e2b/files?path=a", "a"},
	{"POST", "/e2b/filesystem.Filesystem/Stat", `{"path":"a"}`},
	{"POST", "/e2b/process.Process/List", `{}`},
}

// TestE2BGuests: without a token nobody reaches a session of the tenant's users, whatever a client said of it, nor one that has secrets, and
// is told of none.
func TestE2BGuests(t *testing.T) {
	t.Parallel()
	w := newE2B(t)
	w.Secrets(t)
	if a := w.do(t, "PUT", "/v1/secrets/API_KEY", strings.NewReader(`{"value":"hush, hush"}`)); a.status >= 300 {
		t.Fatalf("store secret: got %d %s", a.status, a.body)
	}
	native := func(body string) string {
		t.Helper()
		var x job.Session
		a := w.do(t, "POST", "/v1/sessions", strings.NewReader(body))
		if err := json.Unmarshal(a.body, &x); err != nil || a.status != http.StatusAccepted {
			t.Fatalf("got %d %s, want 202", a.status, a.body)
		}
		return x.ID
	}
	for name, id := range map[string]string{
		"native":       native(`{"runtime":"python"}`),
		"by a token":   w.sandbox(t).SandboxID,
		"with secrets": native(`{"runtime":"python","secrets":["API_KEY"],"metadata":{"e2b.guest":"true"}}`),
	} {
		for _, tt := range e2bRoutes {
			a := w.do(t, tt.method, strings.Replace(tt.path, "ID", id, 1), strings.NewReader(tt.body), guest, "E2b-Sandbox-Id: "+id, "Content-Type: application/json")
			if a.status != http.StatusNotFound {
				t.Errorf("%s: %s %s: got %d %s, want 404", name, tt.method, tt.path, a.status, a.body)
			}
		}
		if x, err := w.Client.Session(t.Context(), id); err != nil || x.Status == job.SessionEnded {
			t.Errorf("%s: got %+v, %v, want it untouched", name, x, err)
		}
	}
	own := w.sandbox(t, guest)
	if own.EnvdAccessToken != "" || own.TrafficAccessToken != "" {
		t.Errorf("got %+v, want no token", own)
	}
	for _, path := range []string{"/e2b/sandboxes/" + own.SandboxID, "/e2b/health"} {
		if a := w.do(t, "GET", path, nil, guest, "E2b-Sandbox-Id: "+own.SandboxID); a.status != http.StatusOK || strings.Contains(string(a.body), "e2b.") {
			t.Errorf("%s of its own: got %d %s, want 200", path, a.status, a.body)
		}
	}
	if a := w.do(t, "GET", "/e2b/sandboxes", nil, guest); string(a.body) != "[]\n" || a.header.Get("X-Next-Token") != "" {
		t.Errorf("list: got %s, want none", a.body)
	}
	for _, name := range []string{"e2b.guest", "e2b.debug", "e2b.template", "e2b."} {
		a := w.do(t, "POST", "/e2b/sandboxes", strings.NewReader(`{"templateID":"base","metadata":{"`+name+`":"x"}}`))
		if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), "metadata."+name+" is not for clients") {
			t.Errorf("metadata %s: got %d %s, want 400", name, a.status, a.body)
		}
	}
}

// TestE2BAccessTokens: what SDKs are told to send to a sandbox is good for that sandbox alone, as far as the token behind it is, and no longer.
func TestE2BAccessTokens(t *testing.T) {
	t.Parallel()
	w := newE2B(t)
	secret, id := w.limited(t, "acme", job.Scopes()...)
	mine, other := w.sandbox(t, "Authorization: Bearer "+secret), w.sandbox(t, "Authorization: Bearer "+secret)
	own := w.sandbox(t)
	access := mine.EnvdAccessToken
	if access == "" || access != mine.TrafficAccessToken || strings.Contains(access, secret) || !strings.HasPrefix(w.srv.URL, "http://"+mine.Domain) {
		t.Fatalf("got %+v, want a token of its own, and the domain of the façade", mine)
	}
	asked := 0
	from := func() string { // each from another place: wrong tokens are throttled
		asked++
		return fmt.Sprintf("X-Forwarded-For: 198.51.100.%d", asked)
	}
	ask := func(method, path, sandbox, access, body string) answer {
		return w.do(t, method, path, strings.NewReader(body), from(), guest, "X-Access-Token: "+access, "E2b-Sandbox-Id: "+sandbox, "Content-Type: application/json")
	}
	for _, x := range []e2bSandbox{mine, other, own} { // GLOVEBOX_TOKEN's, too
		if a := ask("GET", "/e2b/health", x.SandboxID, x.EnvdAccessToken, ""); a.status != http.StatusOK {
			t.Errorf("its own sandbox: got %d %s, want 200", a.status, a.body)
		}
	}
	if a := ask("POST", "/e2b/contexts", mine.SandboxID, access, `{"language":"python"}`); a.status != http.StatusOK {
		t.Errorf("a context: got %d %s, want 200", a.status, a.body)
	}
	for _, tt := range e2bRoutes {
		for name, to := range map[string]string{"another sandbox": other.SandboxID, "another tenant's": own.SandboxID, "the debug sandbox": "debug_sandbox_id", "the API": mine.SandboxID} {
			if strings.Contains(tt.path, "/sandboxes") != (name == "the API") {
				continue
			}
			if a := ask(tt.method, strings.Replace(tt.path, "ID", to, 1), to, access, tt.body); a.status != http.StatusUnauthorized {
				t.Errorf("%s: %s %s: got %d %s, want 401", name, tt.method, tt.path, a.status, a.body)
			}
		}
	}
	for _, path := range []string{"/e2b/sandboxes", "/v1/sessions", "/v1/sessions/" + mine.SandboxID, "/v1/jobs"} {
		if a := w.do(t, "GET", path, nil, from(), "Authorization: Bearer "+access, "E2b-Sandbox-Id: "+mine.SandboxID); a.status != http.StatusUnauthorized {
			t.Errorf("%s: got %d %s, want 401", path, a.status, a.body)
		}
	}
	forged := []string{strings.Replace(access, id, "GLOVEBOX_TOKEN", 1), access + "A", access[:len(access)-1], "gbs_" + id + ".", "gbs_"}
	expired, err := w.Links.SessionToken(mine.SandboxID, id, time.Now().Add(-time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range append(forged, expired) {
		if a := ask("GET", "/e2b/health", mine.SandboxID, token, ""); a.status != http.StatusUnauthorized {
			t.Errorf("%s: got %d %s, want 401", token, a.status, a.body)
		}
	}
	narrow, _ := w.limited(t, "narrow", job.ScopeSubmit)
	only := w.sandbox(t, "Authorization: Bearer "+narrow)
	if a := ask("GET", "/e2b/health", only.SandboxID, only.EnvdAccessToken, ""); a.status != http.StatusForbidden {
		t.Errorf("of a token that can't read: got %d %s, want 403", a.status, a.body)
	}
	if a := w.do(t, "DELETE", "/e2b/sandboxes/"+other.SandboxID, nil, "Authorization: Bearer "+secret); a.status != http.StatusNoContent {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	if a := ask("GET", "/e2b/health", other.SandboxID, other.EnvdAccessToken, ""); a.status != http.StatusBadGateway {
		t.Errorf("of one that has ended: got %d %s, want 502", a.status, a.body)
	}
	if err := w.Records.RevokeToken(t.Context(), "acme", id); err != nil {
		t.Fatal(err)
	}
	gbtest.Eventually(t, "it is no longer good, the token behind it being revoked", func() bool {
		return ask("GET", "/e2b/health", mine.SandboxID, access, "").status == http.StatusUnauthorized
	})
}

// TestE2BSubmitOnly: a token that may not read is told of what it starts itself, and not of others' programs and files.
func TestE2BSubmitOnly(t *testing.T) {
	t.Parallel()
	w := newE2B(t)
	secret, _ := w.limited(t, "acme", job.ScopeSubmit)
	x := w.sandbox(t, "Authorization: Bearer "+secret)
	for _, bearer := range []string{secret, x.EnvdAccessToken} {
		headers := []string{"Authorization: Bearer " + bearer, "E2b-Sandbox-Id: " + x.SandboxID, "Content-Type: application/json"}
		for method, body := range map[string]string{"List": `{}`, "Connect": `{"process":{"pid":1}}`} {
			a := w.do(t, "POST", "/e2b/process.Process/"+method, strings.NewReader(body), headers...)
			if a.status != http.StatusForbidden || !strings.Contains(string(a.body), "permission_denied") {
				t.Errorf("%s: got %d %s, want 403", method, a.status, a.body)
			}
		}
		for _, method := range []string{"ListDir", "Stat"} {
			a := w.do(t, "POST", "/e2b/filesystem.Filesystem/"+method, strings.NewReader(`{}`), headers...)
			if a.status != http.StatusForbidden || !strings.Contains(string(a.body), "permission_denied") {
				t.Errorf("%s: got %d %s, want 403", method, a.status, a.body)
			}
		}
		if a := w.do(t, "GET", "/e2b/files", nil, headers...); a.status != http.StatusForbidden || !strings.Contains(string(a.body), `"code":403`) {
			t.Errorf("read a file: got %d %s, want 403", a.status, a.body)
		}
		if a := w.do(t, "POST", "/e2b/filesystem.Filesystem/MakeDir", strings.NewReader(`{}`), headers...); a.status != http.StatusBadRequest {
			t.Errorf("MakeDir: got %d %s, want that the path is missing", a.status, a.body)
		}
		if status := w.started(t, headers...); status != http.StatusOK {
			t.Errorf("Start: got %d, want that it starts", status)
		}
	}
	// A client that may read, as one without a token may of its own sandbox, is told that the path is missing.
	own := w.sandbox(t, guest)
	mine := w.sandbox(t)
	for _, headers := range [][]string{{guest, "E2b-Sandbox-Id: " + own.SandboxID}, {as(mine.EnvdAccessToken), "E2b-Sandbox-Id: " + mine.SandboxID}} {
		for _, r := range [][2]string{{"GET", "/e2b/files"}, {"POST", "/e2b/filesystem.Filesystem/ListDir"}, {"POST", "/e2b/filesystem.Filesystem/Stat"}} {
			if a := w.do(t, r[0], r[1], strings.NewReader(`{}`), append(headers, "Content-Type: application/json")...); a.status != http.StatusBadRequest {
				t.Errorf("%v: got %d %s, want 400", r, a.status, a.body)
			}
		}
	}
}

// started starts a program, and leaves once it is told that it starts, or does not.
func (w *world) started(t *testing.T, headers ...string) (status int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.srv.URL+"/e2b/process.Process/Start", strings.NewReader(`{"process":{"cmd":"true"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// TestE2BList: pages of sandboxes leave none out and repeat none, whatever is between them, and the search for one is bounded.
func TestE2BList(t *testing.T) {
	t.Parallel()
	w := newE2B(t)
	want := map[string]bool{}
	for i := range 7 {
		x := w.sandbox(t)
		if i%3 == 1 {
			if _, err := w.Client.EndSession(t.Context(), x.SandboxID); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want[x.SandboxID] = true
	}
	for _, limit := range []string{"1", "2", "5", "200"} {
		got := map[string]bool{}
		for cursor, more := "", true; more; more = cursor != "" {
			a := w.do(t, "GET", "/e2b/v2/sandboxes?limit="+limit+"&nextToken="+cursor, nil)
			var list []e2bSandbox
			if err := json.Unmarshal(a.body, &list); err != nil || a.status != http.StatusOK {
				t.Fatalf("got %d %s", a.status, a.body)
			}
			for _, x := range list {
				if got[x.SandboxID] {
					t.Errorf("limit %s: %s appears twice", limit, x.SandboxID)
				}
				got[x.SandboxID] = true
			}
			cursor = a.header.Get("X-Next-Token")
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("limit %s: got %v, want %v", limit, got, want)
		}
	}
	before := w.calls(t, "zrange")
	if a := w.do(t, "GET", "/e2b/sandboxes?limit=1&template=none", nil); string(a.body) != "[]\n" {
		t.Errorf("got %s, want none", a.body)
	}
	if n := w.calls(t, "zrange") - before; n > 1 {
		t.Errorf("the list was read %d times for 7 sessions, want once", n)
	}
}

// calls is how often Redis was asked a command.
func (w *world) calls(t *testing.T, command string) (n int64) {
	t.Helper()
	info, err := w.Raw.InfoMap(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Sscanf(info["Commandstats"]["cmdstat_"+command], "calls=%d", &n)
	return n
}
