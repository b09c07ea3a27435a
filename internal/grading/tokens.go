package grading

import (
	"bytes"

	"github.com/glovebox-run/glovebox/job"
)

// tokens is the default checker: the Kattis problem package format's default output validator.
type tokens struct {
	caseSensitive, spaceSensitive bool
	tolerance                     *tolerance // nil: numbers are text
}

func newTokens(o job.CheckerOptions) (*tokens, error) {
	t := &tokens{caseSensitive: o.CaseSensitive, spaceSensitive: o.SpaceChangeSensitive}
	if o.Absolute == "" && o.Relative == "" {
		return t, nil
	}
	var err error
	t.tolerance, err = newTolerance(o.Absolute, o.Relative)
	return t, err
}

func (t *tokens) compare(answer, output *side) (*job.Difference, error) {
	c := comparison{tokens: t}
	for {
		skipWords(answer, output)
		if diff := t.spaces(answer, output); diff != nil {
			return diff, nil
		}
		if answer.peek() == end && output.peek() == end {
			return nil, nil
		}
		if diff := c.token(answer, output); diff != nil {
			return diff, nil
		}
	}
}

// spaces goes to the next token on both sides.
func (t *tokens) spaces(answer, output *side) *job.Difference {
	if t.spaceSensitive {
		for c := answer.peek(); c == output.peek() && c != end && isSpace(c); c = answer.peek() {
			answer.next()
			output.next()
		}
		if a, o := answer.peek(), output.peek(); a != end && isSpace(a) || o != end && isSpace(o) {
			return differ(answer, output, nil, isSpace)
		}
		return nil
	}
	answer.skipBlanks(isSpace)
	output.skipBlanks(isSpace)
	return nil
}

// comparison is a pass over two sides. It holds the begin of a token, as either side has it: the part
// that is equal.
type comparison struct {
	*tokens
	want, got []byte
	cut       bool // there was more before it
}

// token compares the next token of both sides, which are at its begin, or one of them at the end. A
// token may be of any length: of one that is longer than MaxNumber, only what a difference shows is held.
func (c *comparison) token(answer, output *side) *job.Difference {
	line, column := output.line, output.column
	c.skipSame(answer, output)
	if !inToken(answer) && !inToken(output) {
		return nil
	}
	d := &job.Difference{Line: output.line, Column: output.column}
	more, at := excerptBytes, len(c.want)
	if c.tolerance != nil && !c.cut {
		more = MaxNumber + 1
	}
	c.want, c.got = answer.take(c.want, more, isSpace), output.take(c.got, more, isSpace)
	if c.tolerance != nil && !c.cut && isNumber(c.want) {
		if isNumber(c.got) && c.tolerance.near(string(c.got), string(c.want)) {
			return nil
		}
		d.Line, d.Column, at = line, column, 0 // numbers differ as a whole
	}
	d.Want, d.Got = excerpt(c.want, at), excerpt(c.got, at)
	return d
}

// skipSame skips what is equal of a token.
func (c *comparison) skipSame(answer, output *side) {
	c.want, c.got, c.cut = c.want[:0], c.got[:0], false
	for {
		x, y := answer.window(), output.window()
		n := 0
		for n < min(len(x), len(y)) && !isSpace(int(x[n])) && c.equal(x[n], y[n]) {
			n++
		}
		if n == 0 {
			return
		}
		from := max(0, n-MaxNumber)
		c.want, c.got = append(c.want, x[from:n]...), append(c.got, y[from:n]...)
		if over := len(c.want) - MaxNumber; over > 0 || from > 0 {
			over = max(0, over)
			c.want, c.got, c.cut = append(c.want[:0], c.want[over:]...), append(c.got[:0], c.got[over:]...), true
		}
		answer.skip(n)
		output.skip(n)
	}
}

func inToken(s *side) bool {
	c := s.peek()
	return c != end && !isSpace(c)
}

// equal compares two bytes of a token.
func (t *tokens) equal(a, b byte) bool {
	return a == b || !t.caseSensitive && lower(a) == lower(b)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// isNumber holds for [+-]?(\d*\.\d+|\d+\.|\d+)([eE][+-]?\d+)?, of up to MaxNumber bytes. Unlike
// strconv it takes no inf, nan, hexadecimal or underscore.
func isNumber(token []byte) bool {
	if len(token) > MaxNumber {
		return false
	}
	digits := func(b []byte) []byte { return bytes.TrimLeft(b, "0123456789") }
	rest := token
	if len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') {
		rest = rest[1:]
	}
	after := digits(rest)
	n := len(rest) - len(after)
	if len(after) > 0 && after[0] == '.' {
		rest, after = after[1:], digits(after[1:])
		n += len(rest) - len(after)
	}
	if n == 0 {
		return false
	}
	if len(after) == 0 || after[0] != 'e' && after[0] != 'E' {
		return len(after) == 0
	}
	exponent := after[1:]
	if len(exponent) > 0 && (exponent[0] == '+' || exponent[0] == '-') {
		exponent = exponent[1:]
	}
	return len(exponent) > 0 && len(digits(exponent)) == 0
}
