package job_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func TestParseChart(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"type":"line","title":"","series":[{"type":"line","label":"","x":["a","2026-01-01T00:00:00",null],"y":[1,2.5,-3]}]}`: "",
		`{"type":"multiple","title":"","charts":[{"type":"line","title":""},{"type":"bar","title":"","twin":0}]}`:              "",
		`{"type":"histogram","title":"","series":[{"type":"histogram","label":"","y":[1,2],"edges":[0,1,2]}]}`:                 "",
		`{"title":""}`:                  "read chart: type is missing",
		`{"type":"line","series":[{}]}`: "read chart: series[0]: type is missing",
		`{"type":"line","series":[{"type":"line","x":[1],"y":[1,2]}]}`:                                         "read chart: series[0]: x is of 1 values and y of 2",
		`{"type":"heatmap","series":[{"type":"heatmap","x_edges":[0,1,2],"y_edges":[0,1],"z":[[1,2]]}]}`:       "",
		`{"type":"heatmap","series":[{"type":"heatmap","x_edges":[0,1],"y_edges":[0,1,2],"z":[[1,2],[3,4]]}]}`: "read chart: series[0]: z[0] is of 2 values and x_edges of 2: want one more",
		`{"type":"heatmap","series":[{"type":"heatmap","x_edges":[0,1,2],"y_edges":[0,1],"z":[[1,2],[3,4]]}]}`: "read chart: series[0]: z is of 2 rows and y_edges of 2 values: want one more than rows",
		`{"type":"heatmap","series":[{"type":"heatmap","z":[[1,2],[3]]}]}`:                                     "read chart: series[0]: z[0] is of 2 values and z[1] of 1",
		`{"type":"line","series":[{"type":"bar","y":[1],"edges":[0]}]}`:                                        "",
		`{"type":"line","series":[{"type":"line","x":[[1]]}]}`:                                                 "value 0 of a chart's column is neither a number, a string nor null",
		`{"type":"line","series":[{"type":"line","x":[true]}]}`:                                                "value 0 of a chart's column is neither a number, a string nor null",
		`{"type":"line","series":[{"type":"line","x":[1e999]}]}`:                                               "read chart: ",
		`{"type":"multiple","charts":[{"type":"multiple","charts":[{}]}]}`:                                     "read chart: charts[0] has charts: only one level is allowed",
		`{"type":"multiple","charts":[{"type":"line","twin":0}]}`:                                              "read chart: charts[0].twin is 0: it has to be that of a chart before it",
		`{"type":"x","title":"` + strings.Repeat("x", job.MaxChart) + `"}`:                                     "at most 262144 are read",
		`{"type":"line","series":[` + strings.Repeat("{},", 5000) + `{}]}`:                                     "a chart of 5002 objects: at most 5000 are read",
		`{"charts":` + strings.Repeat(`[{"charts":`, 4_000) + `1`:                                              "read chart: ",
		`{"type":"line","series":[` + strings.Repeat("null,", 50_000) + `null]}`:                               "read chart: null is none of a chart's series: want an object",
		`{"type":"box","series":[{"type":"box","boxes":[{},` + strings.Repeat("null,", 50_000) + `null]}]}`:    "read chart: null is none of a chart's boxes: want an object",
		`{"type":"multiple","charts":[{"type":"line"},null]}`:                                                  "read chart: null is none of a chart's charts: want an object",
		`null`: "read chart: null is none of a chart's charts: want an object",
		`[]`:   "read chart: ",
	} {
		_, err := job.ParseChart([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.120s: got %v, want %q", text, err, want)
		}
	}
}

// TestChartDocument: the chart that docs/charts.md shows is one, and has nothing that the form doesn't.
func TestChartDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/charts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(text), "```json\n")
	shown, _, _ = strings.Cut(shown, "```")
	if _, err := job.ParseChart([]byte(shown)); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(shown))
	d.DisallowUnknownFields()
	var chart job.Chart
	if err := d.Decode(&chart); err != nil || len(chart.Series) != 2 {
		t.Errorf("got %+v, %v", chart, err)
	}
}
