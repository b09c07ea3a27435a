package podman_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/internal/chartdata"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// drawn is a figure, and what has to be told of it: the type, and the series as JSON.
type drawn struct {
	code, kind, series string
	more               func(c job.Chart) bool // what else holds; nil for nothing
}

var drawings = map[string]drawn{
	"line": {
		"plt.plot([1, 2, 3], [2, 4, float('nan')], label='a'); plt.title('Größe 大'); plt.xlabel('t (s)')", "line",
		`[{"type":"line","label":"a","x":[1,2,3],"y":[2,4,null]}]`,
		func(c job.Chart) bool {
			return c.Title == "Größe 大" && c.X.Label == "t (s)" && c.X.Unit == "s" && c.Y.Scale == "linear"
		},
	},
	"step": {"plt.step([1, 2, 3], [1, 4, 9], where='post')", "step", `[{"type":"step","label":"","where":"post","x":[1,2,3],"y":[1,4,9]}]`, nil},
	"scatter": {
		"plt.scatter([1, 2], [3, 4], c=[.1, .2], s=[10, 20]); plt.plot([5], [6], 'o')", "scatter",
		`[{"type":"scatter","label":"","x":[5],"y":[6]},{"type":"scatter","label":"","x":[1,2],"y":[3,4],"values":[0.1,0.2],"sizes":[10,20]}]`, nil,
	},
	"points missing": {
		"plt.scatter(['a', 'b', 'c'], [1, float('nan'), 3])", "scatter",
		`[{"type":"scatter","label":"","x":["a",null,"c"],"y":[1,null,3]}]`, nil,
	},
	"bar": {
		"plt.bar(['a', 'b'], [1, 2], bottom=[0, .5], yerr=[.25, .5], label='g')", "bar",
		`[{"type":"bar","label":"g","x":["a","b"],"y":[1,2],"width":[0.8,0.8],"base":[0,0.5],"y_low":[0.75,2],"y_high":[1.25,3]}]`,
		func(c job.Chart) bool { return c.X.Scale == "categorical" && c.X.TickLabels[1] == "b" },
	},
	"barh": {"plt.barh([0, 1], [3, -4], height=.5)", "bar", `[{"type":"bar","label":"","orientation":"horizontal","x":[3,-4],"y":[0,1],"width":[0.5,0.5]}]`, nil},
	"histogram": {
		"plt.hist([1, 2, 2, 3, 9], bins=[0, 2, 4, 10], label='h')", "histogram",
		`[{"type":"histogram","label":"h","y":[1,3,1],"edges":[0,2,4,10]}]`, nil,
	},
	"histograms": {
		"plt.hist([[1, 2, 2], [3, 9]], bins=[0, 2, 10])", "histogram",
		`[{"type":"histogram","label":"","y":[1,2],"edges":[0,2,10]},{"type":"histogram","label":"","y":[0,2],"edges":[0,2,10]}]`, nil,
	},
	"stacked": {
		"plt.hist([[1, 2, 2], [3, 9]], bins=[0, 2, 10], stacked=True)", "histogram",
		`[{"type":"histogram","label":"","y":[1,2],"edges":[0,2,10]},{"type":"histogram","label":"","y":[0,2],"edges":[0,2,10],"base":[1,2]}]`, nil,
	},
	"outlines": {
		"plt.hist([[1, 2, 2], [3, 9]], bins=[0, 2, 10], stacked=True, histtype='step')", "histogram",
		`[{"type":"histogram","label":"","y":[0,2],"edges":[0,2,10],"base":[1,2]},{"type":"histogram","label":"","y":[1,2],"edges":[0,2,10]}]`, nil,
	},
	"pie": {
		"plt.pie([1, 3, 4], labels=['p', 'q', 'r'])", "pie",
		`[{"type":"pie","label":"","labels":["p","q","r"],"values":[1,3,4],"angles":[45,135,180],"radius":1}]`, nil,
	},
	"box": {
		"plt.boxplot([[1, 2, 3, 9], [2, 3, 4]], tick_labels=['x', 'y'])", "box",
		`[{"type":"box","label":"","boxes":[{"label":"x","position":1,"min":1,"first_quartile":1.75,"median":2.5,"third_quartile":4.5,"max":4.5,"outliers":[9]},` +
			`{"label":"y","position":2,"min":2,"first_quartile":2.5,"median":3,"third_quartile":3.5,"max":4,"outliers":[]}]}]`, nil,
	},
	"boxh": {
		"plt.boxplot([[1, 2, 3]], orientation='horizontal', patch_artist=True, showmeans=True)", "box",
		`[{"type":"box","label":"","orientation":"horizontal","boxes":[{"label":"1","position":1,"min":1,"first_quartile":1.5,"median":2,"third_quartile":2.5,"max":3,"mean":2,"outliers":[]}]}]`, nil,
	},
	"boxh of nothing": {
		"plt.boxplot([[1, 2, 3], []], orientation='horizontal')", "box",
		`[{"type":"box","label":"","orientation":"horizontal","boxes":[{"label":"1","position":1,"min":1,"first_quartile":1.5,"median":2,"third_quartile":2.5,"max":3,"outliers":[]},` +
			`{"label":"2","position":2,"min":null,"first_quartile":null,"median":null,"third_quartile":null,"max":null,"outliers":[]}]}]`, nil,
	},
	"box of nothing": {
		"plt.boxplot([[], [1, 2, 3]])", "box",
		`[{"type":"box","label":"","boxes":[{"label":"1","position":1,"min":null,"first_quartile":null,"median":null,"third_quartile":null,"max":null,"outliers":[]},` +
			`{"label":"2","position":2,"min":1,"first_quartile":1.5,"median":2,"third_quartile":2.5,"max":3,"outliers":[]}]}]`, nil,
	},
	"area": {
		"plt.fill_between([1, 2, 3, 4, 5], [1, 4, 9, 3, 3], [0, 1, 2, 0, 1], where=[1, 1, 0, 1, 1])", "area",
		`[{"type":"area","label":"","x":[1,2,null,4,5],"y":[1,4,null,3,3],"base":[0,1,null,0,1]}]`, nil,
	},
	"stack": {
		"plt.stackplot([1, 2], [1, 3], [2, 2], labels=['u', 'v'])", "area",
		`[{"type":"area","label":"u","x":[1,2],"y":[1,3],"base":[0,0]},{"type":"area","label":"v","x":[1,2],"y":[3,5],"base":[1,3]}]`, nil,
	},
	"errorbar": {
		"plt.errorbar([1, 2], [3, 4], yerr=[[.5, .25], [1, 2]], xerr=.5, fmt='o-', label='e')", "errorbar",
		`[{"type":"errorbar","label":"e","x":[1,2],"y":[3,4],"x_low":[0.5,1.5],"x_high":[1.5,2.5],"y_low":[2.5,3.75],"y_high":[4,6]}]`, nil,
	},
	"heatmap": {
		"plt.imshow([[1, 2], [3, 4], [5, float('inf')]]); plt.colorbar()", "heatmap",
		`[{"type":"heatmap","label":"","x_edges":[-0.5,0.5,1.5],"y_edges":[-0.5,0.5,1.5,2.5],"z":[[1,2],[3,4],[5,null]]}]`,
		func(c job.Chart) bool { return c.Y.Range[0].(float64) > c.Y.Range[1].(float64) },
	},
	"mesh": {"plt.pcolormesh([0, 1, 2], [0, 1, 4], [[1, 2], [3, 4]])", "heatmap", `[{"type":"heatmap","label":"","x_edges":[0,1,2],"y_edges":[0,1,4],"z":[[1,2],[3,4]]}]`, nil},
	"shaded": {
		"plt.pcolormesh([0, 1, 3], [0, 2], [[1, 2, 3], [4, 5, 6]], shading='gouraud')", "heatmap",
		`[{"type":"heatmap","label":"","x_edges":[0,0.5,2,3],"y_edges":[0,1,2],"z":[[1,2,3],[4,5,6]]}]`, nil,
	},
	"stem":     {"plt.stem([1, 2], [3, 4])", "stem", `[{"type":"stem","label":"","x":[1,2],"y":[3,4]}]`, nil},
	"lines":    {"plt.hlines([1, 2], 0, [5, 6])", "line", `[{"type":"line","label":"","x":[0,5,null,0,6],"y":[1,1,null,2,2]}]`, nil},
	"no lines": {"plt.vlines([], 0, 1)", "empty", "null", nil},
	"events": {
		"plt.eventplot([[], [1, 2]])", "line",
		`[{"type":"line","label":"","x":[1,1,null,2,2],"y":[1.5,0.5,null,1.5,0.5]}]`, nil,
	},
	"many lines": {
		"plt.hlines(range(5000), 0, 1)", "line", "",
		func(c job.Chart) bool {
			s := c.Series[0]
			return s.Every == 5 && s.Total == 5000 && len(s.X) == 2999 && slices.Equal(s.X[:4], []any{0.0, 1.0, nil, 0.0}) && slices.Equal(s.Y[:4], []any{0.0, 0.0, nil, 5.0})
		},
	},
	"many series": {
		"plt.subplots(1, 20, num=plt.gcf().number); [a.plot([1]) for a in plt.gcf().axes for _ in range(101)]", "multiple", "null",
		func(c job.Chart) bool {
			return len(c.Charts) == 20 && len(c.Charts[19].Series) == 100 && c.Charts[0].Note == "the first 100 of 101 series"
		},
	},
	"log": {
		"plt.loglog([1, 10], [1, 100]); plt.axvline(3); plt.axhspan(2, 4)", "line",
		`[{"type":"line","label":"","x":[1,10],"y":[1,100]},{"type":"vline","label":"","x":[3]},{"type":"hspan","label":"","y":[2,4]}]`,
		func(c job.Chart) bool { return c.X.Scale == "log" && c.Y.Scale == "log" },
	},
	"dates": {
		"plt.plot([datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2, 12)], [1, 2])", "line",
		`[{"type":"line","label":"","x":["2026-01-01T00:00:00+00:00","2026-01-02T12:00:00+00:00"],"y":[1,2]}]`,
		func(c job.Chart) bool { return c.X.Scale == "datetime" },
	},
	"periods": {
		"pd.Series([1, 2], index=pd.period_range('2026-01', periods=2, freq='M')).plot()", "line",
		`[{"type":"line","label":"","x":["2026-01-01T00:00:00","2026-02-01T00:00:00"],"y":[1,2]}]`, nil,
	},
	"frame": {
		"pd.DataFrame({'a': [1, 2], 'b': [3, 4]}, index=['x', 'y']).plot.bar(ax=plt.gca())", "bar",
		`[{"type":"bar","label":"a","x":[-0.125,0.875],"y":[1,2],"width":[0.25,0.25]},{"type":"bar","label":"b","x":[0.125,1.125],"y":[3,4],"width":[0.25,0.25]}]`,
		func(c job.Chart) bool { return c.X.Named && slices.Equal(c.X.TickLabels, []string{"x", "y"}) },
	},
	"mixed": {
		"plt.plot(['a', 'b'], [1, 2]); plt.bar(['a', 'b'], [3, 4])", "mixed",
		`[{"type":"bar","label":"","x":["a","b"],"y":[3,4],"width":[0.8,0.8]},{"type":"line","label":"","x":["a","b"],"y":[1,2]}]`, nil,
	},
	"polar":   {"plt.subplot(projection='polar').plot([0, 1], [1, 2])", "line", `[{"type":"line","label":"","x":[0,1],"y":[1,2]}]`, func(c job.Chart) bool { return c.Projection == "polar" }},
	"unknown": {"plt.contour([[1, 2], [3, 4]])", "unknown", `[{"type":"unknown","label":"","class":"QuadContourSet"}]`, nil},
	"depth":   {"plt.subplot(projection='3d').plot([1], [2], [3])", "unknown", `[{"type":"unknown","label":"","class":"Axes3D"}]`, nil},
	"empty":   {"plt.text(.5, .5, 'x')", "empty", `null`, nil},
	"twins": {
		"ax = plt.gca(); ax.plot([1, 2]); ax.twinx().bar([0, 1], [5, 6])", "multiple", `null`,
		func(c job.Chart) bool {
			return len(c.Charts) == 2 && c.Charts[0].Type == "line" && c.Charts[0].Twin == nil && c.Charts[1].Type == "bar" && *c.Charts[1].Twin == 0 &&
				slices.Equal(c.Charts[1].Series[0].Y, []any{5.0, 6.0})
		},
	},
	"several": {
		"fig, ax = plt.subplots(1, 2, num=plt.gcf().number); ax[0].plot([1, 2]); ax[1].scatter([1], [2]); fig.suptitle('S')", "multiple", `null`,
		func(c job.Chart) bool {
			return c.Title == "S" && len(c.Charts) == 2 && c.Charts[0].Type == "line" && c.Charts[1].Type == "scatter" && c.Charts[1].Column == 1
		},
	},
	"much": {
		"plt.plot(np.arange(1_000_000)); plt.scatter(range(3), range(3))", "mixed", "",
		func(c job.Chart) bool {
			s := c.Series[0]
			return s.Every == 101 && s.Total == 1_000_000 && len(s.X) == (s.Total+s.Every-1)/s.Every && s.Y[1] == float64(s.Every)
		},
	},
	"much beside a pie": {
		"fig, ax = plt.subplots(1, 2, num=plt.gcf().number); ax[0].plot(range(20_000)); ax[1].pie([1, 2, 3, 4], labels=['a', 'b', 'c', 'd'])", "multiple", "null",
		func(c job.Chart) bool {
			pie := c.Charts[1].Series[0]
			return pie.Every == 3 && pie.Total == 4 && slices.Equal(pie.Values, []any{1.0, 4.0}) && slices.Equal(pie.Labels, []string{"a", "d"})
		},
	},
	"pixels": {
		"plt.imshow(np.arange(1_000_000).reshape(1000, 1000))", "heatmap", "",
		func(c job.Chart) bool {
			s := c.Series[0]
			return s.Every == 8 && s.Total == 1_000_000 && len(s.Z) == 125 && s.Z[1][1] == 8008.0 && len(s.XEdges) == 126 && s.XEdges[125] == 999.5
		},
	},
}

// TestCharts: the data that come with a picture are those that were plotted, for each kind of plot, in PNG and in SVG.
func TestCharts(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	code.WriteString("import datetime, matplotlib.pyplot as plt, numpy as np, pandas as pd\n")
	for _, name := range slices.Sorted(maps.Keys(drawings)) {
		fmt.Fprintf(&code, "plt.figure(figsize=(3, 2)); %s; plt.savefig(%q); plt.close('all')\n", drawings[name].code, name+".png")
	}
	code.WriteString("plt.plot([1, 2], label='<&>'); plt.savefig('vector.svg'); plt.title('asked'); plt.show()\n" +
		"plt.plot([3, 4]); plt.savefig('own.svg', metadata={'Description': 'mine'}); plt.savefig('in.jpg')\n" +
		"plt.rcParams['savefig.format'] = 'svg'; plt.savefig('default')\n")
	o, sink := run(t, program(code.String(), limits(job.Limits{MemoryMB: 512, Artifacts: 64, WallMS: 300_000}), environmentOf(t)))
	if o.Status != job.Succeeded || sink.stderr.Len() > 0 {
		t.Fatalf("got %+v, %s", o, sink.stderr.String())
	}
	charts := chartsOf(t, sink)
	for name, want := range drawings {
		got, ok := charts[name+".png"]
		if !ok {
			t.Errorf("%s: no data", name)
			continue
		}
		var series []job.ChartSeries
		if want.series != "" {
			if err := json.Unmarshal([]byte(want.series), &series); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(series, got.Series); diff != "" {
				t.Errorf("%s: what was plotted and what is told (-want +got):\n%s", name, diff)
			}
		}
		if got.Type != want.kind || want.more != nil && !want.more(got) {
			t.Errorf("%s: got %s, %.600s", name, got.Type, asJSON(t, got))
		}
	}
	vector, shown := charts["vector.svg"], charts["chart-1.png"]
	if shown.Title != "asked" || len(vector.Series) != 1 || vector.Series[0].Label != "<&>" || !cmp.Equal(vector.Series, shown.Series) {
		t.Errorf("got %s of the SVG, and %s of the PNG", asJSON(t, vector), asJSON(t, shown))
	}
	if !cmp.Equal(charts["default.svg"].Series, []job.ChartSeries{{Type: "line", X: []any{0.0, 1.0}, Y: []any{3.0, 4.0}}}) {
		t.Errorf("without a format in its name got %s", asJSON(t, charts["default.svg"]))
	}
	if _, ok := charts["own.svg"]; ok || len(charts) != len(drawings)+3 {
		t.Errorf("got data of %q", slices.Sorted(maps.Keys(charts)))
	}
}

// chartsOf returns the data that come with pictures, by the names of their files.
func chartsOf(tb testing.TB, sink *kept) map[string]job.Chart {
	tb.Helper()
	charts := map[string]job.Chart{}
	for _, a := range sink.artifacts {
		reader := chartdata.NewReader(strings.NewReader(a.bytes))
		if _, err := io.Copy(io.Discard, reader); err != nil {
			tb.Fatal(err)
		}
		chart, text, err := reader.Chart()
		if err != nil {
			tb.Errorf("%s: %v", a.name, err)
		}
		if text != nil {
			charts[a.name] = chart
		}
	}
	return charts
}

// environmentOf gives a program the environment of the runtime python.
func environmentOf(tb testing.TB) func(*sandbox.Program) {
	tb.Helper()
	r := pythonRuntime(tb)
	return func(p *sandbox.Program) { maps.Copy(p.Env, r.Env) }
}

func asJSON(tb testing.TB, v any) []byte {
	tb.Helper()
	text, err := job.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}
