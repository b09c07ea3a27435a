package pipelines

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestWhenCost: what an expression compares is counted however deep it is, so that no expression takes long.
func TestWhenCost(t *testing.T) {
	t.Parallel()
	ones, units := make([]any, 10_000), make([]any, 200)
	for i := range ones {
		ones[i] = int64(1)
	}
	for i := range units {
		units[i] = int64(i)
	}
	nested := func() any {
		var v any = ones
		for range 20 {
			v = []any{v}
		}
		return v
	}
	params := map[string]any{"l": units, "a": nested(), "b": nested(), "m": map[string]any{"x": nested()}, "n": map[string]any{"x": nested()}, "h": []any{nested()}}
	for _, text := range []string{
		"params.l.all(x, params.l.all(y, params.a == params.b))",
		"params.l.all(x, params.l.all(y, !(params.a != params.b)))",
		"params.l.all(x, params.l.all(y, params.a in params.h))",
		"params.l.all(x, params.l.all(y, params.m == params.n))",
		"params.l.all(x, params.l.all(y, [params.a] == [params.b]))",
		"params.l.all(x, params.l.all(y, {'k': params.a} == {'k': params.b}))",
		"params.l.all(x, params.l.all(y, params.a[0] == params.b[0]))",
	} {
		w, err := parseWhen(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = w.holds(Context{Params: params})
		if err == nil || !strings.Contains(err.Error(), "cost limit") || time.Since(began) > gbtest.AtOnce {
			t.Errorf("%s: got %v after %s, want it ended for its cost", text, err, time.Since(began))
		}
		t.Log(text, time.Since(began))
	}
}
