package api_test

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// mimic is a façade that answers what it is told of a request.
func mimic() facade.Facade {
	echo := func(w http.ResponseWriter, r *http.Request, c *facade.Call) {
		body, done, err := c.Host.Body(r.Context())
		if err != nil {
			p := c.Host.Problem(r.Context(), err)
			w.WriteHeader(p.Status)
			return
		}
		defer done()
		if string(body) == "panic" {
			panic("oh no")
		}
		_, _ = io.WriteString(w, c.Tenant+" "+r.PathValue("name")+" "+string(body))
	}
	return facade.Facade{
		Name: "mimic", Base: "/mimic",
		Refuse: func(w http.ResponseWriter, _ *http.Request, p *producer.Problem) {
			w.WriteHeader(p.Status)
			_, _ = io.WriteString(w, "mimic: "+p.Code())
		},
		Routes: []facade.Route{
			{Pattern: "POST /echo/{name}", Scope: job.ScopeSubmit, Action: "job.submit", Serve: echo},
			{Pattern: "GET /any", Scope: facade.AnyToken, Serve: echo},
			{Pattern: "GET /public", Scope: facade.Public, Serve: echo},
			{Pattern: "DELETE /all", Scope: job.ScopeManage, Action: "job.purge", Serve: echo},
		},
	}
}

func TestFacades(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(c *apiConfig) { c.Facades = []facade.Facade{mimic()} })
	const noToken = "Authorization: "
	for _, tt := range []struct {
		method, path, body string
		headers            []string
		status             int
		answer             string
	}{
		{"POST", "/mimic/echo/a", "b", nil, 200, "default a b"},
		{"POST", "/mimic/echo/a/", "b", nil, 200, "default a b"},
		{"POST", "/mimic//echo//a", "b", nil, 200, "default a b"},
		{"POST", "/mimic/echo/a", "b", []string{noToken, "X-API-KEY: " + otherToken}, 200, "other a b"},
		{"GET", "/mimic/public", "", []string{noToken}, 200, "  "},
		{"GET", "/mimic/any", "", []string{noToken}, 401, "mimic: unauthorized"},
		{"GET", "/mimic/any", "", []string{"Authorization: Bearer nobodys"}, 401, "mimic: unauthorized"},
		{"PUT", "/mimic/any", "", nil, 404, "mimic: no_route"},
		{"GET", "/mimic", "", nil, 404, "mimic: no_route"},
		{"GET", "/mimic/", "", nil, 404, "mimic: no_route"},
		{"GET", "/mimic/../v1/jobs", "", nil, 404, "mimic: no_route"},
		{"GET", "/mimic/%2e%2e/v1/jobs", "", nil, 404, "mimic: no_route"},
		{"POST", "/mimic/echo/a", "panic", nil, 500, "mimic: internal"},
		{"OPTIONS", "/mimic/echo/a", "", []string{noToken}, 204, ""},
		{"OPTIONS", "/mimic/nothing/", "", []string{noToken}, 204, ""},
	} {
		a := w.do(t, tt.method, tt.path, strings.NewReader(tt.body), tt.headers...)
		if a.status != tt.status || string(a.body) != tt.answer || a.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s %s %v: got %d %q, %v, want %d %q", tt.method, tt.path, tt.headers, a.status, a.body, a.header, tt.status, tt.answer)
		}
	}
	for asked, allowed := range map[string]string{"": "X-API-KEY, Origin, X-Requested-With, Content-Type, Accept", "x-of-mine, content-type": "x-of-mine, content-type"} {
		a := w.do(t, http.MethodOptions, "/mimic/echo/a", nil, noToken, "Access-Control-Request-Headers: "+asked)
		if got := a.header.Get("Access-Control-Allow-Headers"); !strings.Contains(got, allowed) || a.header.Get("Access-Control-Allow-Methods") != "GET, POST, OPTIONS, PUT, HEAD, DELETE" {
			t.Errorf("a browser that asks for %q: got %v", asked, a.header)
		}
	}
	if a := w.do(t, http.MethodGet, "/mimicry", nil); a.status != http.StatusNotFound || a.header.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(string(a.body), "no_route") {
		t.Errorf("a path beside it: got %d %s", a.status, a.body)
	}
	if a := w.do(t, http.MethodPost, "/mimic/echo/a", io.NewSectionReader(zeros{}, 0, 200<<20)); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: got %d %s, want 413", a.status, a.body)
	}
	if log := w.log.String(); !strings.Contains(log, `"action":"job.submit"`) || strings.Contains(log, token) {
		t.Errorf("the log has no audit line, or a token: %s", log)
	}
	for _, pattern := range []string{"POST /mimic/echo/{name}", "/mimic/"} {
		if !slices.Contains(w.api.Patterns(), pattern) {
			t.Errorf("%s is no route", pattern)
		}
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) ReadAt(b []byte, _ int64) (int, error) { return len(b), nil }

// TestFacadeTenant: without a token a request is the tenant's whom the operator names, and may submit and read.
func TestFacadeTenant(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(c *apiConfig) { c.Facades, c.FacadeTenant = []facade.Facade{mimic()}, "guests" })
	const noToken = "Authorization: "
	for _, tt := range []struct {
		method, path, header string
		status               int
		answer               string
	}{
		{"POST", "/mimic/echo/a", noToken, 200, "guests a "},
		{"POST", "/mimic/echo/a", "X-API-KEY: " + token, 200, "default a "},
		{"POST", "/mimic/echo/a", "Authorization: Bearer nobodys", 401, "mimic: unauthorized"},
		{"POST", "/mimic/echo/a", "Authorization: Digest nobodys", 401, "mimic: unauthorized"},
		{"DELETE", "/mimic/all", noToken, 403, "mimic: missing_scope"},
	} {
		if a := w.do(t, tt.method, tt.path, nil, tt.header); a.status != tt.status || string(a.body) != tt.answer {
			t.Errorf("%s %s %s: got %d %q, want %d %q", tt.method, tt.path, tt.header, a.status, a.body, tt.status, tt.answer)
		}
	}
	if a := w.do(t, http.MethodGet, "/v1/jobs", nil, noToken); a.status != http.StatusUnauthorized {
		t.Errorf("a native route without a token: got %d, want 401", a.status)
	}
	gbtest.Eventually(t, "the audit log has the guest", func() bool {
		page, err := w.Client.Audit(t.Context(), producer.AuditOptions{Tenant: "guests"})
		return err == nil && len(page.Entries) > 0 && page.Entries[0].TokenID == "GLOVEBOX_FACADE_TENANT"
	})
}

// TestServeFacade: on an address of its own a façade has no base path, and nothing else is there.
func TestServeFacade(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(c *apiConfig) { c.Facades = []facade.Facade{mimic()} })
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.api.ServeFacade(t.Context(), l, "mimic") }()
	for path, want := range map[string]int{
		"/public": 200, "/mimic/public": 200, "/v1/jobs": 404, "/healthz": 404, "/any": 401,
	} {
		if a := w.do(t, http.MethodGet, "http://"+l.Addr().String()+path, nil, "Authorization: "); a.status != want {
			t.Errorf("%s: got %d, want %d", path, a.status, want)
		}
	}
	if err := w.api.ServeFacade(t.Context(), l, "other"); err == nil {
		t.Error("a façade that isn't on is served")
	}
	w.api.Drain()
	select {
	case err := <-served:
		t.Errorf("it ended: %v", err)
	case <-time.After(0):
	}
	l.Close()
	if err := <-served; err == nil {
		t.Error("it ended without an error, its listener closed under it")
	}
}

// TestFacadesRefused: façades that can't be told apart are refused at start.
func TestFacadesRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, change := range map[string]func(*api.Config){
		"twice":     func(c *api.Config) { c.Facades = []facade.Facade{mimic(), mimic()} },
		"no name":   func(c *api.Config) { c.Facades = []facade.Facade{{Base: "/x", Refuse: mimic().Refuse}} },
		"no tenant": func(c *api.Config) { c.FacadeTenant = "No Tenant" },
	} {
		config := api.Config{Client: w.Client, Links: w.Links, Tokens: map[api.TokenHash]string{api.HashToken(token): "default"}}
		change(&config)
		if _, err := api.New(config); err == nil {
			t.Errorf("%s: it is accepted", name)
		}
	}
}
