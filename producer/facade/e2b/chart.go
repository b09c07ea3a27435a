package e2b

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/glovebox-run/glovebox/job"
)

// chart is one as E2B's clients read it. They know seven types, and fail on any other.
type chart struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Elements []any  `json:"elements"`
	*planar
}

// planar is what a chart with axes has besides.
type planar struct {
	XLabel      string          `json:"x_label"`
	YLabel      string          `json:"y_label"`
	XUnit       *string         `json:"x_unit"`
	YUnit       *string         `json:"y_unit"`
	XScale      string          `json:"x_scale"`
	YScale      string          `json:"y_scale"`
	XTicks      job.ChartValues `json:"x_ticks"`
	YTicks      job.ChartValues `json:"y_ticks"`
	XTickLabels []string        `json:"x_tick_labels"`
	YTickLabels []string        `json:"y_tick_labels"`
}

type points struct {
	Label  string   `json:"label"`
	Points [][2]any `json:"points"`
}

type bar struct {
	Label string `json:"label"`
	Group string `json:"group"`
	Value any    `json:"value"`
}

type slice struct {
	Label  string  `json:"label"`
	Angle  any     `json:"angle"`
	Radius float64 `json:"radius"`
}

type box struct {
	Label         string          `json:"label"`
	Min           *float64        `json:"min"`
	FirstQuartile *float64        `json:"first_quartile"`
	Median        *float64        `json:"median"`
	ThirdQuartile *float64        `json:"third_quartile"`
	Max           *float64        `json:"max"`
	Outliers      job.ChartValues `json:"outliers"`
}

// chartGrowth is how many times its own length a chart's JSON takes while it is read and written anew: a value of two bytes is 24 in
// memory, and 32 as half of a point. An object is up to 1 KiB.
const chartGrowth = 32

const (
	// maxBars is how many bars a chart may have: each repeats the name of its series and that of its tick.
	maxBars = 5000
	// maxBarName is how much of these it has, bytes.
	maxBarName = 64
	// maxNames is how many ticks are looked through for a bar's.
	maxNames = 1000
)

// bars is how many a chart has, and those in it.
func bars(c job.Chart) (n int) {
	for _, one := range c.Charts {
		n += bars(one)
	}
	for _, s := range c.Series {
		if s.Type == "bar" || s.Type == "histogram" {
			n += max(len(s.X), len(s.Y))
		}
	}
	return n
}

// chartOf is a chart of ours in E2B's form.
func chartOf(content []byte, m *room) (json.RawMessage, error) {
	if len(content) > job.MaxChart {
		return nil, errNoRoom
	}
	objects := min(bytes.Count(content, []byte("{")), job.MaxChartObjects)
	if err := m.hold(int64(len(content))*chartGrowth + int64(objects)<<10); err != nil {
		return nil, err
	}
	c, err := job.ParseChart(content)
	if err != nil || bars(c) > maxBars {
		c = job.Chart{Type: "unknown"} // it is the program's word
	}
	text, err := job.Marshal(translated(c))
	if err != nil {
		return nil, fmt.Errorf("encode chart: %w", err)
	}
	return text, nil
}

// chartTypes are the types that E2B has, by ours of the series; those that come first win where a chart has several, of which it knows nothing.
var chartTypes = []struct {
	name string
	ours []string
	of   func(c job.Chart, s job.ChartSeries, n int) []any
}{
	{"pie", []string{"pie"}, slicesOf},
	{"box_and_whisker", []string{"box"}, boxesOf},
	{"bar", []string{"bar", "histogram"}, barsOf},
	{"line", []string{"line", "step", "errorbar", "stem"}, lineOf},
	{"scatter", []string{"scatter"}, scatterOf},
}

func translated(c job.Chart) chart {
	t := chart{Type: "unknown", Title: c.Title, Elements: []any{}}
	if c.Type == "multiple" {
		t.Type = "superchart"
		for _, one := range c.Charts {
			t.Elements = append(t.Elements, translated(one))
		}
		return t
	}
	if c.X != nil && c.Y != nil {
		t.planar = &planar{
			c.X.Label, c.Y.Label, unit(c.X), unit(c.Y), c.X.Scale, c.Y.Scale,
			nonNil(c.X.Ticks), nonNil(c.Y.Ticks), nonNil(c.X.TickLabels), nonNil(c.Y.TickLabels),
		}
	}
	for _, kind := range chartTypes {
		found := 0
		for _, s := range c.Series {
			if slices.Contains(kind.ours, s.Type) {
				t.Elements = append(t.Elements, kind.of(c, s, found)...)
				found++
			}
		}
		if found > 0 {
			t.Type = kind.name
			break
		}
	}
	return t
}

func unit(a *job.ChartAxis) *string {
	if a.Unit == "" {
		return nil
	}
	return &a.Unit
}

func nonNil[S ~[]T, T any](s S) S {
	if s == nil {
		return S{}
	}
	return s
}

func slicesOf(_ job.Chart, s job.ChartSeries, _ int) []any {
	list := make([]any, len(s.Angles))
	for i, angle := range s.Angles {
		label := ""
		if i < len(s.Labels) {
			label = s.Labels[i]
		}
		list[i] = slice{label, angle, s.Radius}
	}
	return list
}

func boxesOf(_ job.Chart, s job.ChartSeries, _ int) []any {
	list := make([]any, len(s.Boxes))
	for i, b := range s.Boxes {
		list[i] = box{b.Label, b.Min, b.FirstQuartile, b.Median, b.ThirdQuartile, b.Max, nonNil(b.Outliers)}
	}
	return list
}

// barsOf names a bar by its category, by the tick that the program has put below it, or by its place.
func barsOf(c job.Chart, s job.ChartSeries, _ int) []any {
	axis, places, values := c.X, s.X, s.Y
	if s.Orientation == "horizontal" {
		axis, places, values = c.Y, s.Y, s.X
	}
	list := make([]any, len(values))
	for i, value := range values {
		var place any
		switch {
		case i+1 < len(s.Edges):
			place = middle(s.Edges[i], s.Edges[i+1])
		case i < len(places):
			place = places[i]
		}
		list[i] = bar{job.Clip(named(axis, place), maxBarName), job.Clip(s.Label, maxBarName), value}
	}
	return list
}

// middle is between two edges, where these are numbers; else the first.
func middle(a, b any) any {
	from, ok := a.(float64)
	to, both := b.(float64)
	if !ok || !both {
		return a
	}
	return (from + to) / 2
}

func named(axis *job.ChartAxis, place any) string {
	at, ok := place.(float64)
	if !ok {
		name, _ := place.(string)
		return name
	}
	if axis != nil && axis.Named {
		name, near := "", math.Inf(1)
		for i, tick := range axis.Ticks[:min(len(axis.Ticks), maxNames)] {
			if t, ok := tick.(float64); ok && i < len(axis.TickLabels) && math.Abs(t-at) < near {
				name, near = axis.TickLabels[i], math.Abs(t-at)
			}
		}
		if name != "" {
			return name
		}
	}
	return strconv.FormatFloat(at, 'g', -1, 64)
}

func lineOf(_ job.Chart, s job.ChartSeries, n int) []any {
	return []any{pointsOf(s, fmt.Sprintf("Line %d", n+1))}
}

func scatterOf(_ job.Chart, s job.ChartSeries, n int) []any {
	return []any{pointsOf(s, fmt.Sprintf("Dataset %d", n+1))}
}

func pointsOf(s job.ChartSeries, otherwise string) points {
	p := points{Label: s.Label, Points: make([][2]any, min(len(s.X), len(s.Y)))}
	if p.Label == "" {
		p.Label = otherwise
	}
	for i := range p.Points {
		p.Points[i] = [2]any{s.X[i], s.Y[i]}
	}
	return p
}
