package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/producer/facade/jobe"
	"github.com/glovebox-run/glovebox/producer/facade/judge0"
	"github.com/glovebox-run/glovebox/producer/facade/piston"
)

// TestFacadeQuotas: a tenant that has used up a quota is told so in each façade's form.
func TestFacadeQuotas(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(c *apiConfig) { c.Facades = []facade.Facade{judge0.New(), jobe.New(), piston.New()} })
	w.Runtimes(t)
	full, _ := w.tenant(t, "full", job.Terms{Quotas: job.Quotas{JobsQueued: 1}})
	if a := w.submit(t, `{"runtime":"python","source":"1"}`, as(full)); a.status != http.StatusAccepted {
		t.Fatalf("got %d %s, want 202", a.status, a.body)
	}
	hasty, _ := w.tenant(t, "hasty", job.Terms{Quotas: job.Quotas{RequestsPerMinute: 1}})
	for w.do(t, http.MethodGet, "/v1/runtimes", http.NoBody, as(hasty)).status != http.StatusTooManyRequests {
		t.Log("it may ask once more")
	}
	submission, run := `{"language_id":46,"source_code":"echo"}`, `{"run_spec":{"language_id":"python3","sourcecode":"print(1)"}}`
	execution := `{"language":"bash","version":"*","files":[{"content":"echo"}]}`
	for _, tt := range []struct {
		token, path, body string
		status            int
		want              string
	}{
		{full, "/judge0/submissions", submission, 503, `{"error":"queue is full"}`},
		{full, "/judge0/submissions?wait=true", submission, 503, `{"error":"queue is full"}`},
		{full, "/jobe/index.php/restapi/runs", run, 200, `{"run_id":"0","outcome":21,"cmpinfo":"","stdout":"","stderr":""}`},
		{full, "/piston/api/v2/execute", execution, 429, `{"message":"`},
		{hasty, "/judge0/submissions", submission, 429, `{"error":"`},
		{hasty, "/jobe/index.php/restapi/runs", run, 429, `"`},
		{hasty, "/piston/api/v2/execute", execution, 429, `{"message":"`},
	} {
		a := w.do(t, http.MethodPost, tt.path, strings.NewReader(tt.body), "Content-Type: application/json", as(tt.token))
		if a.status != tt.status || !strings.HasPrefix(string(a.body), tt.want) {
			t.Errorf("%s: got %d %s, want %d %s", tt.path, a.status, a.body, tt.status, tt.want)
		}
		if retry := a.header.Get("Retry-After"); (retry != "") != (tt.status == 429) && tt.status != 503 {
			t.Errorf("%s: got Retry-After %q with %d", tt.path, retry, a.status)
		}
	}
}
