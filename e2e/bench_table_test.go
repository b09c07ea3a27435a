package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// table is what the bench found, as Markdown.
type table struct {
	sections []*section
	checks   section
}

type section struct {
	title  string
	header []string
	rows   [][]string
	note   []string
}

// verdict says whether a figure is what it is to be.
type verdict string

const (
	yes         verdict = "yes"
	no          verdict = "**no**"
	notMeasured verdict = "not measured here"
)

func holds(ok bool) verdict {
	if ok {
		return yes
	}
	return no
}

func (t *table) section(title string, header ...string) *section {
	s := &section{title: title, header: header}
	t.sections = append(t.sections, s)
	return s
}

// check adds a figure that is to hold.
func (t *table) check(what, wanted, measured string, v verdict) {
	t.checks.row(what, wanted, measured, string(v))
}

func (s *section) row(cells ...string) { s.rows = append(s.rows, cells) }

func (s *section) notef(format string, args ...any) {
	s.note = append(s.note, fmt.Sprintf(format, args...))
}

// markdown is the whole of it. What was measured on is in machine.
func (t *table) markdown(machine []string) string {
	var out strings.Builder
	out.WriteString("# Glovebox beside what else could run the same programs\n\nWritten by `make bench`, in one run. " + machine[0] + "\n\n")
	for _, line := range machine[1:] {
		out.WriteString("- " + line + "\n")
	}
	t.checks.title, t.checks.header = "What it is to show", []string{"figure", "wanted", "measured", "holds"}
	for _, s := range append([]*section{&t.checks}, t.sections...) {
		s.markdown(&out)
	}
	return out.String()
}

func (s *section) markdown(out *strings.Builder) {
	fmt.Fprintf(out, "\n## %s\n\n", s.title)
	for _, line := range s.note {
		out.WriteString(line + "\n\n")
	}
	line := func(cells []string) { out.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(s.header)
	out.WriteString(strings.Repeat("|---", len(s.header)) + "|\n")
	for _, row := range s.rows {
		line(row)
	}
}

func ratio(d, reference time.Duration) float64 { return float64(d) / float64(reference) }

func number1(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
func number2(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }
func percent(f float64) string { return strconv.FormatFloat(100*f, 'f', 0, 64) + " %" }

// milliseconds has three digits that mean something.
func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 100 {
		return number1(ms)
	}
	return strconv.FormatFloat(ms, 'f', 0, 64)
}

func megabytes(n int64) string { return number1(float64(n) / (1 << 20)) }
