package simulation

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

// chart is a plot of lines, as SVG.
type chart struct {
	title, x, y string
	top         float64 // of the y axis; 0 for what the lines need
	log         bool    // the y axis has powers of ten
	dots        bool    // for lines whose points have nothing between them
}

// line is one of a chart.
type line struct {
	name   string
	points [][2]float64
}

func (l *line) add(x, y float64) { l.points = append(l.points, [2]float64{x, y}) }

const (
	chartWide, chartHigh                        = 760, 300
	chartLeft, chartRight, chartTop, chartBelow = 64, 12, 52, 40
)

var chartColours = []string{"#3b7dd8", "#e8a33d", "#5aa469", "#7a5ea8"}

// svg draws the lines.
func (c chart) svg(lines ...line) string {
	right, low, high := 0.0, math.Inf(1), c.top
	for _, l := range lines {
		for _, p := range l.points {
			right, low, high = max(right, p[0]), min(low, p[1]), max(high, p[1])
		}
	}
	var marks []float64
	scale := func(v float64) float64 { return v }
	if c.log {
		scale = math.Log10
		low, high = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)))
		for v := low; v <= high*1.01; v *= 10 {
			marks = append(marks, v)
		}
	} else {
		low = 0
		step := niceStep(high / 5)
		for v := 0.0; v < high+step*0.99; v += step {
			marks = append(marks, v)
		}
		high = marks[len(marks)-1]
	}
	px := func(x float64) float64 { return chartLeft + x/max(right, 1e-9)*(chartWide-chartLeft-chartRight) }
	py := func(y float64) float64 {
		return chartHigh - chartBelow - (scale(y)-scale(low))/(scale(high)-scale(low))*(chartHigh-chartTop-chartBelow)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' font-size='12'>\n<rect width='100%%' height='100%%' fill='white'/>\n", chartWide, chartHigh)
	label := func(x, y float64, anchor, text string) {
		fmt.Fprintf(&b, "<text x='%.1f' y='%.1f' text-anchor='%s'>%s</text>\n", x, y, anchor, escaped(text))
	}
	label(chartLeft, 16, "start", c.title)
	for _, v := range marks {
		fmt.Fprintf(&b, "<path d='M%d %.1fH%d' stroke='#ddd'/>\n", chartLeft, py(v), chartWide-chartRight)
		label(chartLeft-6, py(v)+4, "end", fmt.Sprintf("%.10g", v))
	}
	for v, step := 0.0, niceStep(right/8); v <= right; v += step {
		label(px(v), chartHigh-chartBelow+16, "middle", fmt.Sprintf("%.10g", v))
	}
	label((chartLeft+chartWide)/2, chartHigh-6, "middle", c.x)
	label(chartWide-chartRight, 16, "end", c.y)
	for i, l := range lines {
		colour, at := chartColours[i%len(chartColours)], float64(chartLeft+i*220)
		fmt.Fprintf(&b, "<rect x='%.0f' y='26' width='10' height='10' fill='%s'/>\n", at, colour)
		label(at+14, 35, "start", l.name)
		if c.dots {
			for _, p := range l.points {
				fmt.Fprintf(&b, "<circle cx='%.1f' cy='%.1f' r='2.5' fill='%s'/>\n", px(p[0]), py(p[1]), colour)
			}
			continue
		}
		var points []string
		for _, p := range l.points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", px(p[0]), py(p[1])))
		}
		fmt.Fprintf(&b, "<polyline fill='none' stroke='%s' stroke-width='1.5' points='%s'/>\n", colour, strings.Join(points, " "))
	}
	return b.String() + "</svg>\n"
}

// niceStep is 1, 2 or 5 times a power of ten, of at least that.
func niceStep(least float64) float64 {
	if least <= 0 {
		return 1
	}
	ten := math.Pow(10, math.Floor(math.Log10(least)))
	for _, n := range []float64{1, 2, 5} {
		if n*ten >= least {
			return n * ten
		}
	}
	return 10 * ten
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}

// TestChart: what is drawn is XML, with all lines within the frame.
func TestChart(t *testing.T) {
	t.Parallel()
	l := line{name: "a & b"}
	for x := range 10 {
		l.add(float64(x), float64(x*x)+0.01)
	}
	for _, c := range []chart{{title: "<t>"}, {log: true, dots: true}, {top: 200}} {
		text := c.svg(l, line{name: "nothing"})
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
				for _, a := range e.Attr {
					var at float64
					if _, err := fmt.Sscan(a.Value, &at); a.Name.Local == "cy" && (err != nil || at < 0 || at > chartHigh) {
						t.Errorf("a point is at %s, want it within %d", a.Value, chartHigh)
					}
				}
			}
		}
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("there are places that are no numbers in %s", text)
		}
	}
}

func TestNiceStep(t *testing.T) {
	t.Parallel()
	for least, want := range map[float64]float64{0: 1, 1: 1, 1.1: 2, 3: 5, 7: 10, 60: 100, 0.3: 0.5} {
		if got := niceStep(least); math.Abs(got-want) > 1e-9 {
			t.Errorf("niceStep(%v): got %v, want %v", least, got, want)
		}
	}
}
