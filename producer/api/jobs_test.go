package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// TestSubmitImage: an image that the operator allows is as good as a runtime.
func TestSubmitImage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Images(t) // a worker without a runtime
	a := w.submit(t, `{"image":"`+producertest.Image+`","command":["/tool","-v"]}`)
	var r job.Summary
	if err := json.Unmarshal(a.body, &r); err != nil || a.status != 202 || r.Runtime != (job.Runtime{Image: producertest.Image}) {
		t.Fatalf("got %d %s, %v, want 202 with the image", a.status, a.body, err)
	}
	if j := w.Start(t, r.ID); j.Spec.Command[1] != "-v" || j.Image != producertest.Image {
		t.Errorf("got %+v, want the command and the image", j)
	}
	if a := w.do(t, "GET", "/v1/jobs/"+r.ID, http.NoBody); a.status != 200 || !strings.Contains(string(a.body), producertest.Image) {
		t.Errorf("got %d %s, want the image in the record", a.status, a.body)
	}
}

func TestSubmitAndGet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	a := w.submit(t, `{"runtime":"python","source":"print('hello')","priority":"high","metadata":{"k":"v"}}`, "X-Request-Id: mine-1")
	var r job.Summary
	if err := json.Unmarshal(a.body, &r); err != nil {
		t.Fatal(err)
	}
	if a.status != 202 || a.header.Get("Location") != "/v1/jobs/"+r.ID || r.Status != job.Queued || r.Priority != job.High || r.Metadata["k"] != "v" {
		t.Errorf("got %d %v %s, want 202 with the record", a.status, a.header, a.body)
	}
	if a.header.Get("X-Request-Id") != "mine-1" || a.header.Get("Content-Type") != "application/json" || a.header.Get("Preference-Applied") != "" {
		t.Errorf("got %v", a.header)
	}
	a = w.do(t, "GET", "/v1/jobs/"+r.ID, http.NoBody)
	if a.status != 200 || !strings.Contains(string(a.body), `"status":"queued"`) {
		t.Errorf("got %d %s, want 200 with the record", a.status, a.body)
	}
	w.End(t, w.Start(t, r.ID), nil, nil)
	a = w.do(t, "GET", "/v1/jobs/"+r.ID, http.NoBody)
	var result job.Result
	if err := json.Unmarshal(a.body, &result); err != nil || a.status != 200 || result.Stdout != "hello\n" {
		t.Errorf("got %d %s, %v; want 200 with the result", a.status, a.body, err)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if a := w.do(t, method, "/v1/jobs/"+r.ID, http.NoBody, "Authorization: Bearer "+otherToken); a.status != 404 {
			t.Errorf("%s as another tenant: got %d, want 404", method, a.status)
		}
	}
	if a := w.do(t, "DELETE", "/v1/jobs/"+r.ID, http.NoBody); a.status != 409 {
		t.Errorf("cancel after the end: got %d, want 409", a.status)
	}
	for _, leaked := range []string{token, otherToken, "print("} {
		if strings.Contains(w.log.String(), leaked) {
			t.Errorf("the log holds %q", leaked)
		}
	}
}

func TestPreferWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	a := w.submit(t, `{"runtime":"python","source":"1"}`, "Prefer: wait=1")
	if a.status != 202 || a.header.Get("Preference-Applied") != "wait=1" || !strings.Contains(string(a.body), `"queued"`) {
		t.Errorf("time is up: got %d %v %s, want 202 with the record", a.status, a.header, a.body)
	}
	for _, prefer := range []string{"wait=-1", "wait=NaN", "wait=1e9", "respond-async", "wait", "wait=99999999999999999999"} {
		start := time.Now()
		a := w.submit(t, `{"runtime":"python","source":"1"}`, "Prefer: "+prefer)
		if a.status != 202 || a.header.Get("Preference-Applied") != "" || time.Since(start) > gbtest.AtOnce {
			t.Errorf("%s: got %d %v, want 202 at once", prefer, a.status, a.header)
		}
	}
	if a := w.do(t, "GET", "/v1/jobs/default-aaaaaaaaaaaaaaaaaaaaaaaaaa", http.NoBody, "Prefer: wait=30"); a.status != 404 {
		t.Errorf("wait for no job: got %d, want 404", a.status)
	}

	// Longer than any deadline there might be on reading: huma's default is 5 s.
	id := w.accepted(t)
	running := w.Start(t, id)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		a, err := w.try(t.Context(), "GET", "/v1/jobs/"+id, http.NoBody, `Prefer: respond-async, Wait="30"; x=y`)
		if err != nil || a.status != 200 || a.header.Get("Preference-Applied") != "wait=30" {
			t.Errorf("get: got %d %s, %v; want 200 with the result", a.status, a.body, err)
		}
	})
	submitted, start := make(chan struct{}), time.Now()
	all.Go(func() {
		defer close(submitted)
		a, err := w.try(t.Context(), "POST", "/v1/jobs", strings.NewReader(`{"runtime":"bash","source":"1","metadata":{"wait":"x"}}`), "Prefer: wait=9")
		if err != nil || a.status != 202 {
			t.Errorf("submit: got %d %s, %v; want 202", a.status, a.body, err)
		}
	})
	<-submitted
	if took := time.Since(start); took < 8500*time.Millisecond {
		t.Errorf("submit with wait=9 was answered after %s", took)
	}
	w.End(t, running, nil, nil)
}

func TestSubmitIsWoken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	const most = 10 * time.Second // unwoken, it looks after 15 s
	if took := gbtest.Best(3, most, func() time.Duration { return w.submitAndWait(t) }); took > most {
		t.Errorf("got the result after %s, want it at once", took)
	}
}

// submitAndWait submits a job that a worker ends at once, and returns after how long the client has its result.
func (w *world) submitAndWait(t *testing.T) (took time.Duration) {
	t.Helper()
	var client sync.WaitGroup
	client.Go(func() {
		start := time.Now()
		a, err := w.try(t.Context(), "POST", "/v1/jobs", strings.NewReader(`{"runtime":"python","source":"1"}`), "Prefer: wait=60")
		took = time.Since(start)
		if err != nil || a.status != 200 || !strings.Contains(string(a.body), `"succeeded"`) {
			t.Errorf("got %d %s, %v after %s, want 200 with the result", a.status, a.body, err, took)
		}
	})
	w.End(t, w.Start(t, w.nextJob(t)), nil, nil)
	client.Wait()
	return took
}

func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	queued, running := w.accepted(t), w.accepted(t)
	w.Start(t, running)
	if a := w.do(t, "DELETE", "/v1/jobs/"+queued, http.NoBody); a.status != 200 || !strings.Contains(string(a.body), `"canceled"`) {
		t.Errorf("queued: got %d %s, want 200 with the result", a.status, a.body)
	}
	if a := w.do(t, "DELETE", "/v1/jobs/"+running, http.NoBody); a.status != 202 || !strings.Contains(string(a.body), `"running"`) {
		t.Errorf("running: got %d %s, want 202 with the record", a.status, a.body)
	}
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	a := w.submit(t, `{"runtime":"python","source":"1","callback":{"url":"https://example.com/hook"}}`)
	var r job.Summary
	if err := json.Unmarshal(a.body, &r); err != nil || a.status != 202 {
		t.Fatalf("got %d %s, %v", a.status, a.body, err)
	}
	list := func(want int, headers ...string) []producer.Delivery {
		t.Helper()
		a := w.do(t, "GET", "/v1/deliveries?job="+r.ID, http.NoBody, headers...)
		var out struct{ Deliveries []producer.Delivery }
		if err := json.Unmarshal(a.body, &out); err != nil || a.status != want {
			t.Errorf("got %d %s, %v; want %d", a.status, a.body, err, want)
		}
		return out.Deliveries
	}
	if got := list(200); len(got) != 0 {
		t.Errorf("before the end: got %+v, want none", got)
	}
	w.End(t, w.Start(t, r.ID), nil, nil)
	got := list(200)
	if len(got) != 1 || got[0].State != "pending" || got[0].Attempt != 1 || got[0].JobID != r.ID || got[0].NextAt == nil || got[0].LastAt != nil {
		t.Errorf("got %+v, want one that is due", got)
	}
	list(404, "Authorization: Bearer "+otherToken)
	list(401, "Authorization: ")
}

func TestFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	id := w.accepted(t)
	const page = "<html><script>alert(1)</script></html>"
	w.End(t, w.Start(t, id), map[string]string{"site/index.html": page, "a b+c%2F.csv": "1,2\n"}, func(r *job.Result) { r.Stderr = "oh\n" })
	var result job.Result
	if err := json.Unmarshal(w.do(t, "GET", "/v1/jobs/"+id, http.NoBody).body, &result); err != nil {
		t.Fatal(err)
	}
	for _, f := range result.Artifacts {
		a := w.do(t, "GET", f.URL, http.NoBody, "Authorization: ")
		location := a.header.Get("Location")
		if a.status != 302 || !strings.HasPrefix(location, w.S3.Endpoint+"/glovebox/tenants/default/jobs/"+id+"/1/artifacts/") {
			t.Errorf("%s: got %d to %q, want 302 to the bucket", f.Name, a.status, location)
			continue
		}
		got := w.do(t, "GET", location, http.NoBody, "Authorization: ")
		if got.status != 200 || int64(len(got.body)) != f.Size || !strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: got %d, %d bytes, %v; want an attachment of %d", f.Name, got.status, len(got.body), got.header, f.Size)
		}
		// The capability is for this file only, and as it was signed.
		for name, bad := range map[string]string{
			"another file": strings.Replace(f.URL, "/artifacts/", "/artifacts/x", 1),
			"a stream":     w.srv.URL + "/v1/jobs/" + id + "/stderr" + f.URL[strings.Index(f.URL, "?"):],
			"tampered":     f.URL[:len(f.URL)-2] + "xx",
		} {
			if a := w.do(t, "GET", bad, http.NoBody, "Authorization: "); a.status != 403 {
				t.Errorf("%s, %s: got %d, want 403", f.Name, name, a.status)
			}
		}
	}
	path := "/v1/jobs/" + id + "/artifacts/site/index.html"
	if a := w.do(t, "GET", path, http.NoBody); a.status != 302 {
		t.Errorf("with a token: got %d, want 302", a.status)
	}
	if a := w.do(t, "GET", path, http.NoBody, "Authorization: Bearer "+otherToken); a.status != 404 {
		t.Errorf("with another tenant's token: got %d, want 404", a.status)
	}
	a := w.do(t, "GET", "/v1/jobs/"+id+"/stderr", http.NoBody)
	if a.status != 200 || string(a.body) != "oh\n" || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("short stderr: got %d %v %q, want the text", a.status, a.header, a.body)
	}
	old, err := w.Links.URL(id, producer.Stderr, time.Now().Add(-time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if a := w.do(t, "GET", old, http.NoBody, "Authorization: "); a.status != 403 || !strings.Contains(string(a.body), "expired") {
		t.Errorf("expired: got %d %s, want 403", a.status, a.body)
	}
	if strings.Contains(w.log.String(), "token=") {
		t.Error("the log holds a capability")
	}
}

// The header Idempotency-Key is the field idempotency_key, and must not be another.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	location := ""
	for _, c := range []struct {
		body    string
		headers []string
	}{
		{`{"runtime":"python","source":"1"}`, []string{"Idempotency-Key: a b"}},
		{`{"runtime":"python","source":"1","idempotency_key":"a b"}`, nil},
		{`{"source":"1","idempotency_key":"a b","runtime":"python","stdin":""}`, []string{"Idempotency-Key: a b"}},
		{`{"runtime":"python","source":"1"}`, []string{"Idempotency-Key: a b", "Prefer: wait=1"}},
	} {
		a := w.submit(t, c.body, c.headers...)
		if a.status != 202 || location != "" && a.header.Get("Location") != location {
			t.Errorf("%s %v: got %d of %s, want 202 of %s", c.body, c.headers, a.status, a.header.Get("Location"), location)
		}
		location = a.header.Get("Location")
	}
	a := w.submit(t, `{"runtime":"python","source":"2"}`, "Idempotency-Key: a b")
	if a.status != 409 {
		t.Errorf("another body: got %d, want 409", a.status)
	}
	golden(t, "problems/idempotency-conflict.json", indented(t, a.body))
	a = w.submit(t, `{"runtime":"python","source":"1","idempotency_key":"a b"}`, "Idempotency-Key: c")
	if a.status != 422 {
		t.Errorf("two keys: got %d, want 422", a.status)
	}
	golden(t, "problems/idempotency-keys.json", indented(t, a.body))
	if a = w.submit(t, `{"runtime":"python","source":"1"}`, "Idempotency-Key: "+strings.Repeat("k", 256)); a.status != 422 {
		t.Errorf("a long key: got %d %s, want 422", a.status, a.body)
	}
	w.End(t, w.Start(t, strings.TrimPrefix(location, "/v1/jobs/")), nil, nil)
	if a = w.submit(t, `{"runtime":"python","source":"1"}`, "Idempotency-Key: a b"); a.status != 200 || !strings.Contains(string(a.body), `"succeeded"`) {
		t.Errorf("once it has ended: got %d %s, want 200 and its result", a.status, a.body)
	}
}
