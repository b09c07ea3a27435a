package grading

import (
	"bytes"
	"errors"
	"regexp"

	"github.com/glovebox-run/glovebox/internal/patterns"
	"github.com/glovebox-run/glovebox/job"
)

// What a match costs is bounded by the pattern's states × the output's bytes, as regexp can't be
// stopped: the worst patterns that were tried took some 20 ns of CPU for each, so maxSteps is a second or
// two. A pattern of 64 states is matched against MaxMatch bytes, one of 1,000 against 64 KiB.
const (
	maxPattern = 64 << 10 // bytes
	maxStates  = 64 << 10
	maxSteps   = 1 << 26
)

// pattern is an answer's regular expression, and how much it is matched against at most, bytes.
type pattern struct {
	*regexp.Regexp
	most int
}

func newPattern(answer []byte) (pattern, error) {
	text := string(bytes.TrimRight(answer, " \n\t\r\f\v"))
	re, n, err := patterns.CompileWhole(text, maxStates)
	var size *patterns.SizeError
	if errors.As(err, &size) {
		return pattern{}, &AnswerError{err.Error()}
	}
	if err != nil {
		return pattern{}, &AnswerError{"is no regular expression: " + err.Error()}
	}
	return pattern{re, min(MaxMatch, maxSteps/n)}, nil
}

// regex wants an output that the whole of the answer's pattern matches.
func regex(answer, output *side) (*job.Difference, error) {
	a, _, _, err := wholeBoth(answer, newSide(bytes.NewReader(nil)), maxPattern, 0)
	if err != nil {
		return nil, err
	}
	p, err := newPattern(a)
	if err != nil {
		return nil, err
	}
	_, o, diff, err := wholeBoth(newSide(bytes.NewReader(nil)), output, 0, p.most)
	if diff != nil || err != nil {
		return diff, err
	}
	if p.Match(bytes.TrimRight(o, " \n\t\r\f\v")) {
		return nil, nil
	}
	return differAt(o, 0, excerpt(a, 0), excerpt(o, 0)), nil
}
