package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

const (
	// MaxChart bounds the JSON of a [Chart], in bytes, and MaxCharts that of all charts of a result.
	MaxChart  = 256 << 10
	MaxCharts = 256 << 10
	// MaxChartObjects is how many objects a [Chart] may have as JSON, itself, its axes, series and boxes: each takes far more memory than its text.
	MaxChartObjects = 5000
)

// Chart is what a picture of matplotlib shows, so that it can be drawn again. It is the program's word, as the picture is.
type Chart struct {
	// Type is that of the series where they have one, "mixed" where they have several, "multiple" for a figure with several axes, "empty", or "unknown".
	Type       string `json:"type" doc:"The type of the series; mixed: of several types; multiple: several axes, in charts; empty; unknown: the series name the class of what was drawn. More may come." example:"line"`
	Title      string `json:"title"`
	Projection string `json:"projection,omitempty" doc:"Of axes that are not rectangular, such as polar."`
	// X and Y are nil for a pie, for several axes, and where nothing is drawn.
	X      *ChartAxis    `json:"x,omitempty"`
	Y      *ChartAxis    `json:"y,omitempty"`
	Series []ChartSeries `json:"series,omitempty"`
	Charts []Chart       `json:"charts,omitempty" doc:"Of a figure with several axes: those. None has charts itself."`
	Row    int           `json:"row,omitempty" doc:"The row of these axes in the figure's grid, from 0, and their column."`
	Column int           `json:"column,omitempty"`
	Twin   *int          `json:"twin,omitempty" doc:"The index in charts of the axes on which these lie, sharing an axis."`
	Note   string        `json:"note,omitempty" doc:"What is left out, and why."`
}

// ChartAxis is an axis of a chart.
type ChartAxis struct {
	Label      string      `json:"label"`
	Unit       string      `json:"unit,omitempty" doc:"What the label has at its end in brackets."`
	Scale      string      `json:"scale" doc:"linear, log, symlog, logit, datetime, categorical, or another of matplotlib's names."`
	Range      ChartValues `json:"range,omitempty" doc:"From left to right, or from bottom to top: the first is the greater one of an axis that is turned round."`
	Ticks      ChartValues `json:"ticks,omitempty"`
	TickLabels []string    `json:"tick_labels,omitempty"`
	Named      bool        `json:"named,omitempty" doc:"The program has set the ticks: their labels name what stands there."`
}

// ChartSeries is something that a chart shows, in columns of the same length: the n-th of each belong together. Which there are depends on the type.
type ChartSeries struct {
	Type        string      `json:"type" doc:"line, step, scatter, bar, histogram, stairs, pie, box, area, errorbar, stem, polygon, heatmap, hline, vline, hspan, vspan; unknown: class says what was drawn. More may come."`
	Label       string      `json:"label"`
	Class       string      `json:"class,omitempty" doc:"Of an unknown series: matplotlib's class."`
	Orientation string      `json:"orientation,omitempty" doc:"horizontal, where bars, boxes or areas lie. Columns are named for the axis in any case."`
	Where       string      `json:"where,omitempty" doc:"Of steps: pre, post or mid."`
	X           ChartValues `json:"x,omitempty"`
	Y           ChartValues `json:"y,omitempty"`
	Base        ChartValues `json:"base,omitempty" doc:"Where bars and areas begin; 0 without it. A bar ends at base + value, an area at its value."`
	Width       ChartValues `json:"width,omitempty" doc:"Of bars, in units of the axis on which they stand; days on one of dates."`
	Edges       ChartValues `json:"edges,omitempty" doc:"Of a histogram: where its bins begin, and where the last ends."`
	XLow        ChartValues `json:"x_low,omitempty" doc:"Where the bars of errors begin and end."`
	XHigh       ChartValues `json:"x_high,omitempty"`
	YLow        ChartValues `json:"y_low,omitempty"`
	YHigh       ChartValues `json:"y_high,omitempty"`
	Values      ChartValues `json:"values,omitempty" doc:"Of a pie: what its slices stand for. Of points: what their colours do."`
	Sizes       ChartValues `json:"sizes,omitempty" doc:"Of points: their areas, in square points."`
	Labels      []string    `json:"labels,omitempty" doc:"Of a pie's slices."`
	Angles      ChartValues `json:"angles,omitempty" doc:"Of a pie's slices, in degrees."`
	Radius      float64     `json:"radius,omitempty"`
	Boxes       []ChartBox  `json:"boxes,omitempty"`
	// Z has a row of numbers for each two edges of y, and in it one for each two of x.
	Z      []ChartValues `json:"z,omitempty" doc:"Of a heatmap: its rows, each between two of y_edges, of numbers between two of x_edges."`
	XEdges ChartValues   `json:"x_edges,omitempty"`
	YEdges ChartValues   `json:"y_edges,omitempty"`
	// Every is 0 where all values are here, else n where only each n-th of the Total is: of a heatmap each n-th row and column.
	Every int `json:"every,omitempty" doc:"n where only each n-th value is here, of a heatmap each n-th row and column; absent where all are."`
	Total int `json:"total,omitempty" doc:"How many values the longest column of such a series had."`
}

// ChartBox is a box of a box plot.
type ChartBox struct {
	Label         string      `json:"label"`
	Position      *float64    `json:"position"`
	Min           *float64    `json:"min" doc:"Where the lower whisker ends."`
	FirstQuartile *float64    `json:"first_quartile"`
	Median        *float64    `json:"median"`
	ThirdQuartile *float64    `json:"third_quartile"`
	Max           *float64    `json:"max"`
	Mean          *float64    `json:"mean,omitempty" doc:"Where it is drawn."`
	Outliers      ChartValues `json:"outliers,omitempty"`
}

// UnmarshalJSON refuses null, which would take an object's memory for four bytes and be no object that [MaxChartObjects] counts.
func (c *Chart) UnmarshalJSON(b []byte) error {
	type chart Chart
	return unmarshalObject(b, "charts", (*chart)(c))
}

// UnmarshalJSON is [Chart.UnmarshalJSON] of a series.
func (s *ChartSeries) UnmarshalJSON(b []byte) error {
	type series ChartSeries
	return unmarshalObject(b, "series", (*series)(s))
}

// UnmarshalJSON is [Chart.UnmarshalJSON] of a box.
func (x *ChartBox) UnmarshalJSON(b []byte) error {
	type box ChartBox
	return unmarshalObject(b, "boxes", (*box)(x))
}

func unmarshalObject(b []byte, list string, into any) error {
	if string(b) == "null" {
		return fmt.Errorf("null is none of a chart's %s: want an object", list)
	}
	return json.Unmarshal(b, into)
}

// ChartValues is a column: each value is a float64, a string (a category, or a time as ISO 8601 has it), or nil for a gap.
type ChartValues []any

// UnmarshalJSON reads a list of numbers, strings and nulls.
func (v *ChartValues) UnmarshalJSON(b []byte) error {
	var list []any
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	for i, value := range list {
		switch value.(type) {
		case nil, float64, string:
		default:
			return fmt.Errorf("value %d of a chart's column is neither a number, a string nor null", i)
		}
	}
	*v = list
	return nil
}

// ParseChart reads a [Chart] that a program wrote. Fields that it doesn't know are left out, as a newer runtime may write more.
func ParseChart(b []byte) (Chart, error) {
	var c Chart
	if len(b) > MaxChart {
		return c, fmt.Errorf("a chart of %d bytes: at most %d are read", len(b), MaxChart)
	}
	if n := bytes.Count(b, []byte("{")); n > MaxChartObjects { // some may stand in texts
		return c, fmt.Errorf("a chart of %d objects: at most %d are read", n, MaxChartObjects)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return Chart{}, fmt.Errorf("read chart: %w", err)
	}
	if err := c.check(); err != nil {
		return Chart{}, fmt.Errorf("read chart: %w", err)
	}
	return c, nil
}

// check reports what a chart that is drawn by its columns would stumble over.
func (c *Chart) check() error {
	if c.Type == "" {
		return errors.New("type is missing")
	}
	for i, one := range c.Charts {
		if len(one.Charts) > 0 {
			return fmt.Errorf("charts[%d] has charts: only one level is allowed", i)
		}
		if one.Twin != nil && (*one.Twin < 0 || *one.Twin >= i) {
			return fmt.Errorf("charts[%d].twin is %d: it has to be that of a chart before it", i, *one.Twin)
		}
		if err := one.check(); err != nil {
			return fmt.Errorf("charts[%d]: %w", i, err)
		}
	}
	for i := range c.Series {
		if err := c.Series[i].check(); err != nil {
			return fmt.Errorf("series[%d]: %w", i, err)
		}
	}
	return nil
}

func (s *ChartSeries) check() error {
	if s.Type == "" {
		return errors.New("type is missing")
	}
	length, first := 0, ""
	for _, column := range []struct {
		name   string
		length int
	}{
		{"x", len(s.X)},
		{"y", len(s.Y)},
		{"base", len(s.Base)},
		{"width", len(s.Width)},
		{"x_low", len(s.XLow)},
		{"x_high", len(s.XHigh)},
		{"y_low", len(s.YLow)},
		{"y_high", len(s.YHigh)},
		{"values", len(s.Values)},
		{"sizes", len(s.Sizes)},
		{"labels", len(s.Labels)},
		{"angles", len(s.Angles)},
		{"edges", max(len(s.Edges)-1, 0)},
	} {
		switch {
		case column.length == 0:
		case first == "":
			length, first = column.length, column.name
		case column.length != length:
			return fmt.Errorf("%s is of %d values and %s of %d", first, length, column.name, column.length)
		}
	}
	if n := len(s.YEdges); n > 0 && n != len(s.Z)+1 {
		return fmt.Errorf("z is of %d rows and y_edges of %d values: want one more than rows", len(s.Z), n)
	}
	for i, row := range s.Z {
		if n := len(s.XEdges); n > 0 && n != len(row)+1 {
			return fmt.Errorf("z[%d] is of %d values and x_edges of %d: want one more", i, len(row), n)
		}
		if len(row) != len(s.Z[0]) {
			return fmt.Errorf("z[0] is of %d values and z[%d] of %d", len(s.Z[0]), i, len(row))
		}
	}
	return nil
}

// Brief is the chart as JSON without its data, which says why.
func (c Chart) Brief(why string) json.RawMessage {
	text, err := Marshal(Chart{Type: Clip(c.Type, maxBrief), Title: Clip(c.Title, maxBrief), Note: Clip(why, 2*maxBrief)})
	if err != nil {
		panic("job: a chart of strings is not encoded: " + err.Error()) // strings always are
	}
	return text
}

const maxBrief = 200 // bytes
