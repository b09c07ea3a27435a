package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"slices"
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
	"github.com/glovebox-run/glovebox/producer/tools"
)

// pixel is a picture.
var pixel = func() string {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		panic(err)
	}
	return b.String()
}()

const (
	runHello  = `{"language":"python","code":"print('hello')"}`
	callHello = `{"arguments":` + runHello + `}`
)

// endNext ends the tenant's next job as a worker would, in the background.
func (w *world) endNext(t *testing.T, files map[string]string, change func(*job.Result)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.End(t, w.Start(t, w.queued(t)), files, change)
	}()
	t.Cleanup(func() { <-done })
}

// queued waits for a job of the tenant that is queued, and returns its id.
func (w *world) queued(t *testing.T, headers ...string) (id string) {
	t.Helper()
	gbtest.Eventually(t, "a job is queued", func() bool {
		var page struct {
			Jobs []job.Summary `json:"jobs"`
		}
		a := w.do(t, http.MethodGet, "/v1/jobs?status=queued", http.NoBody, headers...)
		if err := json.Unmarshal(a.body, &page); err != nil || len(page.Jobs) == 0 {
			return false
		}
		id = page.Jobs[0].ID
		return true
	})
	return id
}

// TestListTools: each provider's form, with the languages of this Glovebox.
func TestListTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	for _, format := range tools.Formats() {
		a := w.do(t, http.MethodGet, "/v1/tools?format="+string(format), http.NoBody)
		if a.status != http.StatusOK {
			t.Fatalf("%s: got %d %s", format, a.status, a.body)
		}
		golden(t, "tools-"+string(format)+".json", indented(t, a.body))
	}
	for query, want := range map[string]int{"": http.StatusOK, "?format=gemini": http.StatusUnprocessableEntity} {
		if a := w.do(t, http.MethodGet, "/v1/tools"+query, http.NoBody); a.status != want {
			t.Errorf("%q: got %d %s, want %d", query, a.status, a.body, want)
		}
	}
}

// TestCallTool: what a model reads of a job that was run for it.
func TestCallTool(t *testing.T) {
	w := newWorld(t)
	w.Runtimes(t)
	for name, body := range map[string]string{
		"object": callHello,
		"text":   `{"arguments":` + marshal(t, runHello) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			w.endNext(t, map[string]string{"chart-1.png": pixel}, nil)
			answer := w.call(t, "run_code", body)
			if answer.IsError || answer.JobID == "" || len(answer.Content) != 3 {
				t.Fatalf("got %+v", answer)
			}
			text, image, link := answer.Content[0], answer.Content[1], answer.Content[2]
			if !strings.Contains(text.Text, "status: succeeded, exit code 0\nstdout:\nhello\n") || !strings.Contains(text.Text, "- chart-1.png (image/png, ") || !strings.Contains(text.Text, "job_id: "+answer.JobID) {
				t.Errorf("got text %q", text.Text)
			}
			if image.Type != "image" || string(image.Data) != pixel || image.MediaType != "image/png" {
				t.Errorf("got image %+v", image)
			}
			if got := w.do(t, http.MethodGet, strings.TrimPrefix(link.URL, w.srv.URL), http.NoBody, "Authorization: "); got.status != http.StatusFound {
				t.Errorf("link %s: got %d", link.URL, got.status)
			}
			again := w.call(t, "get_job", `{"arguments":{"job_id":"`+answer.JobID+`","wait_seconds":30}}`)
			if again.Content[0].Text != text.Text {
				t.Errorf("get_job: got %q", again.Content[0].Text)
			}
		})
	}
}

// TestCallToolFailed: a program that failed is an error for the model, with its whole story.
func TestCallToolFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.endNext(t, nil, func(r *job.Result) {
		one := 1
		r.Status, r.ExitCode, r.Stdout = job.Failed, &one, strings.Repeat("é", 10_000)
		r.Stderr = "Traceback" + strings.Repeat("x", 20_000) + "ValueError: the end"
	})
	answer := w.call(t, "run_code", callHello)
	text := answer.Content[0].Text
	if !answer.IsError || answer.Outcome.Status != job.Failed || *answer.Outcome.ExitCode != 1 {
		t.Errorf("got %+v", answer)
	}
	if len(text) > 20_000 || !strings.Contains(text, "bytes are left out here") || !strings.Contains(text, "Traceback") || !strings.Contains(text, "ValueError: the end") || strings.ContainsRune(text, '\ufffd') {
		t.Errorf("got %d bytes of text: %.200s", len(text), text)
	}
}

// TestCallToolRefused: what can't be done is said so that a model, or its program, can mend it.
func TestCallToolRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	for name, c := range map[string]struct {
		tool, body string
		status     int
		says       string
		headers    []string
	}{
		"no tool":                  {"rm_rf", callHello, http.StatusNotFound, "there is no such tool", nil},
		"no token":                 {"run_code", callHello, http.StatusUnauthorized, "needs a token", []string{"Authorization: "}},
		"no JSON":                  {"run_code", `{"arguments"`, http.StatusBadRequest, "not a call of a tool", nil},
		"nothing":                  {"run_code", `{}`, http.StatusBadRequest, "not a call of a tool", nil},
		"another field":            {"run_code", `{"arguments":{},"code":"x"}`, http.StatusBadRequest, "not a call of a tool", nil},
		"another media type":       {"run_code", callHello, http.StatusUnsupportedMediaType, "application/json", []string{"Content-Type: text/plain"}},
		"unknown argument":         {"run_code", `{"arguments":{"code":"x","language":"python","lang":"x"}}`, http.StatusOK, `unknown field "lang"`, nil},
		"wrong type":               {"run_code", `{"arguments":{"code":7,"language":"python"}}`, http.StatusOK, "code is a number", nil},
		"no object":                {"run_code", `{"arguments":[1]}`, http.StatusOK, "want a JSON object", nil},
		"text that is no JSON":     {"run_code", `{"arguments":"print(1)"}`, http.StatusOK, "want a JSON object", nil},
		"more behind":              {"run_code", `{"arguments":"{} {}"}`, http.StatusOK, "behind the object", nil},
		"no code":                  {"run_code", `{"arguments":{"code":" ","language":"python"}}`, http.StatusOK, "code: is empty", nil},
		"no such language":         {"run_code", `{"arguments":{"code":"x","language":"cobol"}}`, http.StatusOK, "language: is not a runtime of this Glovebox; allowed: bash, python, python3", nil},
		"too long":                 {"run_code", `{"arguments":{"code":"x","language":"python","timeout_ms":999999999}}`, http.StatusOK, "timeout_ms: is out of range", nil},
		"negative":                 {"run_code", `{"arguments":{"code":"x","language":"python","timeout_ms":-1}}`, http.StatusOK, "timeout_ms: is negative", nil},
		"a file outside":           {"run_code", `{"arguments":{"code":"x","language":"python","files":[{"name":"../x","content":"x"}]}}`, http.StatusOK, "files[0].name", nil},
		"no language":              {"run_code", `{"arguments":{"code":"x"}}`, http.StatusOK, "language: is missing", nil},
		"no session":               {"run_code", `{"arguments":{"code":"x","session_id":"default-s-abcdefghijklmnopqrstuvwxyz"}}`, http.StatusOK, "there is no such session", nil},
		"another's session":        {"end_session", `{"arguments":{"session_id":"other-s-abcdefghijklmnopqrstuvwxyz"}}`, http.StatusOK, "there is no such session", nil},
		"no sessions":              {"run_code", `{"arguments":{"code":"x","language":"bash","session_id":"new"}}`, http.StatusOK, "language: has no sessions", nil},
		"a file outside a session": {"run_code", `{"arguments":{"code":"x","language":"python","session_id":"new","files":[{"name":"../x","content":"x"}]}}`, http.StatusOK, "files[0].name", nil},
		"stdin in a session":       {"run_code", `{"arguments":{"code":"x","language":"python","session_id":"new","stdin":"x"}}`, http.StatusOK, "stdin: a session has none", nil},
		"another's file":           {"read_file", `{"arguments":{"session_id":"other-s-abcdefghijklmnopqrstuvwxyz","path":"a"}}`, http.StatusOK, "there is no such session", nil},
		"a file of the system":     {"read_file", `{"arguments":{"session_id":"default-s-abcdefghijklmnopqrstuvwxyz","path":"/etc/passwd"}}`, http.StatusOK, "path: is absolute", nil},
		"a file without content":   {"write_file", `{"arguments":{"session_id":"default-s-abcdefghijklmnopqrstuvwxyz","path":"a"}}`, http.StatusOK, "content: is missing", nil},
		"a file above":             {"write_file", `{"arguments":{"session_id":"default-s-abcdefghijklmnopqrstuvwxyz","path":"../a","content":""}}`, http.StatusOK, "path: is not a plain path", nil},
		"no such job":              {"get_job", `{"arguments":{"job_id":"default-abcdefghijklmnopqrstuvwxyz"}}`, http.StatusOK, "there is no such job", nil},
		"another's job":            {"get_job", `{"arguments":{"job_id":"other-abcdefghijklmnopqrstuvwxyz"}}`, http.StatusOK, "there is no such job", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := w.do(t, http.MethodPost, "/v1/tools/"+c.tool, strings.NewReader(c.body), append([]string{"Content-Type: application/json"}, c.headers...)...)
			var answer tools.Answer
			_ = json.Unmarshal(a.body, &answer) // of a problem it is none
			said := string(a.body)
			if len(answer.Content) > 0 {
				said = answer.Content[0].Text
			}
			if a.status != c.status || !strings.Contains(said, c.says) || c.status == http.StatusOK && !answer.IsError {
				t.Errorf("got %d %s, want %d with %q", a.status, a.body, c.status, c.says)
			}
		})
	}
}

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

// call calls a tool, which must be answered.
func (w *world) call(t *testing.T, tool, body string) (answer tools.Answer) {
	t.Helper()
	a := w.do(t, http.MethodPost, "/v1/tools/"+tool, strings.NewReader(body), "Content-Type: application/json")
	if err := json.Unmarshal(a.body, &answer); err != nil || a.status != http.StatusOK {
		t.Fatalf("got %d %s, %v", a.status, a.body, err)
	}
	return answer
}

// TestListSessionsTool: a model finds its sessions again, and no others.
func TestListSessionsTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	if text := w.call(t, "list_sessions", `{"arguments":{}}`).Content[0].Text; !strings.HasPrefix(text, "There is no session.") {
		t.Errorf("got %q", text)
	}
	ids := map[string]string{}
	for name, metadata := range map[string]string{"own": `{"tool":"run_code"}`, "ended": `{"tool":"run_code"}`, "another's": `{"tool":"notebook"}`} {
		var x job.Session
		w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python","metadata":`+metadata+`}`, http.StatusAccepted, &x)
		ids[name] = x.ID
	}
	w.expecting(t, "DELETE", "/v1/sessions/"+ids["ended"], "", http.StatusOK, nil)
	text := w.call(t, "list_sessions", `{"arguments":{}}`).Content[0].Text
	if !strings.HasPrefix(text, "session_id "+ids["own"]+": python, queued, 0 calls, used last at 20") || strings.Count(text, "\n") != 1 {
		t.Errorf("got %q, want %s alone", text, ids["own"])
	}
}

// auditLine is a line of the log that tells of an action.
type auditLine struct{ Msg, Action, Object, Outcome string }

// audited are those of the log so far.
func (w *world) audited() (lines []auditLine) {
	for text := range strings.Lines(w.log.String()) {
		var line auditLine
		if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "audit" {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestToolsAudit: a program that a model runs is in the audit log, as one that was submitted otherwise.
func TestToolsAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.endNext(t, nil, nil)
	answer := w.call(t, "run_code", callHello)
	w.call(t, "get_job", `{"arguments":{"job_id":"`+answer.JobID+`"}}`)
	w.call(t, "run_code", strings.Replace(callHello, "python", "cobol", 1)) // is refused
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := w.try(ctx, http.MethodPost, "/v1/tools/run_code", strings.NewReader(callHello), "Content-Type: application/json")
		left <- err
	}()
	id := w.queued(t)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	gbtest.Eventually(t, "the log has all four requests", func() bool { return strings.Count(w.log.String(), "/v1/tools/") == 4 && len(w.audited()) >= 3 })
	var audited []string
	for _, entry := range w.audited() {
		audited = append(audited, strings.TrimSpace(fmt.Sprintln(entry.Action, entry.Outcome, entry.Object)))
	}
	slices.Sort(audited)
	want := []string{"job.submit ok " + answer.JobID, "job.submit ok " + id, "job.submit refused run_code"}
	slices.Sort(want)
	if !slices.Equal(audited, want) {
		t.Errorf("got %q, want %q", audited, want)
	}
}

// TestToolsAuditSession: a call that starts a session, executes in it and ends it has done three things, and each is in the audit log.
func TestToolsAuditSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := w.try(ctx, http.MethodPost, "/v1/tools/run_code", strings.NewReader(`{"arguments":{"language":"python","code":"1","session_id":"new"}}`), "Content-Type: application/json")
		left <- err
	}()
	id := w.queued(t)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	gbtest.Eventually(t, "the log has all", func() bool { return strings.Contains(w.log.String(), "/v1/tools/") && len(w.audited()) >= 3 })
	var audited, objects []string
	for _, entry := range w.audited() {
		audited, objects = append(audited, entry.Action+" "+entry.Outcome), append(objects, entry.Object)
	}
	if want := []string{"session.start ok", "job.submit ok", "session.end ok"}; !slices.Equal(audited, want) || objects[1] != id || objects[0] == "" || objects[0] != objects[2] {
		t.Errorf("got %q of %q, want %q", audited, objects, want)
	}
}

// TestOddImages: what a program says is an image goes to a model as one only if it is; the link is there
// in any case.
func TestOddImages(t *testing.T) {
	w := newWorld(t)
	w.Runtimes(t)
	huge := []byte(pixel)
	copy(huge[16:], "\x00\x00\xff\xff\x00\x00\xff\xff") // the header's width and height, whose sum is wrong then
	for name, content := range map[string]string{
		"cut off": pixel[:len(pixel)-4], "no picture": "\x89PNG\r\n\x1a\nnot really", "huge": string(huge), "too large": pixel + strings.Repeat("x", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			w.endNext(t, map[string]string{"chart-1.png": content}, nil)
			answer := w.call(t, "run_code", callHello)
			if len(answer.Content) != 2 || answer.Content[1].Type != "link" {
				t.Errorf("got %d pieces: %.300v", len(answer.Content), answer.Content)
			}
		})
	}
}
