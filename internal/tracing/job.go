package tracing

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// jobAttributes are what each span about a job has. The messaging ones are OpenTelemetry's conventions for queues.
func jobAttributes(id, operation string) trace.SpanStartEventOption {
	return trace.WithAttributes(
		attribute.String("messaging.system", "glovebox"), attribute.String("messaging.destination.name", "jobs"),
		attribute.String("messaging.operation.type", operation), attribute.String("messaging.message.id", id),
	)
}

// Send begins the PRODUCER span of a job that is created, in the trace that ctx is in or in one of its own. It returns
// what the job's record carries, and what ends the span.
func (t *Tracer) Send(ctx context.Context, id string) (traceparent string, end func(error)) {
	if t == nil {
		return "", func(error) {}
	}
	return t.send(ctx, id)
}

// SendOfBatch is Send for a job of a batch: a trace of its own, that links to the one that ctx is in.
// One trace of 10,000 jobs would be of no use.
func (t *Tracer) SendOfBatch(ctx context.Context, id string) (traceparent string, end func(error)) {
	if t == nil {
		return "", func(error) {}
	}
	return t.send(ctx, id, trace.WithNewRoot(), trace.WithLinks(trace.LinkFromContext(ctx)))
}

// SendOfRun is Send for a job of a pipeline's run, which carries runTrace.
func (t *Tracer) SendOfRun(ctx context.Context, run, runTrace, id string) (traceparent string, end func(error)) {
	if t == nil || runTrace == "" {
		return "", func(error) {}
	}
	return t.send(trace.ContextWithSpanContext(ctx, ours(runTrace).WithSpanID(idOf(run))), id)
}

func (t *Tracer) send(ctx context.Context, id string, options ...trace.SpanStartOption) (traceparent string, end func(error)) {
	if sends, ok := ctx.Value(sendsKey{}).(*atomic.Bool); ok {
		sends.Store(true)
	}
	ctx, span := t.tracer.Start(ctx, "send jobs", append(options, trace.WithSpanKind(trace.SpanKindProducer), jobAttributes(id, "send"))...)
	return Carried(ctx), func(err error) { finish(span, err) }
}

// Process begins the CONSUMER span of a job that a worker has taken, and makes that of its wait. The job's record carries
// traceparent. What ends it is told what became of the job.
func (t *Tracer) Process(ctx context.Context, traceparent, id, runtime string, attempt int, ready, started time.Time) (context.Context, func(status string)) {
	if t == nil || traceparent == "" {
		return ctx, func(string) {}
	}
	ctx = within(ctx, traceparent)
	if started.After(ready) {
		_, wait := t.tracer.Start(ctx, "wait", trace.WithTimestamp(ready), jobAttributes(id, "receive"))
		wait.End(trace.WithTimestamp(started))
	}
	ctx, span := t.tracer.Start(ctx, "process jobs", trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(started), jobAttributes(id, "process"),
		trace.WithAttributes(attribute.String("glovebox.runtime", runtime), attribute.Int("glovebox.attempt", attempt)))
	return ctx, func(status string) {
		if status == "" { // it goes back to the queue, or was another's
			span.SetStatus(codes.Error, "not ended here")
		}
		span.SetAttributes(attribute.String("glovebox.status", status))
		span.End()
	}
}

// Step makes the span of a step that is over, within what ctx is in.
func (t *Tracer) Step(ctx context.Context, name string, from, to time.Time) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() || to.Before(from) {
		return
	}
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from))
	span.End(trace.WithTimestamp(to))
}

// Run makes the span of a pipeline's run that has ended, whose record carries traceparent.
func (t *Tracer) Run(ctx context.Context, traceparent, id, pipeline, status string, began, ended time.Time) {
	if t == nil || traceparent == "" {
		return
	}
	_, span := t.tracer.Start(withID(within(ctx, traceparent), idOf(id)), "pipeline", trace.WithTimestamp(began), trace.WithAttributes(
		attribute.String("cicd.pipeline.name", pipeline), attribute.String("cicd.pipeline.run.id", id), attribute.String("cicd.pipeline.result", status),
	))
	span.End(trace.WithTimestamp(ended))
}

// OfRun is where the trace of a run goes on whose record carries traceparent: in the run's own span.
func OfRun(traceparent, id string) string {
	if traceparent == "" {
		return ""
	}
	return format(ours(traceparent).WithSpanID(idOf(id)))
}

// finish ends a span with whether what it is about went well. What err says stays here: it may hold what users sent.
func finish(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
