package e2b

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestBarsAreBounded: what each bar of a chart repeats can't make its answer much larger than the chart.
func TestBarsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100<<10)
	for name, content := range map[string]string{
		"too many bars":     `{"type":"bar","series":[{"type":"bar","label":"` + long + `","x":[0` + strings.Repeat(",0", 30_000) + `],"y":[0` + strings.Repeat(",0", 30_000) + `]}]}`,
		"a long label":      `{"type":"bar","series":[{"type":"bar","label":"` + long + `","x":[0` + strings.Repeat(",0", 4000) + `],"y":[0` + strings.Repeat(",0", 4000) + `]}]}`,
		"a long tick label": `{"type":"bar","x":{"named":true,"ticks":[0],"tick_labels":["` + long + `"]},"y":{},"series":[{"type":"bar","x":[0` + strings.Repeat(",0", 4000) + `],"y":[0` + strings.Repeat(",0", 4000) + `]}]}`,
	} {
		if _, err := job.ParseChart([]byte(content)); err != nil {
			t.Fatalf("%s: it is no chart: %v", name, err)
		}
		text, err := chartOf([]byte(content), &room{left: 64 << 20, take: func(int64) error { return nil }})
		if err != nil || len(text) > 2<<20 {
			t.Errorf("%s: got %d bytes, %v", name, len(text), err)
		}
		if unknown := strings.HasPrefix(string(text), `{"type":"unknown"`); unknown != (name == "too many bars") {
			t.Errorf("%s: got %.100s", name, text)
		}
	}
}
