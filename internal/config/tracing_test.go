package config

import (
	"strings"
	"testing"
)

// TestTracing: spans are sent only where a collector is named, and what can't be done is said.
func TestTracing(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, c := range []struct {
		env   File
		want  Tracing
		fault string
	}{
		{File{}, Tracing{Ratio: 1}, ""},
		{File{"OTEL_TRACES_SAMPLER_ARG": "x"}, Tracing{Ratio: 1}, ""}, // nobody asks
		{File{endpoint: "http://127.0.0.1:4318"}, Tracing{On: true, Ratio: 1}, ""},
		{File{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c.example.com/v1/traces", "OTEL_TRACES_SAMPLER_ARG": "0.25", "OTEL_SERVICE_NAME": "gb"}, Tracing{On: true, Ratio: .25, Service: "gb"}, ""},
		{File{endpoint: "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"}, Tracing{Ratio: 1}, ""},
		{File{endpoint: "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"}, Tracing{Ratio: 1}, ""},
		{File{endpoint: "127.0.0.1:4318"}, Tracing{}, endpoint + " is no http or https URL"},
		{File{endpoint: "http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, Tracing{}, `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc": want http/protobuf`},
		{File{endpoint: "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "zipkin"}, Tracing{}, `OTEL_TRACES_EXPORTER is "zipkin": want otlp`},
		{File{endpoint: "http://127.0.0.1:4318", "OTEL_TRACES_SAMPLER": "always_on"}, Tracing{}, `OTEL_TRACES_SAMPLER is "always_on": want parentbased_traceidratio`},
		{File{endpoint: "http://127.0.0.1:4318", "OTEL_TRACES_SAMPLER_ARG": "1.5"}, Tracing{}, `OTEL_TRACES_SAMPLER_ARG is "1.5": want a ratio from 0 to 1`},
		{File{endpoint: "http://127.0.0.1:4318", "OTEL_TRACES_SAMPLER_ARG": "NaN"}, Tracing{}, `OTEL_TRACES_SAMPLER_ARG is "NaN"`},
	} {
		r := NewReader(c.env.Get)
		got := r.tracing()
		if err := r.Err(); c.fault == "" && (err != nil || got != c.want) || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%v: got %+v, %v", c.env, got, err)
		}
	}
}
