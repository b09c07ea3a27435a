package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/api"
)

// answerTime is what answers that end may take.
const answerTime = 4 * time.Second

// configured is a world whose API and server are others, and whose watches go to a server that ends what takes longer
// than answerTime. Links don't lead there.
func configured(t *testing.T, change func(*api.Config)) *world {
	t.Helper()
	w := newWorld(t)
	w.Runtimes(t)
	c := api.Config{
		Client: w.Client, Links: w.Links,
		Tokens: map[api.TokenHash]string{api.HashToken(token): "default", api.HashToken(otherToken): "other"},
	}
	change(&c)
	var err error
	if w.api, err = api.New(c); err != nil {
		t.Fatal(err)
	}
	w.srv = httptest.NewServer(w.api)
	t.Cleanup(w.srv.Close)
	w.watches = httptest.NewUnstartedServer(w.api)
	w.watches.Config.WriteTimeout = answerTime
	w.watches.Start()
	t.Cleanup(w.watches.Close)
	return w
}

// opened is a stream of events under way.
type opened struct {
	t      *testing.T
	header http.Header
	lines  *bufio.Scanner
	leave  context.CancelFunc
}

func (w *world) watch(t *testing.T, id string, headers ...string) *opened {
	t.Helper()
	return w.open(t, http.MethodGet, "/v1/jobs/"+id+"/events", "", headers...)
}

// open sends a request that is answered with events.
func (w *world) open(t *testing.T, method, path, body string, headers ...string) *opened {
	t.Helper()
	srv := w.srv
	if w.watches != nil {
		srv = w.watches
	}
	ctx, cancel := context.WithTimeout(t.Context(), gbtest.Patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		b, err := io.ReadAll(res.Body)
		t.Fatalf("got %d %s, %v", res.StatusCode, b, err)
	}
	return &opened{t, res.Header, bufio.NewScanner(res.Body), cancel}
}

// until reads lines until one begins so, and returns them.
func (o *opened) until(start string) (lines []string) {
	o.t.Helper()
	for o.lines.Scan() {
		lines = append(lines, o.lines.Text())
		if strings.HasPrefix(o.lines.Text(), start) {
			return lines
		}
	}
	o.t.Fatalf("no line that begins %q in %q, %v", start, lines, o.lines.Err())
	return nil
}

// ends fails unless the stream is over, without another event.
func (o *opened) ends() {
	o.t.Helper()
	for o.lines.Scan() {
		if line := o.lines.Text(); line != "" && line[0] != ':' {
			o.t.Errorf("got %q after the end", line)
		}
	}
	if err := o.lines.Err(); err != nil {
		o.t.Errorf("the stream broke off: %v", err)
	}
}

func TestEventStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	id := w.accepted(t)
	o := w.watch(t, id)
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "Content-Length": ""} {
		if got := o.header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	want := []string{"retry: 1000", "", "event: status", `data: {"status":"queued","attempt":0}`}
	if got := o.until("data: "); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	j := w.Start(t, id)
	if err := w.Worker.Publish(t.Context(), j, 1, []record.Event{
		{Type: record.EventStdout, Offset: 7, Data: []byte("<é>\n")}, {Type: record.EventStderr, Data: []byte{0xff}}, {Type: record.EventEnd},
	}); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(o.until(`data: {"offset":0`), "\n")
	if !regexp.MustCompile(`^\nid: \d+-\d+\nevent: stdout\ndata: \{"offset":7,"text":"<é>\\n"\}\n\nid: \d+-\d+\nevent: stderr\ndata: \{"offset":0,"base64":"/w=="\}$`).MatchString(text) {
		t.Errorf("got %q, want text as text and bytes in base64", text)
	}
	w.End(t, j, nil, nil)
	end := o.until("data: {\"id\"")
	answer := w.do(t, "GET", "/v1/jobs/"+id, http.NoBody)
	if line := "data: " + strings.TrimSpace(string(answer.body)); end[len(end)-1] != line || !slices.Contains(end, "id: end") || !slices.Contains(end, "event: result") {
		t.Errorf("got %q, want %q", end, line)
	}
	o.ends()
	if a := w.do(t, "GET", "/v1/jobs/"+id+"/events", http.NoBody, "Last-Event-ID: end"); a.status != http.StatusNoContent || len(a.body) > 0 {
		t.Errorf("after the end: got %d %s, want 204, which tells a browser to come back no more", a.status, a.body)
	}
	if a := w.do(t, "HEAD", "/v1/jobs/"+id+"/events", http.NoBody); a.status != http.StatusOK || a.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: got %d %v", a.status, a.header)
	}
}

func TestEventProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	id := w.accepted(t)
	for name, c := range map[string]struct {
		path, header string
		status       int
		word         string
	}{
		"no job":             {"/v1/jobs/" + job.NewID("default") + "/events", "Accept: text/event-stream", 404, "not_found"},
		"another's":          {"/v1/jobs/" + id + "/events", "Authorization: Bearer " + otherToken, 404, "not_found"},
		"no token":           {"/v1/jobs/" + id + "/events", "Authorization: ", 401, "unauthorized"},
		"not an event":       {"/v1/jobs/" + id + "/events", "Last-Event-ID: yesterday", 422, "Last-Event-ID"},
		"a longer path":      {"/v1/jobs/" + id + "/events/", "Accept: */*", 404, "no_route"},
		"a token in the URL": {"/v1/jobs/" + id + "/events?token=x", "Authorization: ", 401, "unauthorized"},
	} {
		a := w.do(t, "GET", c.path, http.NoBody, c.header)
		if a.status != c.status || a.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(a.body), c.word) {
			t.Errorf("%s: got %d %v %s, want %d", name, a.status, a.header, a.body, c.status)
		}
	}
}

// TestWatchBeats: a watch that has nothing to tell says that it is there, for longer than
// any answer may take, and ends when its token is no longer one.
func TestWatchBeats(t *testing.T) {
	t.Parallel()
	w := configured(t, func(c *api.Config) {
		admin := api.HashToken(adminToken)
		c.AdminToken, c.Heartbeat = &admin, 20*time.Millisecond
	})
	owner, id := w.tenant(t, "owner", job.Terms{})
	var r job.Summary
	a := w.submit(t, `{"runtime":"python","source":"1"}`, "Authorization: Bearer "+owner)
	if err := json.Unmarshal(a.body, &r); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	o := w.watch(t, r.ID, "Authorization: Bearer "+owner)
	for began := time.Now(); time.Since(began) < answerTime+time.Second; {
		o.until(": still here")
	}
	w.do(t, "DELETE", "/v1/admin/tenants/owner/tokens/"+id, http.NoBody, "Authorization: Bearer "+adminToken)
	o.ends()
}

func TestTooManyWatchers(t *testing.T) {
	t.Parallel()
	w := configured(t, func(c *api.Config) { c.MaxWatchers = 2 })
	id := w.accepted(t)
	first, second := w.watch(t, id), w.watch(t, id)
	first.until("data: ")
	second.until("data: ")
	refused := func() answer { return w.do(t, "GET", "/v1/jobs/"+id+"/events", http.NoBody) }
	a := refused()
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || !strings.Contains(string(a.body), "too_many_watchers") {
		t.Errorf("got %d %v %s, want 429", a.status, a.header, a.body)
	}
	if a := w.do(t, "GET", "/v1/jobs/"+id+"/events", http.NoBody, "Authorization: Bearer "+otherToken); a.status != http.StatusNotFound {
		t.Errorf("another tenant: got %d, want its own places", a.status)
	}
	second.leave()
	for deadline := time.Now().Add(gbtest.Patience); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		a, err := w.try(ctx, "GET", "/v1/jobs/"+id+"/events", http.NoBody) // nil would be 429: a watch goes on
		cancel()
		if err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the place of one who left is not free: %d %s", a.status, a.body)
		}
	}
}

// TestDrainEndsWatches: an api process that ends sends watchers to another one.
func TestDrainEndsWatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	id := w.accepted(t)
	o := w.watch(t, id)
	o.until("data: ")
	w.api.Drain()
	o.ends()
	if a := w.do(t, "GET", "/v1/jobs/"+id+"/events", http.NoBody); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s, want 503", a.status, a.body)
	}
}
