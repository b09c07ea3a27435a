package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
)

const hello = `{"language":"python","code":"print('hello')"}`

func (w *world) execute(t *testing.T, body string, headers ...string) answer {
	t.Helper()
	return w.do(t, http.MethodPost, "/v1/code-sandbox/execute", strings.NewReader(body), headers...)
}

// executed sends a request whose job a worker ends as change says.
func (w *world) executed(t *testing.T, body string, change func(*job.Result), headers ...string) (a answer, ran record.Record) {
	t.Helper()
	answered := make(chan answer, 1)
	go func() {
		a, err := w.try(t.Context(), http.MethodPost, "/v1/code-sandbox/execute", strings.NewReader(body), headers...)
		if err != nil {
			t.Error(err)
		}
		answered <- a
	}()
	j := w.Start(t, w.nextJob(t))
	w.End(t, j, nil, change)
	return <-answered, j
}

// nextJob waits for a job of the tenant "default", and returns its id.
func (w *world) nextJob(t *testing.T) (id string) {
	t.Helper()
	gbtest.Eventually(t, "a job comes", func() bool {
		ids, err := w.Raw.ZRange(t.Context(), "gb:{default}:open", 0, 0).Result()
		if err != nil || len(ids) == 0 {
			return false
		}
		id = ids[0]
		return true
	})
	return id
}

// What a job came to, in this endpoint's words.
func TestExecute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	ended := func(status job.Status, code int, signal string) func(*job.Result) {
		return func(r *job.Result) {
			r.Status, r.ExitCode, r.Signal, r.Stdout, r.Stderr = status, &code, signal, "out", "err"
			r.Usage = job.Usage{WallMS: 1234, CPUMS: 1000, MemoryPeakBytes: 12 << 20}
		}
	}
	const used = `"executionTimeMs":1234,"memoryUsageMb":12,`
	for name, tt := range map[string]struct {
		change func(*job.Result)
		want   string
	}{
		"succeeded": {ended(job.Succeeded, 0, ""), `{"stdout":"out","stderr":"err","exitCode":0,` + used + `"timedOut":false,"error":null,"cost":null}`},
		"failed":    {ended(job.Failed, 3, ""), `{"stdout":"out","stderr":"err","exitCode":3,` + used + `"timedOut":false,"error":"Exited with code 3","cost":null}`},
		"crashed":   {ended(job.Failed, 139, "SIGSEGV"), `{"stdout":"out","stderr":"err","exitCode":139,` + used + `"timedOut":false,"error":"Killed by SIGSEGV","cost":null}`},
		"timed out": {ended(job.TimedOut, 124, "SIGKILL"), `{"stdout":"out","stderr":"err","exitCode":124,` + used + `"timedOut":true,"error":"Execution timed out","cost":null}`},
		"memory":    {ended(job.OutOfMemory, 137, "SIGKILL"), `{"stdout":"out","stderr":"err","exitCode":137,` + used + `"timedOut":false,"error":"Out of memory","cost":null}`},
		"output":    {ended(job.OutputLimitExceeded, 137, "SIGKILL"), `{"stdout":"out","stderr":"err","exitCode":137,` + used + `"timedOut":false,"error":"Output limit exceeded","cost":null}`},
		"does not compile": {
			func(r *job.Result) {
				one := 1
				r.Status, r.ExitCode, r.Stdout, r.Compile = job.CompileFailed, &one, "", &job.Compile{ExitCode: 1, Output: "main.c:1: error", WallMS: 40}
			},
			`{"stdout":"","stderr":"main.c:1: error","exitCode":1,"executionTimeMs":0,"memoryUsageMb":0,"timedOut":false,"error":"Compilation failed","cost":null}`,
		},
		"fits no disk": {
			func(r *job.Result) {
				one := 1
				r.Status, r.ExitCode, r.Stdout, r.Error = job.Failed, &one, "", &job.Error{Code: job.CodeInputConflict, Message: "the code does not fit"}
			},
			`{"stdout":"","stderr":"","exitCode":1,"executionTimeMs":0,"memoryUsageMb":0,"timedOut":false,"error":"the code does not fit","cost":null}`,
		},
		"canceled": {
			func(r *job.Result) { r.Status, r.ExitCode, r.Stdout = job.Canceled, nil, "" },
			`{"stdout":"","stderr":"","exitCode":null,"executionTimeMs":0,"memoryUsageMb":0,"timedOut":false,"error":"Canceled","cost":null}`,
		},
	} {
		a, _ := w.executed(t, hello, tt.change)
		if a.status != http.StatusOK || string(a.body) != tt.want+"\n" {
			t.Errorf("%s: got %d %s, want 200 %s", name, a.status, a.body, tt.want)
		}
		var result job.Result
		whole := w.do(t, http.MethodGet, a.header.Get("Location"), http.NoBody)
		if err := json.Unmarshal(whole.body, &result); err != nil || whole.status != http.StatusOK || !result.Status.Final() {
			t.Errorf("%s: at Location %q there is %d %s, want the job's result", name, a.header.Get("Location"), whole.status, whole.body)
		}
	}
	// What Glovebox fails is no answer about the code.
	a, _ := w.executed(t, hello, func(r *job.Result) {
		r.Status, r.ExitCode, r.Error = job.InternalError, nil, &job.Error{Code: job.CodeWorkerLost, Message: "the worker was lost three times"}
	})
	var p producer.Problem
	if err := json.Unmarshal(a.body, &p); err != nil || a.status != http.StatusInternalServerError || p.Code() != job.CodeInternal || "/v1/jobs/"+p.ID != a.header.Get("Location") || !strings.Contains(p.Detail, "lost three times") {
		t.Errorf("internal error: got %d %v %s, want 500 with the job's id", a.status, a.header, a.body)
	}
}

// The job is one like all others, within its tenant's limits.
func TestExecuteMakesAJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	a, ran := w.executed(t, `{"language":"python3","code":"print('h\u00e9\u0000')\ud83d\ude80"}`, nil)
	want := job.Spec{Runtime: "python", Source: "print('hé\x00')🚀", Limits: job.Limits{CPUs: 0.5}}
	if diff := cmp.Diff(want, *ran.Spec); a.status != http.StatusOK || diff != "" {
		t.Errorf("got %d, a job of (-want +got):\n%s", a.status, diff)
	}
	w.tenant(t, "default", job.Terms{Maximums: job.Limits{CPUs: 0.25, MemoryMB: 128, WallMS: 5000}})
	_, ran = w.executed(t, hello, nil)
	if got := ran.Spec.Limits; got.CPUs != 0.25 || got.MemoryMB != 128 || got.WallMS != 5000 {
		t.Errorf("got %+v, want the tenant's maxima, which are less than what code has by default", got)
	}
}

// TestExecuteKey: the same code under its key is not run again, whatever share of a processor its tenant has by then.
func TestExecuteKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	tenant, err := w.Client.CreateTenant(t.Context(), "default", job.Terms{Maximums: job.Limits{CPUs: 0.25}})
	if err != nil {
		t.Fatal(err)
	}
	first, ran := w.executed(t, hello, nil, "Idempotency-Key: once")
	if first.status != http.StatusOK || ran.Spec.Limits.CPUs != 0.25 {
		t.Fatalf("got %d %s, a job of %+v", first.status, first.body, ran.Spec.Limits)
	}
	if _, err := w.Client.SetTerms(t.Context(), "default", tenant.Revision, job.Terms{Maximums: job.Limits{CPUs: 1}}); err != nil {
		t.Fatal(err)
	}
	again := w.execute(t, hello, "Idempotency-Key: once")
	if again.status != http.StatusOK || again.header.Get("Location") != first.header.Get("Location") || !bytes.Equal(again.body, first.body) {
		t.Errorf("got %d %v %s, want what the first one came to: %s", again.status, again.header, again.body, first.body)
	}
}

// Each bad request has a golden problem, and makes no job.
func TestExecuteProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := func(n int) string { return `{"language":"python","code":"` + strings.Repeat("#", n) + `"}` }
	post := func(body string, headers ...string) func(*testing.T) answer {
		return func(t *testing.T) answer { t.Helper(); return w.execute(t, body, headers...) }
	}
	check(t, w, "execute-no-runtimes", 503, post(hello))
	w.Runtimes(t)
	for _, test := range []struct {
		name   string
		status int
		do     func(*testing.T) answer
	}{
		{"execute-unknown-language", 400, post(`{"language":"cobol","code":"1"}`)},
		{"execute-language-is-an-image", 400, post(`{"language":"registry.example.com/tool@sha256:00","code":"1"}`)},
		{"execute-empty-code", 400, post(`{"language":"python","code":""}`)},
		{"execute-empty-object", 400, post(`{}`)},
		{"execute-null", 400, post(`{"language":null,"code":null}`)},
		{"execute-wrong-types", 400, post(`{"language":["python"],"code":42}`)},
		{"execute-unknown-fields", 400, post(`{"language":"python","code":"1","stdin":"x","Code":"2"}`)},
		{"execute-repeated-field", 400, post(`{"language":"python","code":"1","code":"2"}`)},
		{"execute-not-an-object", 400, post(`"print(1)"`)},
		{"execute-malformed", 400, post(`{"language":"python","code":"1`)},
		{"execute-empty-body", 400, post(``)},
		{"execute-not-utf-8", 400, post("{\"language\":\"python\",\"code\":\"\xff\"}")},
		{"execute-too-much-code", 413, post(code(producer.MaxCodeBytes + 1))},
		{"execute-huge-body", 413, post(code(2 << 20))},
		{"execute-form", 415, post(`code=1`, "Content-Type: application/x-www-form-urlencoded")},
		{"execute-long-key", 400, post(hello, "Idempotency-Key: "+strings.Repeat("k", 256))},
		{"execute-no-token", 401, post(hello, "Authorization: ")},
	} {
		check(t, w, test.name, test.status, test.do)
	}
	if records, err := w.Raw.Keys(t.Context(), "gb:{*").Result(); err != nil || len(records) > 0 {
		t.Errorf("got %v, %v; want nothing enqueued", records, err)
	}
	// One byte less is not too much, however JSON writes it.
	escaped := `{"language":"python","code":"` + strings.Repeat(`\u0023`, producer.MaxCodeBytes) + `"}`
	for _, body := range []string{code(producer.MaxCodeBytes), escaped} {
		a, ran := w.executed(t, body, nil)
		if size := w.Kept(t, ran.SpecRef)[ran.SpecRef]; a.status != http.StatusOK || size < producer.MaxCodeBytes {
			t.Errorf("as much code as there may be: got %d %.200s, a spec of %d bytes", a.status, a.body, size)
		}
	}
	// A tenant's own limit and queue.
	w.tenant(t, "default", job.Terms{Maximums: job.Limits{SourceKB: 1}, Quotas: job.Quotas{JobsQueued: 1}})
	check(t, w, "execute-tenants-source", 400, post(code(1025)))
	w.accepted(t)
	check(t, w, "execute-queue-full", 429, post(hello))
	if a := w.execute(t, hello); a.header.Get("Retry-After") == "" {
		t.Errorf("queue full: got %v, want Retry-After", a.header)
	}
}

// What doesn't end in time goes on: its id, or its key, finds it later.
func TestExecuteWaitOver(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(c *apiConfig) { c.MaxWait = time.Second })
	w.Runtimes(t)
	a := w.execute(t, hello, "Idempotency-Key: once")
	id := strings.TrimPrefix(a.header.Get("Location"), "/v1/jobs/")
	if a.header.Get("Retry-After") == "" || id == "" {
		t.Errorf("got %v, want Location and Retry-After", a.header)
	}
	var p producer.Problem
	if err := json.Unmarshal(a.body, &p); err != nil || a.status != http.StatusServiceUnavailable || p.Code() != job.CodeWaitOver || p.ID != id || !strings.Contains(p.Detail, id) {
		t.Errorf("got %d %s, want 503 with the job's id", a.status, a.body)
	}
	client, err := producer.New(w.srv.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var over *job.WaitOverError
	if _, err := client.Execute(t.Context(), producer.ExecuteRequest{Language: "bash", Code: "sleep 1000"}); !errors.As(err, &over) || job.CodeOf(err) != job.CodeWaitOver {
		t.Fatalf("the client: got %v, want a WaitOverError", err)
	}
	if j, err := client.Get(t.Context(), over.ID); err != nil || j.Status != job.Queued || j.Runtime.Name != "bash" {
		t.Errorf("got %+v, %v, want the job that goes on", j, err)
	}
	w.End(t, w.Start(t, id), nil, nil)
	if a := w.execute(t, hello, "Idempotency-Key: once"); a.status != http.StatusOK || a.header.Get("Location") != "/v1/jobs/"+id || !strings.Contains(string(a.body), `"stdout":"hello\n"`) {
		t.Errorf("the same again: got %d %v %s, want what the first one came to", a.status, a.header, a.body)
	}
	if a := w.execute(t, strings.Replace(hello, "hello", "bye", 1), "Idempotency-Key: once"); a.status != http.StatusConflict {
		t.Errorf("other code under its key: got %d %s, want 409", a.status, a.body)
	}
	// The audit log says of each of the two jobs that it was made.
	var made []job.AuditEntry
	gbtest.Eventually(t, "the audit log has both", func() bool {
		page, err := w.Client.Audit(t.Context(), producer.AuditOptions{Action: "job.submit"})
		made = once(page.Entries)
		return err == nil && len(made) >= 4
	})
	for i, want := range []struct{ object, outcome string }{{id, job.OutcomeOK}, {over.ID, job.OutcomeOK}, {id, job.OutcomeOK}, {"", job.OutcomeRefused}} {
		if made[i].Object != want.object || made[i].Outcome != want.outcome {
			t.Errorf("audit entry %d: got %+v, want %+v", i, made[i], want)
		}
	}
}

// A client that leaves loses no job.
func TestExecuteClientLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := w.try(ctx, http.MethodPost, "/v1/code-sandbox/execute", strings.NewReader(hello))
		left <- err
	}()
	id := w.nextJob(t)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want a client that left", err)
	}
	gbtest.Eventually(t, "the API has seen it", func() bool { return strings.Contains(w.log.String(), "/v1/code-sandbox/execute") })
	w.End(t, w.Start(t, id), nil, nil)
	if a := w.do(t, http.MethodGet, "/v1/jobs/"+id, http.NoBody); a.status != http.StatusOK || !strings.Contains(string(a.body), `"succeeded"`) {
		t.Errorf("got %d %s, want its result", a.status, a.body)
	}
	if strings.Contains(w.log.String(), "print(") || strings.Contains(w.log.String(), `"level":"ERROR"`) {
		t.Errorf("the log holds code, or an error: %s", w.log)
	}
}

// An API that ends lets nobody wait for code.
func TestExecuteDrained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	answered := make(chan answer, 1)
	go func() {
		a, err := w.try(t.Context(), http.MethodPost, "/v1/code-sandbox/execute", strings.NewReader(hello))
		if err != nil {
			t.Error(err)
		}
		answered <- a
	}()
	id := w.nextJob(t)
	w.api.Drain()
	if a := <-answered; a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), id) {
		t.Errorf("got %d %s, want 503 with the job's id", a.status, a.body)
	}
}

func TestExecuteCost(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(c *api.Config) { c.Prices = &job.Prices{Run: 200, CPUSecond: 14_000, GiBSecond: 4_500} })
	w.Runtimes(t)
	used := func(r *job.Result) { r.Usage = job.Usage{WallMS: 40, CPUMS: 25} }
	a, _ := w.executed(t, hello, used)
	if !strings.HasSuffix(string(a.body), `"cost":5.95e-7}`+"\n") { // 200 + 350 + 45 billionths, of 256 MiB
		t.Errorf("got %s, want the cost", a.body)
	}
	a, _ = w.executed(t, hello, func(r *job.Result) { r.Status, r.ExitCode = job.Canceled, nil })
	if !strings.HasSuffix(string(a.body), `"cost":0}`+"\n") {
		t.Errorf("canceled: got %s, want no cost", a.body)
	}
	w.tenant(t, "default", job.Terms{Maximums: job.Limits{MemoryMB: 128}})
	a, _ = w.executed(t, hello, used)
	if !strings.HasSuffix(string(a.body), `"cost":5.73e-7}`+"\n") { // 200 + 350 + 23
		t.Errorf("128 MiB: got %s, want the cost", a.body)
	}
}
