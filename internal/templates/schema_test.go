package templates_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/templates"
	"github.com/glovebox-run/glovebox/job"
)

// TestValidationIsBounded: a schema and parameters that are each within bounds, but not together, are
// refused before they are validated.
func TestValidationIsBounded(t *testing.T) {
	t.Parallel()
	list := func(value string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(value+",", n), ",") + "]"
	}
	schema, err := templates.Parse(json.RawMessage(`{"type":"object","properties":{"a":{"items":{"allOf":` + list("false", 1900) + `}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	check := func(n int, want string) {
		t.Helper()
		_, err := schema.Params(json.RawMessage(`{"a":` + list("1", n) + `}`))
		if !errors.As(err, new(job.Invalid)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d values: got %v, want %q", n, err, want)
		}
	}
	check(4000, "have too many values, defaults included, for a schema of 190")
	check(1, "params.a.0: is wrong")

	// Defaults count, too.
	schema, err = templates.Parse(json.RawMessage(`{"type":"object","properties":{"a":{"items":{"type":"integer"},"default":` + list("1", 1900) + `}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schema.Params(json.RawMessage(`{}`)); err == nil || !strings.Contains(err.Error(), "have too many values") {
		t.Errorf("by default: got %v", err)
	}
}
