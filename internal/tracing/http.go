package tracing

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Request begins the SERVER span of a request that may change something, and returns the request within it, and what
// ends it, whose route is a pattern of http.ServeMux. One that only reads gets none: polls would be most of what is sent. The caller's span is the parent; where
// linked, it is only linked to, as what a sender of webhooks sends belongs to no trace of ours.
//
// The span has the route and the status: no path, query, header or address, which hold tokens or name people. What a stranger can send
// without end, that answers 401, 404 or 429 or has no route, has no span: it would crowd out those of jobs. One that had begun to send a job has its span, which is that of the job's parent.
func (t *Tracer) Request(r *http.Request, linked bool) (*http.Request, func(route string, status int)) {
	if t == nil || r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return r, func(string, int) {}
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	ctx := r.Context()
	if caller := parse(r.Header.Get(header)); caller.IsValid() && linked {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: caller}))
	} else if caller.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, caller)
	}
	sends := new(atomic.Bool)
	ctx, span := t.tracer.Start(context.WithValue(ctx, sendsKey{}, sends), "request", options...)
	return r.WithContext(ctx), func(route string, status int) {
		refused := route == "" || status == http.StatusUnauthorized || status == http.StatusNotFound || status == http.StatusTooManyRequests
		if refused && !sends.Load() {
			return // a span that isn't ended isn't sent
		}
		method, path, _ := strings.Cut(route, " ") // no words of the caller's
		span.SetName(route)
		span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", path), attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// sendsKey is where a request's context has an *atomic.Bool: whether the request has begun to send a job.
type sendsKey struct{}

// Attempt begins the CLIENT span of an attempt to deliver what is about the job, batch or run that carries traceparent,
// and returns the traceparent to send to the receiver, "" for none, and what ends it. Where again, somebody has asked
// for the delivery once more: it is a trace of its own, with a link.
func (t *Tracer) Attempt(ctx context.Context, traceparent, delivery, event string, number int, again bool) (outgoing string, end func(status int, err error)) {
	if t == nil || traceparent == "" {
		return "", func(int, error) {}
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", http.MethodPost), attribute.String("messaging.message.id", delivery),
		attribute.String("glovebox.event", event), attribute.Int("http.request.resend_count", number-1),
	)}
	if again {
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: ours(traceparent)}))
	} else {
		ctx = within(ctx, traceparent)
	}
	ctx, span := t.tracer.Start(ctx, "POST "+event, options...)
	return Carried(ctx), func(status int, err error) {
		if status != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", status))
		}
		if err != nil {
			span.SetStatus(codes.Error, "") // what err says may name addresses of ours
		}
		span.End()
	}
}
