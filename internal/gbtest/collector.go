package gbtest

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector takes spans over OTLP/HTTP, as an OpenTelemetry collector does.
type Collector struct {
	*httptest.Server

	mu    sync.Mutex
	spans []Span
}

// Span is one that the collector was sent. Ids are in hexadecimal.
type Span struct {
	Service, Name       string
	Kind                trace.Span_SpanKind
	Trace, ID, Parent   string
	Links               []string // "trace/span"
	Attributes          map[string]string
	Begin, End          time.Time
	Failed              bool
	TraceState, Message string
}

// NewCollector starts one that ends with the test.
func NewCollector(tb testing.TB) *Collector {
	tb.Helper()
	c := &Collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				tb.Errorf("collector: %v", err)
				return
			}
			body = z
		}
		b, err := io.ReadAll(body)
		var request collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(b, &request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			tb.Errorf("collector: %s: %v", r.URL, err)
		}
		c.take(&request)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	tb.Cleanup(c.Close)
	return c
}

func (c *Collector) take(request *collector.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		service := ""
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				span := Span{
					Service: service, Name: s.Name, Kind: s.Kind, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
					Attributes: map[string]string{}, Begin: time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)),
					Failed: s.Status.GetCode() == trace.Status_STATUS_CODE_ERROR, TraceState: s.TraceState, Message: s.Status.GetMessage(),
				}
				for _, l := range s.Links {
					span.Links = append(span.Links, hex.EncodeToString(l.TraceId)+"/"+hex.EncodeToString(l.SpanId))
				}
				for _, a := range s.Attributes {
					if span.Attributes[a.Key] = a.Value.GetStringValue(); span.Attributes[a.Key] == "" {
						span.Attributes[a.Key] = a.Value.String()
					}
				}
				c.spans = append(c.spans, span)
			}
		}
	}
}

// Add has the collector know a span of somebody else's.
func (c *Collector) Add(s Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, s)
}

// Spans are those that have come.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Await waits until a trace is whole: no span of it has a parent that hasn't come, and it has as many spans of each
// name as are wanted. It returns the trace's spans.
func (c *Collector) Await(tb testing.TB, trace string, want map[string]int) []Span {
	tb.Helper()
	var spans []Span
	var orphans []Span
	got := map[string]int{}
	defer func() {
		if tb.Failed() {
			tb.Logf("trace %s: got %v, want %v; orphans %+v", trace, got, want, orphans)
		}
	}()
	Eventually(tb, "the trace is whole", func() bool {
		spans, orphans = nil, nil
		clear(got)
		known := map[string]bool{}
		for _, s := range c.Spans() {
			if s.Trace == trace {
				spans, known[s.ID] = append(spans, s), true
				got[s.Name]++
			}
		}
		for _, s := range spans {
			if s.Parent != "" && !known[s.Parent] {
				orphans = append(orphans, s)
			}
		}
		for name, n := range want {
			if got[name] < n {
				return false
			}
		}
		return len(orphans) == 0
	})
	return spans
}
