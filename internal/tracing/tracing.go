// Package tracing makes OpenTelemetry spans of the path of a job: the request that submits it, its
// wait, its run, and each attempt to deliver its result. They are sent over OTLP/HTTP to a collector of the operator's.
//
// A job's stations are in several processes, and days may be between them. So the record carries
// where the job's trace goes on, in the form of a W3C traceparent, and every span is sent by the process that ends
// it. What is not sampled carries nothing. Neither a sandbox nor a task ever sees a traceparent.
//
// A nil *Tracer makes no spans and costs nothing.
//
// Start at [Open].
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/version"
)

const (
	// queuedSpans is how many spans may wait for the collector: those of a batch of 10,000 jobs. More are dropped.
	queuedSpans = 16_384
	// attributeBytes is how long the value of an attribute may be.
	attributeBytes = 256
)

// flushTime is how long the last spans may take at the end of a process.
var flushTime = 5 * time.Second // a variable for tests

// Settings say what a Tracer does.
type Settings struct {
	// Service is service.name, and Instance service.instance.id, which defaults to the host's name.
	Service, Instance string
	// Ratio of the traces that are begun which is sampled, 0 to 1.
	Ratio float64
	// Log is told when the collector takes no spans, rarely.
	Log *slog.Logger
}

// Tracer makes spans. It is safe for concurrent use; nil makes none.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	log      *slog.Logger
}

// Open returns a Tracer that sends to the collector which the process' environment names: OTEL_EXPORTER_OTLP_ENDPOINT and
// the other variables of the OTLP exporter. It doesn't wait for the collector.
func Open(ctx context.Context, s Settings) (*Tracer, error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("open tracing: %w", err)
	}
	if s.Instance == "" {
		s.Instance, _ = os.Hostname() // without one it stays empty
	}
	// What the operator says of the process in OTEL_RESOURCE_ATTRIBUTES comes last, so it counts.
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", s.Service), attribute.String("service.version", version.Read().Version),
		attribute.String("service.instance.id", s.Instance),
	), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("open tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	var saying sync.Mutex
	var said await.Rarely
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		saying.Lock()
		defer saying.Unlock()
		if said.Now() {
			s.Log.Warn("spans were not taken by the collector", "error", err)
		}
	}))
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = attributeBytes
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter, sdk.WithMaxQueueSize(queuedSpans)), sdk.WithResource(about), sdk.WithIDGenerator(ids{}), sdk.WithRawSpanLimits(limits),
		// A parent of our own was decided about. A caller's flag counts no more than that of nobody, or anybody
		// could have us send everything.
		sdk.WithSampler(sdk.ParentBased(ratio(s.Ratio), sdk.WithRemoteParentSampled(ratio(s.Ratio)))),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/glovebox-run/glovebox"), log: s.Log}, nil
}

// Close sends the spans that wait, for flushTime at most.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last spans were not sent", "error", err)
	}
}

// ratio samples so many of the traces that are begun. It doesn't look at their ids: a caller chooses those.
type ratio float64

// ShouldSample is [sdk.Sampler]'s.
func (r ratio) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	result := sdk.SamplingResult{Decision: sdk.Drop, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if rand.Float64() < float64(r) {
		result.Decision = sdk.RecordAndSample
	}
	return result
}

// Description is [sdk.Sampler]'s.
func (r ratio) Description() string { return fmt.Sprintf("GloveboxRatio{%g}", float64(r)) }
