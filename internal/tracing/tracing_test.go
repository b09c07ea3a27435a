package tracing_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/tracing"
)

func TestMain(m *testing.M) {
	tracing.SetFlushTime(gbtest.Patience) // tests look for each span
	goleak.VerifyTestMain(m)
}

// open returns a Tracer that sends to the collector. No other test may set the environment meanwhile.
func open(t *testing.T, url string, ratio float64, log *slog.Logger) *tracing.Tracer {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	tracer, err := tracing.Open(t.Context(), tracing.Settings{Service: "test", Ratio: ratio, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func post(traceparent string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/v1/jobs?token=secret", http.NoBody)
	r.Header.Set("Traceparent", traceparent)
	r.Header.Set("Tracestate", "vendor=secret")
	return r
}

const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestJob is the trace of a job from its caller to its receiver, over what its record carries.
func TestJob(t *testing.T) {
	c := gbtest.NewCollector(t)
	tracer := open(t, c.URL, 1, slog.New(slog.DiscardHandler))
	r, answered := tracer.Request(post(caller), false)
	carried, sent := tracer.Send(r.Context(), "acme-1")
	sent(nil)
	answered("POST /v1/jobs", http.StatusCreated)
	for _, status := range []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusTooManyRequests} {
		_, refused := tracer.Request(post(""), false)
		refused("POST /v1/refused", status)
	}
	_, refused := tracer.Request(post(""), false)
	refused("", http.StatusMethodNotAllowed) // anybody can make up methods
	if len(carried) != 55 || !strings.HasPrefix(carried, "00-0af7651916cd43dd8448eb211c80319c-") || !strings.HasSuffix(carried, "-01") {
		t.Fatalf("carried %q", carried)
	}
	now := time.Now()
	ctx, processed := tracer.Process(t.Context(), carried, "acme-1", "python", 1, now.Add(-time.Second), now)
	tracer.Step(ctx, "run", now, now.Add(time.Second))
	processed("succeeded")
	out, delivered := tracer.Attempt(t.Context(), carried, "d1", "job.completed", 2, false)
	delivered(500, errors.New("dial 10.0.0.1: refused"))
	again, delivered := tracer.Attempt(t.Context(), carried, "d1", "job.completed", 3, true)
	delivered(200, nil)
	tracer.Close()

	spans := map[string]gbtest.Span{}
	for _, s := range c.Spans() {
		name := s.Name
		if strings.Contains(name, "refused") || name == "request" {
			t.Errorf("got a span of a request that was refused: %+v", s)
		}
		if len(s.Links) > 0 {
			name += " again"
		}
		spans[name] = s
		for _, secret := range []string{"secret", "10.0.0.1"} {
			for key, value := range s.Attributes {
				if strings.Contains(value+s.Message+s.TraceState+s.Name, secret) {
					t.Errorf("%s: %s has %q", s.Name, key, secret)
				}
			}
		}
	}
	for name, parent := range map[string]string{"POST /v1/jobs": "", "send jobs": "POST /v1/jobs", "wait": "send jobs", "process jobs": "send jobs", "run": "process jobs", "POST job.completed": "send jobs"} {
		want := spans[parent].ID
		if parent == "" {
			want = "b7ad6b7169203331"
		}
		if s := spans[name]; s.Parent != want || s.Trace != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s: got %+v, want it below %s", name, s, parent)
		}
	}
	redelivery := spans["POST job.completed again"]
	if redelivery.Trace == spans["send jobs"].Trace || len(redelivery.Links) != 1 || redelivery.Links[0] != spans["send jobs"].Trace+"/"+spans["send jobs"].ID {
		t.Errorf("redelivery: got %+v, want a trace of its own that links to the job", redelivery)
	}
	if first := spans["POST job.completed"]; !first.Failed || out != "00-"+first.Trace+"-"+first.ID+"-01" || again != "00-"+redelivery.Trace+"-"+redelivery.ID+"-01" {
		t.Errorf("got %q of %+v and %q of %+v", out, first, again, redelivery)
	}
	if s := spans["process jobs"]; s.Attributes["messaging.message.id"] != "acme-1" || s.Attributes["glovebox.status"] != "succeeded" {
		t.Errorf("got %+v", s)
	}
}

// TestRefusedJob: a job that is refused with a status of strangers has a span, and so has its request.
func TestRefusedJob(t *testing.T) {
	c := gbtest.NewCollector(t)
	tracer := open(t, c.URL, 1, slog.New(slog.DiscardHandler))
	r, answered := tracer.Request(post(""), false)
	_, sent := tracer.Send(r.Context(), "acme-1")
	sent(errors.New("quota"))
	answered("POST /v1/jobs", http.StatusTooManyRequests)
	tracer.Close()
	spans := map[string]gbtest.Span{}
	for _, s := range c.Spans() {
		spans[s.Name] = s
	}
	if job, request := spans["send jobs"], spans["POST /v1/jobs"]; len(spans) != 2 || job.Parent != request.ID || request.Attributes["http.response.status_code"] != "int_value:429" {
		t.Errorf("got %+v, want the request's span and the job's below it", spans)
	}
}

// TestLinks: a batch's jobs, and what hooks are sent, are traces of their own.
func TestLinks(t *testing.T) {
	c := gbtest.NewCollector(t)
	tracer := open(t, c.URL, 1, slog.New(slog.DiscardHandler))
	r, answered := tracer.Request(post(caller), true)
	one, sent := tracer.SendOfBatch(r.Context(), "acme-1")
	sent(nil)
	two, sent := tracer.SendOfBatch(r.Context(), "acme-2")
	sent(errors.New("quota"))
	answered("POST /v1/hooks/{id}", http.StatusAccepted)
	run := tracing.Carried(r.Context())
	step, sent := tracer.SendOfRun(t.Context(), "acme-r-1", run, "acme-3")
	sent(nil)
	tracer.Run(t.Context(), run, "acme-r-1", "push", "succeeded", time.Now().Add(-time.Minute), time.Now())
	tracer.Close()
	var hook, pipeline, ofRun gbtest.Span
	traces := map[string]bool{}
	for _, s := range c.Spans() {
		switch {
		case s.Name == "pipeline":
			pipeline = s
		case s.Name == "POST /v1/hooks/{id}":
			hook = s
		case s.Attributes["messaging.message.id"] == "acme-3":
			ofRun = s
		}
		traces[s.Trace] = true
	}
	if len(traces) != 3 || one[:35] == two[:35] || one == "" || two == "" {
		t.Errorf("got traces %v, %q and %q, want one of the hook's and one of each job", traces, one, two)
	}
	if hook.Parent != "" || len(hook.Links) != 1 || hook.Links[0] != "0af7651916cd43dd8448eb211c80319c/b7ad6b7169203331" {
		t.Errorf("hook: got %+v, want a link to the sender", hook)
	}
	if pipeline.Parent != hook.ID || ofRun.Parent != pipeline.ID || step != "00-"+hook.Trace+"-"+ofRun.ID+"-01" || tracing.OfRun(run, "acme-r-1") != "00-"+hook.Trace+"-"+pipeline.ID+"-01" {
		t.Errorf("got run %+v with job %+v", pipeline, ofRun)
	}
}

// TestSampling: a caller's flag, and ids that it has chosen, have us send no more than anybody's.
func TestSampling(t *testing.T) {
	c := gbtest.NewCollector(t)
	tracer := open(t, c.URL, .1, slog.New(slog.DiscardHandler))
	const n = 2000
	carried := 0
	for range n {
		r, answered := tracer.Request(post("00-00000000000000000000000000000001-0000000000000001-01"), false)
		if trace, sent := tracer.Send(r.Context(), "acme-1"); trace != "" {
			carried++
			sent(nil)
		}
		answered("POST /v1/jobs", http.StatusCreated)
		if r, _ := tracer.Request(post("00-00000000000000000000000000000001-0000000000000001-00"), false); tracing.Carried(r.Context()) != "" {
			t.Fatal("a trace was sampled that its caller doesn't want")
		}
	}
	tracer.Close()
	if carried < n/20 || carried > n/5 || len(c.Spans()) != 2*carried {
		t.Errorf("got %d of %d sampled and %d spans, want a tenth", carried, n, len(c.Spans()))
	}
}

// TestOff: without a Tracer nothing is allocated, and what a record carries makes nothing.
func TestOff(t *testing.T) {
	var off *tracing.Tracer
	ctx := t.Context()
	r := post(caller)
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() {
		_, answered := off.Request(r, false)
		trace, sent := off.Send(ctx, "acme-1")
		_, sentOfBatch := off.SendOfBatch(ctx, "acme-1")
		_, sentOfRun := off.SendOfRun(ctx, "acme-r-1", caller, "acme-1")
		_, processed := off.Process(ctx, caller, "acme-1", "python", 1, now, now)
		off.Step(ctx, "run", now, now)
		out, delivered := off.Attempt(ctx, caller, "d1", "job.completed", 1, false)
		off.Run(ctx, caller, "acme-r-1", "push", "succeeded", now, now)
		for _, end := range []func(error){sent, sentOfBatch, sentOfRun} {
			end(nil)
		}
		processed("succeeded")
		delivered(200, nil)
		answered("POST /v1/jobs", 201)
		if trace != "" || out != "" || tracing.Carried(ctx) != "" {
			t.Error("got a trace")
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
	off.Close()
}

// TestCollectorAway: a collector that hangs costs the spans beyond the queue, and nobody time.
func TestCollectorAway(t *testing.T) {
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(s.Close)
	goOn := sync.OnceFunc(func() { close(hang) })
	t.Cleanup(goOn)
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "300")
	said := &gbtest.Buffer{}
	tracer := open(t, s.URL, 1, slog.New(slog.NewTextHandler(said, nil)))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50_000 { // three times the queue
			_, sent := tracer.Send(context.Background(), "acme-1")
			sent(nil)
		}
	}()
	select {
	case <-done:
	case <-time.After(gbtest.AtOnce):
		t.Fatal("spans were waited for")
	}
	gbtest.Eventually(t, "the log says it", func() bool { return strings.Contains(said.String(), "spans were not taken by the collector") })
	goOn()
	tracer.Close()
}

func FuzzTraceparent(f *testing.F) {
	for _, s := range []string{caller, "", "00-0", "ff-" + caller[3:], "01-" + caller[3:] + "-x", strings.ToUpper(caller), caller + caller, "00-" + strings.Repeat("0", 32) + caller[35:]} {
		f.Add(s)
	}
	f.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
	tracer, err := tracing.Open(context.Background(), tracing.Settings{Service: "fuzz", Ratio: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(tracer.Close)
	f.Fuzz(func(t *testing.T, s string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/jobs", http.NoBody)
		r.Header["Traceparent"] = []string{s}
		r, _ = tracer.Request(r, false)
		carried, _ := tracer.Send(r.Context(), "acme-1")
		if carried != "" && (len(carried) != 55 || !strings.HasPrefix(carried, "00-") || strings.ToLower(carried) != carried) {
			t.Errorf("%q: carried %q", s, carried)
		}
		if got := tracing.OfRun(s, "acme-r-1"); got != "" && len(got) != 55 {
			t.Errorf("%q: got %q", s, got)
		}
	})
}
