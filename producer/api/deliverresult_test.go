package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// startedBy waits until a delivery has started a job, and returns that.
func startedBy(t *testing.T, w *world, hook producer.NewHook, delivery string) string {
	t.Helper()
	var id string
	gbtest.Eventually(t, "the job of "+delivery, func() bool {
		for _, d := range deliveries(t, w, hook.Path) {
			if d.Delivery == delivery && d.Outcome == job.DeliveryStarted {
				id = d.Job
			}
		}
		return id != ""
	})
	return id
}

// answered sends a request to a hook that answers with the result, whose job ends as end says.
func answered(t *testing.T, w *world, hook producer.NewHook, delivery string, files map[string]string, end func(*job.Result)) (answer, string) {
	t.Helper()
	got := make(chan answer, 1)
	go func() { got <- w.github(t, hook.Path, hookSecret, delivery, `{"ref":"`+delivery+`"}`) }()
	id := startedBy(t, w, hook, delivery)
	w.End(t, w.Start(t, id), files, end)
	return <-got, id
}

const resultHook = `"sender":"github","secret":"` + hookSecret + `","answer":"result","answer_seconds":`

// TestHookAnswersResult: what the job printed is the answer, also to the same delivery once more, and never
// as anything that a browser would run.
func TestHookAnswersResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	made := w.hook(t, resultHook+`60,"content_type":"application/json"`)
	a, id := answered(t, w, made, "d1", nil, func(r *job.Result) { r.Stdout = `{"sum":3}` })
	check := func(what string, a answer, status int, contentType, body string) {
		t.Helper()
		if a.status != status || a.header.Get("Content-Type") != contentType || string(a.body) != body {
			t.Errorf("%s: got %d %s %.300q, want %d %s %q", what, a.status, a.header.Get("Content-Type"), a.body, status, contentType, body)
		}
		if a.header.Get("Glovebox-Job-Id") == "" || a.header.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(a.header.Get("Content-Security-Policy"), "sandbox") || !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: got headers %v", what, a.header)
		}
	}
	check("the first", a, http.StatusOK, "application/json", `{"sum":3}`)
	if a.header.Get("Glovebox-Job-Id") != id {
		t.Errorf("got %v, want the job %s", a.header, id)
	}
	again := w.github(t, made.Path, hookSecret, "d1", `{"ref":"d1"}`)
	check("once more", again, http.StatusOK, "application/json", `{"sum":3}`)
	if again.header.Get("Glovebox-Job-Id") != id {
		t.Errorf("once more: got job %s, want %s", again.header.Get("Glovebox-Job-Id"), id)
	}

	// The job's own words, of those that it may say.
	a, _ = answered(t, w, made, "d2", map[string]string{"response.json": `{"status":422,"headers":{"Content-Type":"text/csv","Etag":"\"1\""},"body":"<script>alert(1)</script>"}`}, nil)
	check("its own", a, http.StatusUnprocessableEntity, "text/csv", "<script>alert(1)</script>")
	if a.header.Get("Etag") != `"1"` {
		t.Errorf("got %v, want its Etag", a.header)
	}
	a, _ = answered(t, w, made, "d3", map[string]string{"response.json": `{"artifact":"out/a.xml","headers":{"content-type":"text/xml"}}`, "out/a.xml": "<Response/>"}, nil)
	check("an artifact", a, http.StatusOK, "text/xml", "<Response/>")
	if got := a.header.Get("Content-Disposition"); got != `attachment; filename=a.xml` {
		t.Errorf("got %q, want a download", got)
	}
	a, _ = answered(t, w, made, "d4", map[string]string{"response.json": `{"status":204}`}, nil)
	check("nothing", a, http.StatusNoContent, "application/json", "")

	for delivery, file := range map[string]string{
		"html":     `{"headers":{"content-type":"text/html"},"body":"<script>"}`,
		"cookie":   `{"headers":{"set-cookie":"a=b"}}`,
		"accel":    `{"headers":{"X-Accel-Redirect":"/etc/passwd"}}`,
		"redirect": `{"status":302,"headers":{"Location":"https://evil.example"}}`,
		"no file":  `{"artifact":"../../secret"}`,
		"no JSON":  `{`,
		"large":    `{"body":"` + strings.Repeat("x", job.MaxResponseFile) + `"}`,
	} {
		a, id := answered(t, w, made, delivery, map[string]string{"response.json": file}, nil)
		failedWith(t, delivery, a, http.StatusInternalServerError, job.CodeJobFailed, id)
		if a.header.Get("Set-Cookie")+a.header.Get("Location")+a.header.Get("X-Accel-Redirect") != "" {
			t.Errorf("%s: got %v", delivery, a.header)
		}
	}
}

func failedWith(t *testing.T, what string, a answer, status int, code, id string) {
	t.Helper()
	var p producer.Problem
	if err := json.Unmarshal(a.body, &p); err != nil || a.status != status || p.Code() != code || p.ID != id || a.header.Get("Glovebox-Job-Id") != id {
		t.Errorf("%s: got %d %s %v, want %d %s with the job %s", what, a.status, a.body, a.header, status, code, id)
	}
}

// TestHookAnswersMuch: output that is in the bucket is the answer, too, every byte of it, up to what is held in memory.
func TestHookAnswersMuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	made := w.hook(t, resultHook+`60,"content_type":"application/octet-stream"`)
	for _, size := range []int{job.MaxHookAnswer, job.MaxHookAnswer + 1} {
		delivery := fmt.Sprint(size)
		got := make(chan answer, 1)
		go func() { got <- w.github(t, made.Path, hookSecret, delivery, `{"ref":"`+delivery+`"}`) }()
		id := startedBy(t, w, made, delivery)
		j := w.Start(t, id)
		keys, err := artifacts.JobKeys(j.Tenant, id)
		if err != nil {
			t.Fatal(err)
		}
		output := bytes.Repeat([]byte{0xff}, size)
		if _, err := w.Objects.PutBytes(t.Context(), keys.Stdout(int64(j.Epoch)), "text/plain", output); err != nil {
			t.Fatal(err)
		}
		w.End(t, j, nil, func(r *job.Result) { r.StdoutURL = "stdout" })
		a := <-got
		if size > job.MaxHookAnswer {
			failedWith(t, "too much", a, http.StatusInternalServerError, job.CodeJobFailed, id)
		} else if a.status != http.StatusOK || !bytes.Equal(a.body, output) || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") {
			t.Errorf("got %d, %d bytes, %v", a.status, len(a.body), a.header)
		}
	}
}

// TestHookAnswersFailure: a job that failed is told as such, and nothing of what it printed.
func TestHookAnswersFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	made := w.hook(t, resultHook+"60")
	for status, want := range map[job.Status]int{
		job.Failed: 500, job.TimedOut: 504, job.OutOfMemory: 500, job.OutputLimitExceeded: 500, job.CompileFailed: 500, job.InternalError: 500,
	} {
		a, id := answered(t, w, made, string(status), map[string]string{"response.json": `{}`}, func(r *job.Result) {
			r.Status, r.Stdout, r.Stderr = status, "private", "Traceback: private"
		})
		failedWith(t, string(status), a, want, job.CodeJobFailed, id)
		if strings.Contains(string(a.body), "private") {
			t.Errorf("%s: got %s, which tells the sender what the job printed", status, a.body)
		}
		again := w.github(t, made.Path, hookSecret, string(status), `{"ref":"`+string(status)+`"}`)
		failedWith(t, string(status)+" once more", again, want, job.CodeJobFailed, id)
	}
}

// TestHookAnswersObserved: what a job makes of its hook's answer is neither a fault of the API's nor a label that the job chose; that Glovebox failed is its fault.
func TestHookAnswersObserved(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[int]int{} // of the hook's answers
	w := newWorldWith(t, func(c *apiConfig) {
		c.Observe = func(route string, status int, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			if strings.HasPrefix(route, "POST /v1/hooks/") {
				seen[status]++
			}
		}
	})
	w.Runtimes(t)
	made := w.hook(t, resultHook+"60")
	for delivery, reply := range map[string]string{"fails": `{}`, "teapot": `{"status":418}`, "unknown": `{"status":599}`, "is lost": `{}`} {
		answered(t, w, made, delivery, map[string]string{"response.json": reply}, func(r *job.Result) {
			switch delivery {
			case "fails":
				r.Status = job.Failed
			case "is lost":
				r.Status = job.InternalError
			}
		})
	}
	if a := w.github(t, made.Path, "wrong", "refused", `{"ref":"refused"}`); a.status != http.StatusUnauthorized {
		t.Errorf("a wrong secret: got %d %s", a.status, a.body)
	}
	w.srv.Close() // every request has ended
	if want := map[int]int{-1: 3, http.StatusUnauthorized: 1, http.StatusInternalServerError: 1}; !maps.Equal(seen, want) {
		t.Errorf("got %v, want %v", seen, want)
	}
}

// TestHookAnswersLate: past its time the answer has the job's id, and the same delivery has the result later.
// A sender that leaves ends nothing.
func TestHookAnswersLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	made := w.hook(t, resultHook+"1")
	late := w.github(t, made.Path, hookSecret, "late", `{"ref":"late"}`)
	id := startedBy(t, w, made, "late")
	failedWith(t, "late", late, http.StatusGatewayTimeout, job.CodeWaitOver, id)
	if late.header.Get("Retry-After") == "" {
		t.Errorf("got %v, want Retry-After", late.header)
	}
	w.End(t, w.Start(t, id), nil, nil)
	if a := w.github(t, made.Path, hookSecret, "late", `{"ref":"late"}`); a.status != http.StatusOK || string(a.body) != "hello\n" || a.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("later: got %d %s %v", a.status, a.body, a.header)
	}
	if a := w.do(t, "DELETE", "/v1/jobs/"+id+"?purge=true", http.NoBody); a.status != http.StatusNoContent {
		t.Fatalf("purge: got %d %s", a.status, a.body)
	}
	if said := started(t, w.github(t, made.Path, hookSecret, "late", `{"ref":"late"}`)); said.JobID != id || !said.Duplicate {
		t.Errorf("of a purged job: got %+v, want the accepted answer", said)
	}

	if a := w.do(t, "PUT", made.Path, strings.NewReader(`{"template":"report","sender":"github","from":{"ref":"/body/ref","event":"/headers/x-github-event"},"answer":"result","answer_seconds":60}`)); a.status != http.StatusOK {
		t.Fatalf("change hook: got %d %s", a.status, a.body)
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := w.try(ctx, "POST", made.Path, strings.NewReader(`{"ref":"gone"}`), githubHeaders(hookSecret, "gone", `{"ref":"gone"}`)...)
		left <- err
	}()
	id = startedBy(t, w, made, "gone")
	gbtest.Eventually(t, "nothing of the body is held while the job is waited for", func() bool { return w.api.BodiesHeld() == 0 })
	select {
	case err := <-left:
		t.Fatalf("got %v, want an answer that is held", err)
	default:
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the sender to have left", err)
	}
	w.End(t, w.Start(t, id), nil, func(r *job.Result) { r.Stdout = "went on" })
	if a := w.github(t, made.Path, hookSecret, "gone", `{"ref":"gone"}`); a.status != http.StatusOK || string(a.body) != "went on" {
		t.Errorf("comes again: got %d %s", a.status, a.body)
	}
	// Prefer asks for less, and the api's end for nothing more.
	w.api.Drain()
	if a := w.github(t, made.Path, hookSecret, "drained", `{"ref":"drained"}`, "Prefer: wait=30"); a.status != http.StatusGatewayTimeout {
		t.Errorf("drained: got %d %s, want 504", a.status, a.body)
	}
}

// TestHookAnswersQuota: a tenant without room is told as any sender is, with when to come back.
func TestHookAnswersQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	owner, _ := w.tenant(t, "owner", job.Terms{Quotas: job.Quotas{JobsQueued: 1}})
	made := w.hook(t, resultHook+"1", "Authorization: Bearer "+owner)
	if a := w.github(t, made.Path, hookSecret, "d1", `{"ref":"1"}`); a.status != http.StatusGatewayTimeout {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	full := w.github(t, made.Path, hookSecret, "d2", `{"ref":"2"}`)
	if full.status != http.StatusServiceUnavailable || full.header.Get("Retry-After") == "" || full.header.Get("Glovebox-Job-Id") != "" {
		t.Errorf("no room: got %d %s %v, want 503", full.status, full.body, full.header)
	}
}
