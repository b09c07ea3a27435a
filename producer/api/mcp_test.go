package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// TestMCP: clients of both eras list, call and cancel.
func TestMCP(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Runtimes(t)
			session := w.connect(t, revision)
			list, err := session.ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != 6 || list.Tools[4].Name != "run_code" || list.CacheScope != "private" {
				t.Fatalf("got %+v, %v", list, err)
			}
			w.endNext(t, map[string]string{"chart-1.png": pixel}, nil)
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_code", Arguments: json.RawMessage(runHello)})
			if err != nil || r.IsError || len(r.Content) != 3 {
				t.Fatalf("got %+v, %v", r, err)
			}
			if image, ok := r.Content[1].(*mcp.ImageContent); !ok || string(image.Data) != pixel {
				t.Errorf("got %+v", r.Content[1])
			}
			if outcome, ok := r.StructuredContent.(map[string]any); !ok || outcome["stdout"] != "hello\n" || outcome["exit_code"] != 0.0 {
				t.Errorf("got %+v", r.StructuredContent)
			}
			r, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_code", Arguments: json.RawMessage(`{}`)})
			if err != nil || !r.IsError {
				t.Errorf("no code: got %+v, %v", r, err)
			}
			_, err = session.ListPrompts(t.Context(), nil)
			var refused *jsonrpc.Error
			if !errors.As(err, &refused) || refused.Code != jsonrpc.CodeMethodNotFound {
				t.Errorf("prompts: got %v", err)
			}
			w.cancelled(t, session)
		})
	}
}

// cancelled checks that a call that its client cancels ends its job.
func (w *world) cancelled(t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "run_code", Arguments: json.RawMessage(runHello)})
		failed <- err
	}()
	id := w.queued(t)
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it cancelled", err)
	}
	gbtest.Eventually(t, "the job is cancelled", func() bool {
		var j job.Summary
		return json.Unmarshal(w.do(t, http.MethodGet, "/v1/jobs/"+id, http.NoBody).body, &j) == nil && j.Status == job.Canceled
	})
}

// TestMCPCancelOfOthers: a message cancels nothing of another tenant, token or session.
func TestMCPCancelOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	owner, _ := w.tenant(t, "acme", job.Terms{})
	reader := w.token(t, producer.TokenRequest{Scopes: []job.Scope{job.ScopeRead}}).Secret
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"run_code","arguments":` + runHello + `}}`
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`
	send := func(body string, headers ...string) answer {
		return w.do(t, http.MethodPost, "/mcp", strings.NewReader(body), append([]string{
			"Content-Type: application/json", "Accept: application/json, text/event-stream", "Mcp-Protocol-Version: 2025-11-25", as(owner),
		}, headers...)...)
	}
	answered := make(chan answer, 1)
	go func() { answered <- send(call, "Mcp-Session-Id: mine") }()
	id := w.queued(t, as(owner))
	send(cancel, "Mcp-Session-Id: mine", as(otherToken))
	send(cancel, "Mcp-Session-Id: mine", as(reader))
	send(cancel, "Mcp-Session-Id: yours")
	send(cancel)
	send(strings.Replace(cancel, "7", "8", 1), "Mcp-Session-Id: mine")
	told, stop := w.Client.WatchCall("marker")
	defer stop()
	gbtest.Eventually(t, "all of these are told", func() bool { // they come in their order
		if err := w.Client.CancelCall(t.Context(), "marker"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-told:
			return true
		case <-time.After(10 * time.Millisecond):
			return false
		}
	})
	w.End(t, w.Start(t, id), nil, nil)
	if a := <-answered; a.status != http.StatusOK || !strings.Contains(string(a.body), "hello") {
		t.Errorf("got %d %s", a.status, a.body)
	}
}

// TestMCPRefused: requests that don't get to the protocol.
func TestMCPRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for name, c := range map[string]struct {
		method, body string
		headers      []string
		status       int
	}{
		"no token":       {http.MethodPost, list, []string{"Authorization: "}, http.StatusUnauthorized},
		"another origin": {http.MethodPost, list, []string{"Origin: https://example.com"}, http.StatusForbidden},
		"another site":   {http.MethodPost, list, []string{"Sec-Fetch-Site: cross-site"}, http.StatusForbidden},
		"a stream":       {http.MethodGet, "", nil, http.StatusMethodNotAllowed},
		"no JSON":        {http.MethodPost, "{", nil, http.StatusBadRequest},
		"a list":         {http.MethodPost, " [" + list + "," + list + "]", []string{"Mcp-Protocol-Version: 2025-03-26"}, http.StatusBadRequest},
		"too much":       {http.MethodPost, strings.Repeat(" ", 5<<20), nil, http.StatusRequestEntityTooLarge},
		"no runtimes":    {http.MethodPost, list, nil, http.StatusOK},
		"a proxy's name": {http.MethodPost, list, []string{"X-Forwarded-Host: example.com"}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := w.do(t, c.method, "/mcp", strings.NewReader(c.body), append([]string{
				"Content-Type: application/json", "Accept: application/json, text/event-stream", "Mcp-Protocol-Version: 2025-11-25",
			}, c.headers...)...)
			if a.status != c.status {
				t.Errorf("got %d %s, want %d", a.status, a.body, c.status)
			}
			if c.status == http.StatusUnauthorized && !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("got WWW-Authenticate %q", a.header.Get("WWW-Authenticate"))
			}
		})
	}
}

// TestMCPHost: over loopback, a request asks for this machine or for the API by its own name. A stranger's page that had its name pointed here
// gets nothing.
func TestMCPHost(t *testing.T) {
	t.Parallel()
	tokens, err := artifacts.NewTokens(producertest.TokenKey())
	if err != nil {
		t.Fatal(err)
	}
	links, err := direct.NewLinks("https://Glovebox.example.com:8443/some/path", tokens)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, func(c *api.Config) { c.Links = links })
	for host, want := range map[string]int{
		"localhost": http.StatusOK, "localhost:1": http.StatusOK, "127.0.0.1:8437": http.StatusOK, "[::1]": http.StatusOK, "[::1]:8437": http.StatusOK,
		"glovebox.example.com": http.StatusOK, "GLOVEBOX.example.com:80": http.StatusOK,
		"evil.example.com": http.StatusForbidden, "glovebox.example.com.evil.com": http.StatusForbidden, "evil.com:8443": http.StatusForbidden,
		"localhost.evil.com": http.StatusForbidden, "10.0.0.1": http.StatusForbidden, "127.0.0.1.evil.com:80": http.StatusForbidden,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.srv.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		for _, header := range []string{"Content-Type: application/json", "Accept: application/json, text/event-stream", "Mcp-Protocol-Version: 2025-11-25", "Authorization: Bearer " + token} {
			name, value, _ := strings.Cut(header, ": ")
			req.Header.Set(name, value)
		}
		res, err := w.srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: got %d, want %d", host, res.StatusCode, want)
		}
	}
}

// connect opens a session of the protocol as a client of that revision does.
func (w *world) connect(t *testing.T, revision string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: w.srv.URL + "/mcp", HTTPClient: &http.Client{Transport: bearer{w.srv.Client().Transport}}, MaxRetries: -1,
		DisableStandaloneSSE: true,
	}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() }) // the server may have ended it
	return session
}

// bearer adds the tenant's token.
type bearer struct{ http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return b.RoundTripper.RoundTrip(r)
}

// TestMCPCancelOfABusyTenant: a message that cancels a call is taken, however many calls are under way.
func TestMCPCancelOfABusyTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	defer w.api.TakeToolCalls(t, "default")()
	headers := []string{"Content-Type: application/json", "Accept: application/json, text/event-stream", "Mcp-Protocol-Version: 2025-11-25", "Mcp-Session-Id: one"}
	for message, want := range map[string]int{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_job","arguments":{"job_id":"x"}}}`:                            http.StatusTooManyRequests,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","METHOD":"ping","Params":5,"params":{"name":"get_job","arguments":{"job_id":"x"}}}`: http.StatusTooManyRequests,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`:                                                    http.StatusAccepted,
		`{"jsonrpc":"2.0","id":2,"method":"ping"}`:                                                                                         http.StatusOK,
	} {
		if a := w.do(t, http.MethodPost, "/mcp", strings.NewReader(message), headers...); a.status != want {
			t.Errorf("%s: got %d %s, want %d", message, a.status, a.body, want)
		}
	}
}
