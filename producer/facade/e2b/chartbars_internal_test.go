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
		c, err := job.ParseChart([]byte(content))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if bars(c) > maxBars {
			continue // it is told as unknown
		}
		text, err := job.Marshal(translated(c))
		if err != nil || len(text) > 2<<20 {
			t.Errorf("%s: got %d bytes, %v", name, len(text), err)
		}
	}
}
