package tracing

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"go.opentelemetry.io/otel/trace"
)

// header is the name of W3C Trace Context's header. Its tracestate is others' business, and neither read nor sent.
const header = "traceparent"

// parse reads a traceparent (W3C Trace Context, 3.2). What is none is invalid.
func parse(traceparent string) trace.SpanContext {
	const length = 55 // of version 00; later ones may have more behind another dash
	if len(traceparent) < length || len(traceparent) > length && (traceparent[length] != '-' || traceparent[:2] == "00") || traceparent[:2] == "ff" {
		return trace.SpanContext{}
	}
	if traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-' {
		return trace.SpanContext{}
	}
	traceID, err1 := trace.TraceIDFromHex(traceparent[3:35])
	spanID, err2 := trace.SpanIDFromHex(traceparent[36:52])
	flags, err3 := hex.DecodeString(traceparent[53:length])
	_, err4 := hex.DecodeString(traceparent[:2])
	if errors.Join(err1, err2, err3, err4) != nil {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags[0]) & trace.FlagsSampled, Remote: true})
}

// format is a sampled span as a traceparent of 55 bytes, or "".
func format(c trace.SpanContext) string {
	if !c.IsValid() || !c.IsSampled() {
		return ""
	}
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-01"
}

// Carried is where the trace goes on that ctx is in, for a record to keep: "" outside of a sampled trace.
func Carried(ctx context.Context) string { return format(trace.SpanContextFromContext(ctx)) }

// ours is the parent that a record carries. It was sampled, or the record would carry none.
func ours(traceparent string) trace.SpanContext { return parse(traceparent).WithRemote(false) }

// within returns a ctx whose spans are children of what the record carries.
func within(ctx context.Context, traceparent string) context.Context {
	return trace.ContextWithSpanContext(ctx, ours(traceparent))
}

// ids makes the ids of spans. One that ends in another process than it began in has an id that follows
// from what it is about, so that its children know their parent before there is one.
type ids struct{}

// spanIDKey is the key of a span's id in a ctx.
type spanIDKey struct{}

// withID has the next span of ctx get that id.
func withID(ctx context.Context, id trace.SpanID) context.Context {
	return context.WithValue(ctx, spanIDKey{}, id)
}

// idOf is the id of the span that is about something with that name.
func idOf(name string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte("glovebox span " + name))
	copy(id[:], sum[:])
	return id
}

// NewIDs is the SDK's IDGenerator.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	var id trace.TraceID
	_, _ = crand.Read(id[:]) // it never fails
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID is the SDK's IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) (id trace.SpanID) {
	if given, ok := ctx.Value(spanIDKey{}).(trace.SpanID); ok {
		return given
	}
	_, _ = crand.Read(id[:])
	return id
}
