package api_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/tracing"
)

// TestStrangersHaveNoSpans: without a token nobody can have spans made, whatever is asked, and by whatever method.
func TestStrangersHaveNoSpans(t *testing.T) {
	c := gbtest.NewCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	tracer, err := tracing.Open(t.Context(), tracing.Settings{Service: "test", Ratio: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, func(c *apiConfig) { c.Tracer = tracer })
	for _, r := range [][2]string{
		{"POST", "/healthz"},
		{"ALICE-" + strings.Repeat("A", 20_000), "/v1/jobs"},
		{"FOO", "/nowhere"},
		{"POST", "/v1/jobs"},
		{"POST", "//v1/../x"},
		{"POST", "/mcp"},
		{"POST", "/v1/hooks/x"},
		{"PUT", "/v1/hooks/x"},
		{"POST", "/v1/keys"},
		{"POST", "/docs"},
		{"POST", "/v1/batches"},
		{"DELETE", "/v1/artifacts/x"},
		{"POST", "/v1/tools"},
	} {
		if a, err := w.try(t.Context(), r[0], r[1], http.NoBody, "Authorization: "); err != nil || a.status < http.StatusBadRequest {
			t.Errorf("%.20s %s: got %d, %v", r[0], r[1], a.status, err)
		}
	}
	tracer.Close()
	for _, s := range c.Spans() {
		t.Errorf("got a span %.60q of a stranger", s.Name)
	}
}
