package grading

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/glovebox-run/glovebox/job"
)

// exact wants the same bytes.
func exact(answer, output *side) (*job.Difference, error) {
	same := skipCommon(answer, output)
	if answer.peek() == end && output.peek() == end {
		return nil, nil
	}
	return differ(answer, output, same, isNewline), nil
}

func isNewline(c int) bool { return c == '\n' }

// differ is the difference at the place where both sides are; same is what they have in common just
// before it. What is shown ends before a stop.
func differ(answer, output *side, same []byte, stop func(int) bool) *job.Difference {
	d := &job.Difference{Line: output.line, Column: output.column}
	show := func(s *side) string {
		text := s.take(bytes.Clone(same), excerptBytes, stop)
		if c := s.peek(); len(text) == len(same) && c != end && stop(c) { // the place itself is a stop
			text = append(text, byte(c))
		}
		return excerpt(text, len(same))
	}
	d.Want, d.Got = show(answer), show(output)
	return d
}

// lines wants the same lines, except for blanks at their ends and blank lines at the end of all.
func lines(answer, output *side) (*job.Difference, error) {
	for {
		same := skipCommon(answer, output)
		line, column := output.line, output.column
		a, o := restOfLine(answer), restOfLine(output)
		atEnd := func(s *side) bool { return s.peek() == end }
		switch {
		case len(a.text) > 0 || len(o.text) > 0:
			// One of them may have blanks before its text that the other has not.
			a, o := append(a.blanks, a.text...), append(o.blanks, o.text...)
			show := func(rest []byte) string { return excerpt(append(bytes.Clone(same), rest...), len(same)) }
			return &job.Difference{Line: line, Column: column, Want: show(a), Got: show(o)}, nil
		case atEnd(answer) && atEnd(output):
			return nil, nil
		case atEnd(answer) || atEnd(output): // the other has a newline
			answer.skipBlanks(isSpace)
			output.skipBlanks(isSpace)
			if atEnd(answer) && atEnd(output) {
				return nil, nil
			}
			return differ(answer, output, nil, isNewline), nil
		}
	}
}

// rest is what a line has from a place on: blanks, then text, of both the first few bytes.
type rest struct{ blanks, text []byte }

// restOfLine looks whether there is text before the end of the line. It stops at the newline, or at
// the first few bytes of the text.
func restOfLine(s *side) rest {
	var r rest
	for c := s.peek(); c != end && isBlank(c); c = s.peek() {
		if len(r.blanks) < excerptBytes {
			r.blanks = append(r.blanks, byte(c))
		}
		s.next()
	}
	r.text = s.take(nil, excerptBytes, isNewline)
	return r
}

// unorderedLines wants the same lines, each as often.
func unorderedLines(answer, output *side) (*job.Difference, error) {
	a, o, diff, err := wholeBoth(answer, output, MaxDocument, MaxDocument)
	if diff != nil || err != nil {
		return diff, err
	}
	want, got := newBag(a), newBag(o)
	if len(want.lines) > MaxLines {
		return nil, &AnswerError{fmt.Sprintf("has more than %d lines, the most for this checker", MaxLines)}
	}
	if len(got.lines) > MaxLines {
		return differAt(o, int(got.lines[MaxLines].at), fmt.Sprintf("no more than %d lines", MaxLines), ""), nil
	}
	missing, extra := want.compare(got)
	switch {
	case extra != nil:
		return differAt(o, int(extra.at), "", excerpt(extra.of(o), 0)), nil
	case missing != nil:
		return differAt(o, len(o), excerpt(missing.of(a), 0), ""), nil
	}
	return nil, nil
}

// line is a line of a text that is in memory.
type line struct{ at, n int32 }

func (l line) of(text []byte) []byte { return text[l.at : l.at+l.n] }

// bag is the lines of a text, of which order does not matter; at most one more than MaxLines.
type bag struct {
	text  []byte
	lines []line
}

func newBag(text []byte) bag {
	b := bag{text: text}
	for l, at := range linesOf(text) {
		b.lines = append(b.lines, line{int32(at), int32(len(l))}) //nolint:gosec // MaxDocument is less
		if len(b.lines) > MaxLines {
			break
		}
	}
	return b
}

// compare returns the first line of b's text that got lacks, and the first one of got's that b has less
// often. It sorts both.
func (b bag) compare(got bag) (missing, extra *line) {
	b.sort()
	got.sort()
	w, g := b.lines, got.lines
	for len(w) > 0 || len(g) > 0 {
		var order int
		switch {
		case len(w) == 0:
			order = 1
		case len(g) == 0:
			order = -1
		default:
			order = bytes.Compare(w[0].of(b.text), g[0].of(got.text))
		}
		switch {
		case order == 0:
			w, g = w[1:], g[1:]
		case order < 0:
			missing, w = first(missing, w[0]), w[1:]
		default:
			extra, g = first(extra, g[0]), g[1:]
		}
	}
	return missing, extra
}

// sort puts equal lines beside each other, in their order in the text.
func (b bag) sort() {
	slices.SortFunc(b.lines, func(x, y line) int {
		return cmp.Or(bytes.Compare(x.of(b.text), y.of(b.text)), cmp.Compare(x.at, y.at))
	})
}

// first returns the one that comes earlier in a text.
func first(known *line, l line) *line {
	if known != nil && known.at < l.at {
		return known
	}
	return &l
}

// linesOf yields the lines of text and their offsets, without blanks at their ends and blank lines at
// the end of all.
func linesOf(text []byte) func(yield func(line []byte, at int) bool) {
	return func(yield func([]byte, int) bool) {
		text := bytes.TrimRight(text, " \n\t\r\f\v")
		for at := 0; at < len(text); {
			line, _, _ := bytes.Cut(text[at:], []byte{'\n'})
			if !yield(bytes.TrimRight(line, " \t\r\f\v"), at) {
				return
			}
			at += len(line) + 1
		}
	}
}
