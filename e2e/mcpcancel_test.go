package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// cancelledCall is what a client says as it cancels, or leaves.
type cancelledCall struct {
	What    string
	Session string `json:"session_id"`
	At      int64  // ms
}

// cancelTime is within what a call's code has to end that its client has cancelled.
const cancelTime = 2 * time.Second

// TestMCPCancel: code that never ends is over within two seconds of when its client cancels the call, or leaves: a job, code in a session that keeps
// its state, code there that hears no interrupt, and a new session. By itself, as it measures time.
func TestMCPCancel(t *testing.T) {
	dir := gbtest.NPM(t, "testdata/mcp-client")
	g := start(t, options{})
	if testing.Short() { // what needs most to work: another api's word, an interpreter that has to be ended, a server that has lost its client
		g.mcpCalls(t, dir, g.twoAPIs(t), mcpClient{name: "sdk", revision: "2025-11-25", transport: "http"}, "cancel", "deaf")
		g.mcpCalls(t, dir, g.url, mcpClient{name: "client", revision: "2026-07-28", transport: "stdio"}, "leave", "job")
		return
	}
	kinds := []string{"job", "new", "session", "deaf"}
	for _, c := range mcpClients() {
		t.Run(c.String(), func(t *testing.T) { g.mcpCalls(t, dir, g.url, c, "cancel", kinds...) })
		for _, what := range []string{"job", "session"} {
			t.Run(c.String()+" leaves "+what, func(t *testing.T) { g.mcpCalls(t, dir, g.url, c, "leave", what) })
		}
	}
	t.Run("by another api", func(t *testing.T) {
		g.mcpCalls(t, dir, g.twoAPIs(t), mcpClient{name: "sdk", revision: "2025-11-25", transport: "http"}, "cancel", kinds...)
	})
	for _, era := range []string{"legacy", "modern"} {
		for _, transport := range []string{"http", "stdio"} {
			t.Run("Inspector "+era+" "+transport, func(t *testing.T) { g.inspectorLeaves(t, dir, transport, era) })
		}
	}
}

// mcpCalls runs a step of a client's that starts code which never ends, and looks how long that goes on.
func (g *glovebox) mcpCalls(t *testing.T, dir, url string, c mcpClient, step string, kinds ...string) {
	t.Helper()
	client := exec.CommandContext(t.Context(), newNode(t, dir), append([]string{"check.mjs", c.name, c.revision, c.transport, step}, kinds...)...)
	client.Dir, client.Env = dir, g.mcpEnv(url)
	var stderr bytes.Buffer
	client.Stderr = &stderr
	in, err := client.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	told, ok := 0, false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if ok = lines.Text() == "ok"; ok {
			break
		}
		var call cancelledCall
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			t.Fatalf("the client said %q: %v", lines.Text(), err)
		}
		told++
		g.endsSoon(t, call)
		if call.What == "session" || call.What == "deaf" { // it lives on
			defer func() {
				if _, err := g.client.EndSession(t.Context(), call.Session); err != nil {
					t.Error(err)
				}
			}()
		}
		if step == "cancel" {
			if _, err := io.WriteString(in, "on\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := client.Wait(); step == "cancel" && (err != nil || !ok) || told != len(kinds) {
		t.Errorf("%d of %d calls: %v\n%s", told, len(kinds), err, &stderr)
	}
}

// endsSoon checks that the newest job is canceled soon.
func (g *glovebox) endsSoon(t *testing.T, call cancelledCall) {
	t.Helper()
	page, err := g.client.List(t.Context(), producer.ListOptions{Limit: 1})
	if err != nil || len(page.Jobs) != 1 {
		t.Fatalf("got %d jobs, %v", len(page.Jobs), err)
	}
	r := g.wait(page.Jobs[0].ID)
	took := time.Since(time.UnixMilli(call.At))
	t.Logf("%s: over after %d ms", call.What, took.Milliseconds())
	most := cancelTime
	if testing.Short() {
		most *= 15 // the machine may be busy, and the code would go on for a minute
	}
	if r.Status != job.Canceled || took > most {
		t.Errorf("%s: got %s after %s, want it canceled within %s", call.What, r.Status, took, most)
	}
	state := ""
	if r.Session != nil {
		state = r.Session.State
	}
	switch call.What {
	case "job":
		if r.Session != nil {
			t.Errorf("a job: got %+v", r.Session)
		}
	case "new":
		sessions, err := g.client.ListSessions(t.Context(), producer.SessionListOptions{Limit: 1})
		if err != nil || len(sessions.Sessions) != 1 || sessions.Sessions[0].Status != job.SessionEnded {
			t.Errorf("a new session: got %+v, %v, want that it has ended", sessions.Sessions, err)
		}
	case "session":
		if state != job.StateKept {
			t.Errorf("a session: got the state %q, want it kept", state)
		}
	case "deaf":
		if state != job.StateLost {
			t.Errorf("code that hears no interrupt: got the state %q, want it lost", state)
		}
	}
}

// twoAPIs returns the address of a proxy before two apis. The second one gets what cancels a call, and nothing else.
func (g *glovebox) twoAPIs(t *testing.T) string {
	t.Helper()
	addr := gbtest.Addr(t)
	gbtest.Start(t, []string{binary(t, "glovebox"), "api"}, g.apiEnv(addr), func() bool { return status(t, "http://"+addr+"/readyz") == http.StatusOK })
	first, err := url.Parse(g.url)
	if err != nil {
		t.Fatal(err)
	}
	second := &url.URL{Scheme: "http", Host: addr}
	var cancels atomic.Int64
	server := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		to := first
		if body, err := io.ReadAll(r.In.Body); err == nil {
			if strings.Contains(string(body), `"notifications/cancelled"`) {
				to = second
				cancels.Add(1)
			}
			r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		r.SetURL(to)
	}})
	t.Cleanup(func() {
		server.Close()
		if cancels.Load() == 0 {
			t.Error("nothing was cancelled by the other api")
		}
	})
	return server.URL
}

// inspectorLeaves interrupts the Inspector's command line while code runs that it has called.
func (g *glovebox) inspectorLeaves(t *testing.T, dir, transport, era string) {
	t.Helper()
	cmd := g.inspector(t, dir, transport, era, "--method", "tools/call", "--tool-name", "run_code", "--tool-args-json",
		`{"language": "python", "code": "i = 0\nwhile True:\n    i += 1\n    if i % 1000000 == 0: print(i, flush=True)", "timeout_ms": 60000}`)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var id string
	gbtest.Eventually(t, "the job runs", func() bool {
		page, err := g.client.List(t.Context(), producer.ListOptions{Status: []job.Status{job.Running}, Since: began, Limit: 1})
		if err == nil && len(page.Jobs) == 1 {
			id = page.Jobs[0].ID
		}
		return id != ""
	})
	for e, err := range g.client.Watch(t.Context(), id, "") {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == producer.EventStdout {
			break
		}
	}
	at := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	g.endsSoon(t, cancelledCall{What: "job", At: at.UnixMilli()})
	if err := cmd.Wait(); err == nil {
		t.Error("the Inspector says that all was well")
	}
}
