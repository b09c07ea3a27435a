package config

import (
	"context"
	"log/slog"
	"strconv"

	"github.com/glovebox-run/glovebox/internal/tracing"
)

// Tracing is what OpenTelemetry's own variables say; the exporter reads the rest of them itself.
type Tracing struct {
	// On is whether a collector is named. Without one, OpenTelemetry's default would be one on this host.
	On bool
	// Ratio of the traces that are begun which is sampled, 0 to 1. Defaults to 1.
	Ratio float64
	// Service is what the process is called, "" for its own name.
	Service string
}

// Open returns what makes spans: nil, which makes none, unless a collector is named.
func (t Tracing) Open(ctx context.Context, service, instance string, log *slog.Logger) (*tracing.Tracer, error) {
	if !t.On {
		return nil, nil
	}
	if t.Service != "" {
		service = t.Service
	}
	return tracing.Open(ctx, tracing.Settings{Service: service, Instance: instance, Ratio: t.Ratio, Log: log})
}

// tracing reads the variables that OpenTelemetry's specification names, as far as they are not the exporter's.
func (r *Reader) tracing() Tracing {
	t := Tracing{Ratio: 1, Service: r.String("OTEL_SERVICE_NAME", "")}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if v := r.String(name, ""); v != "" {
			r.CheckURL(name, v)
			t.On = true
		}
	}
	if r.String("OTEL_TRACES_EXPORTER", "otlp") == "none" || r.Bool("OTEL_SDK_DISABLED", false) {
		t.On = false
	}
	if !t.On {
		return t
	}
	for name, allowed := range map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio"} {
		if v := r.String(name, allowed); v != allowed {
			r.Fault(name, "is %q: want %s", v, allowed)
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		if v := r.String(name, "http/protobuf"); v != "http/protobuf" {
			r.Fault(name, "is %q: want http/protobuf, which collectors take at port 4318", v)
		}
	}
	if v := r.String("OTEL_TRACES_SAMPLER_ARG", ""); v != "" {
		ratio, err := strconv.ParseFloat(v, 64)
		if err != nil || !(ratio >= 0 && ratio <= 1) {
			r.Fault("OTEL_TRACES_SAMPLER_ARG", "is %q: want a ratio from 0 to 1, such as 0.1", v)
		}
		t.Ratio = ratio
	}
	return t
}
