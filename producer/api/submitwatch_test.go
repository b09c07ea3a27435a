package api_test

import (
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
)

// asEvents has a client rather get events than JSON.
const asEvents = "Accept: application/json;q=0.5, text/event-stream"

// TestExecuteWithEvents: what an execution prints comes as the answer to the request that sends it, up to its result.
func TestExecuteWithEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	var x job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python"}`, http.StatusAccepted, &x)
	if _, err := w.Worker.ClaimSession(t.Context(), x.ID, "w1"); err != nil {
		t.Fatal(err)
	}
	at := "/v1/sessions/" + x.ID + "/execute"
	o := w.open(t, "POST", at, `{"code":"print(1)"}`, asEvents, "Idempotency-Key: k")
	id := path.Base(o.header.Get("Location"))
	if got := o.until("data: "); !slices.Contains(got, `data: {"status":"queued","attempt":0}`) {
		t.Errorf("got %q", got)
	}
	j, err := w.Worker.TakeTurn(t.Context(), x.ID, "w1", "", nil, record.Rest{Slot: true})
	if err != nil || j.ID != id || !j.Watched(time.Now()) {
		t.Fatalf("got %+v, %v, want %s, watched from the start", j, err, id)
	}
	if err := w.Worker.Publish(t.Context(), j, 1, []record.Event{{Type: record.EventStdout, Data: []byte("1\n")}, {Type: record.EventEnd}}); err != nil {
		t.Fatal(err)
	}
	o.until(`data: {"offset":0,"text":"1\n"}`)
	w.End(t, j, nil, nil)
	end := o.until(`data: {"id":"` + id + `"`)
	if !slices.Contains(end, "event: result") {
		t.Errorf("got %q, want the result", end)
	}
	o.ends()
	again := w.open(t, "POST", at, `{"code":"print(1)"}`, asEvents, "Idempotency-Key: k")
	again.until(`data: {"id":"` + id + `"`)
	again.ends()
}

// TestSubmitWithEvents: a job's events are the answer, a client that leaves cancels nothing, and what is refused is refused before a job is made.
func TestSubmitWithEvents(t *testing.T) {
	t.Parallel()
	w := configured(t, func(c *api.Config) { c.MaxWatchers = 1 })
	const spec = `{"runtime":"python","source":"1"}`
	if a := w.submit(t, `{"runtime":"python"}`, asEvents); a.status != http.StatusUnprocessableEntity || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("no source: got %d %s", a.status, a.body)
	}
	if a := w.submit(t, spec, "Accept: text/event-stream, application/json"); a.status != http.StatusAccepted || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("JSON is as good: got %d %v", a.status, a.header)
	}
	o := w.open(t, "POST", "/v1/jobs", spec, asEvents)
	id := path.Base(o.header.Get("Location"))
	o.until("data: ")
	if a := w.submit(t, spec, asEvents); a.status != http.StatusTooManyRequests {
		t.Errorf("a second one: got %d %s, want 429", a.status, a.body)
	}
	o.leave()
	j := w.Start(t, id)
	if j.CancelRequested || !j.Watched(time.Now()) {
		t.Errorf("got %+v, want that it goes on", j)
	}
	var page producer.JobPage
	w.expecting(t, "GET", "/v1/jobs", "", http.StatusOK, &page)
	if len(page.Jobs) != 2 {
		t.Errorf("got %d jobs, want none of the refused ones", len(page.Jobs))
	}
}

// TestSubmitWithoutEvents: a job that can't be watched is accepted all the same, and the answer says so.
func TestSubmitWithoutEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.api.Drain()
	a := w.do(t, "POST", "/v1/jobs", strings.NewReader(`{"runtime":"python","source":"1"}`), asEvents)
	var r job.Summary
	if err := json.Unmarshal(a.body, &r); err != nil || a.status != http.StatusAccepted || r.ID == "" || a.header.Get("Location") != "/v1/jobs/"+r.ID {
		t.Errorf("got %d %v %s, %v, want 202 with the record", a.status, a.header, a.body, err)
	}
	if j, err := w.Records.Get(t.Context(), r.ID); err != nil || !j.Watched(time.Now()) {
		t.Errorf("got %+v, %v, want that it counts as watched from the start", j, err)
	}
}
