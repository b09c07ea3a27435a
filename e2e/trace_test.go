package e2e

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// traced starts an installation that sends its spans to the collector.
func traced(t *testing.T, collector *gbtest.Collector) *glovebox {
	t.Helper()
	env := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_BSP_SCHEDULE_DELAY=200"}
	return start(t, options{apiEnv: env, workerEnv: env})
}

// caller is where a client's own trace is.
const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// withTraceparent is a client whose requests belong to the caller's trace.
func (g *glovebox) withTraceparent(tb testing.TB) *producer.Client {
	tb.Helper()
	c, err := producer.New(g.url, g.token, producer.WithHTTPClient(&http.Client{Transport: traceparent{http.DefaultTransport}}))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

type traceparent struct{ http.RoundTripper }

func (t traceparent) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", caller)
	return t.RoundTripper.RoundTrip(r)
}

// TestTraces: a job is one trace, from its caller through api and worker to the receiver, and so is a pipeline.
func TestTraces(t *testing.T) {
	t.Parallel()
	collector := gbtest.NewCollector(t)
	g := traced(t, collector)

	client := g.withTraceparent(t)
	spec := g.chart()
	spec.Env = map[string]string{"SECRET": "hunter2"}
	j, err := client.Submit(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	g.wait(j.ID)
	told := g.hook.messages(t, 1, patience)[0].Traceparent
	steps := map[string]int{
		"POST /v1/jobs": 1, "send jobs": 1, "wait": 1, "process jobs": 1, "prepare": 1, "start sandbox": 1, "send files": 1, "run": 1,
		"collect and upload": 1, "store": 1, "end": 1, "POST job.completed": 1,
	}
	spans := awaitBelow(t, collector, caller[3:35], caller[36:52], steps)
	checkTimes(t, spans)
	for _, s := range spans {
		if want := map[bool]string{true: "glovebox-worker", false: "glovebox-api"}[!strings.Contains(s.Name, "POST") && s.Name != "send jobs"]; s.Service != want {
			t.Errorf("%s: is %s's, want %s", s.Name, s.Service, want)
		}
		if text := fmt.Sprint(s); strings.Contains(text, "hunter2") || strings.Contains(text, g.token) || strings.Contains(text, "echo hello") {
			t.Errorf("got %s, with what is secret in it", text)
		}
	}
	if !slices.ContainsFunc(spans, func(s gbtest.Span) bool {
		return s.Name == "POST job.completed" && told == "00-"+s.Trace+"-"+s.ID+"-01"
	}) {
		t.Errorf("the receiver got traceparent %q, want the attempt's", told)
	}

	x, err := client.StartSession(t.Context(), job.SessionSettings{Runtime: "python"})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := g.client.ExecuteInSession(t.Context(), x.ID, job.SessionExecution{Code: "1 + 1"})
	if err != nil {
		t.Fatal(err)
	}
	g.wait(turn.ID)
	collector.Await(t, traceOf(t, collector, turn.ID), map[string]int{"POST /v1/sessions/{id}/execute": 1, "send jobs": 1, "process jobs": 1, "run": 1, "store": 1})

	b, err := client.SubmitBatch(t.Context(), producer.BatchOptions{}, func(yield func(job.Spec, error) bool) {
		for i := 0; i < 2 && yield(job.Spec{Runtime: "bash", Source: "echo"}, nil); i++ {
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.client.WaitBatch(t.Context(), b.ID); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range 2 {
		trace := traceOf(t, collector, job.ItemID(b.ID, i))
		of := collector.Await(t, trace, map[string]int{"send jobs": 1, "process jobs": 1})
		sent := of[slices.IndexFunc(of, func(s gbtest.Span) bool { return s.Name == "send jobs" })]
		if len(sent.Links) != 1 || !strings.HasPrefix(sent.Links[0], caller[3:35]) || sent.Parent != "" || seen[trace] {
			t.Errorf("got %+v, want a trace of its own that links to the batch", sent)
		}
		seen[trace] = true
	}

	hook := g.pushHook()
	commits := gbtest.Number(t, "GLOVEBOX_DRAW_COMMITS", 20)
	said := g.pushed(hook, "one", push(t, "one", commits))
	var run job.Run
	gbtest.Eventually(t, "the run ends", func() bool {
		run, err = g.client.GetRun(t.Context(), said.RunID)
		return err == nil && run.Status.Final()
	})
	chart := run.Steps["chart"].Jobs[0].ID
	jobs := commits + 3
	spans = collector.Await(t, traceOf(t, collector, chart), map[string]int{
		"POST /v1/hooks/{id}": 1, "pipeline": 1, "send jobs": jobs, "process jobs": jobs, "run": jobs, "POST pipeline.completed": 1,
	})
	checkTimes(t, spans)
	draw(t, spans)
}

// traceOf is the trace of a job, once its span has come.
func traceOf(t *testing.T, c *gbtest.Collector, id string) (trace string) {
	t.Helper()
	gbtest.Eventually(t, "the job's span has come", func() bool {
		for _, s := range c.Spans() {
			if s.Attributes["messaging.message.id"] == id {
				trace = s.Trace
			}
		}
		return trace != ""
	})
	return trace
}

// awaitBelow is Await of a trace that a caller has begun, whose own span the collector doesn't get.
func awaitBelow(t *testing.T, c *gbtest.Collector, trace, callersSpan string, want map[string]int) []gbtest.Span {
	t.Helper()
	c.Add(gbtest.Span{Trace: trace, ID: callersSpan, Name: "caller"})
	return slices.DeleteFunc(c.Await(t, trace, want), func(s gbtest.Span) bool { return s.Name == "caller" })
}

// checkTimes: no span begins before the one above it. All clocks are one here; they have milliseconds in records.
func checkTimes(t *testing.T, spans []gbtest.Span) {
	t.Helper()
	known := map[string]gbtest.Span{}
	for _, s := range spans {
		known[s.ID] = s
	}
	for _, s := range spans {
		if above, ok := known[s.Parent]; ok && s.Begin.Sub(above.Begin).Milliseconds() < -1 || s.End.Before(s.Begin) {
			t.Errorf("%s from %s to %s is in %s, which begins at %s", s.Name, s.Begin, s.End, above.Name, above.Begin)
		}
	}
}

// draw makes docs/trace.svg: a row for the run, for each of its jobs and for its delivery. GLOVEBOX_DRAW_TRACE names the file.
func draw(t *testing.T, spans []gbtest.Span) {
	t.Helper()
	name := os.Getenv("GLOVEBOX_DRAW_TRACE")
	if name == "" {
		return
	}
	slices.SortFunc(spans, func(a, b gbtest.Span) int { return a.Begin.Compare(b.Begin) })
	const left, wide, high = 190, 760, 22
	began := spans[0].Begin
	last := slices.MaxFunc(spans, func(a, b gbtest.Span) int { return a.End.Compare(b.End) }).End
	rows := map[string]int{} // of a job's spans by the id of what they are below
	row := 0
	var text strings.Builder
	bar := func(s gbtest.Span, row int, colour string) {
		at := func(when time.Time) float64 {
			return left + float64(when.Sub(began))/float64(last.Sub(began))*(wide-left-10)
		}
		fmt.Fprintf(&text, "<rect x='%.1f' y='%d' width='%.1f' height='14' fill='%s'><title>%s, %d ms</title></rect>\n",
			at(s.Begin), row*high+4, max(at(s.End)-at(s.Begin), 1.5), colour, s.Name, s.End.Sub(s.Begin).Milliseconds())
	}
	label := func(s string) {
		row++
		fmt.Fprintf(&text, "<text x='6' y='%d'>%s</text>\n", row*high+15, s)
	}
	colours := map[string]string{
		"wait": "#c9c9c9", "start sandbox": "#e8a33d", "send files": "#e8a33d", "run": "#3b7dd8", "collect and upload": "#5aa469", "store": "#5aa469", "end": "#5aa469",
	}
	jobs := 0
	for _, s := range spans {
		switch {
		case s.Name == "send jobs":
			jobs++
			label(fmt.Sprintf("job %d", jobs))
			rows[s.ID] = row
		case s.Name == "pipeline" || strings.HasPrefix(s.Name, "POST"):
			label(s.Name)
			bar(s, row, "#7a5ea8")
		}
	}
	for _, s := range spans {
		if s.Name == "process jobs" {
			rows[s.ID] = rows[s.Parent]
		}
	}
	for _, s := range spans {
		if colours[s.Name] != "" {
			bar(s, rows[s.Parent], colours[s.Name])
		}
	}
	legend := left
	for _, name := range []string{"wait", "start sandbox", "run", "store"} {
		fmt.Fprintf(&text, "<rect x='%d' y='6' width='10' height='10' fill='%s'/><text x='%d' y='15'>%s</text>\n", legend, colours[name], legend+14, name)
		legend += 120
	}
	svg := fmt.Sprintf("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' font-size='12'>\n<rect width='100%%' height='100%%' fill='white'/>\n<text x='6' y='15'>%d ms in all</text>\n%s</svg>\n",
		wide, (row+1)*high+4, last.Sub(began).Milliseconds(), text.String())
	if err := os.WriteFile(name, []byte(svg), 0o600); err != nil {
		t.Fatal(err)
	}
}
