package grading

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/glovebox-run/glovebox/job"
)

// Bounds of what a [Checker] holds in memory. The kinds default, exact and lines hold 128 KiB, however
// long output and answer are.
const (
	// MaxDocument bounds both sides of unordered_lines, bytes.
	MaxDocument = 16 << 20
	// MaxLines bounds the lines of both sides of unordered_lines.
	MaxLines = 1 << 20
	// MaxJSON bounds both sides of json, bytes: a value takes up to 100 times its text.
	MaxJSON = 1 << 20
	// MaxMatch bounds what a regex is matched against, bytes; a large pattern has less ([newPattern]).
	MaxMatch = 1 << 20
	// MaxNumber is the longest number that a tolerance is for, bytes. A longer token is text.
	MaxNumber = 4 << 10
)

// Checker compares outputs with answers. Safe for concurrent use.
//
// What each kind accepts:
//
//   - default: the same tokens, split at runs of space, \f, \n, \r, \t and \v. ASCII letters' case
//     doesn't count unless case_sensitive; space_change_sensitive wants the same white space, byte by
//     byte, at both ends too. With a tolerance, a token of the answer that is a number wants one that is
//     near enough: |s−a| ≤ absolute, or ≤ relative·|a|, decided exactly.
//   - exact: the same bytes.
//   - lines: the same lines; blanks (a carriage return is one) at the end of a line and blank lines at
//     the end don't count.
//   - unordered_lines: the lines of lines, in any order, each as often.
//   - regex: the answer is a pattern (RE2), the output matches the whole of it. White space at the end
//     of either doesn't count.
//   - json: the same value: an object's keys in any order, numbers by value (1, 1.0 and 10e-1 are one).
type Checker struct {
	compare func(answer, output *side) (*job.Difference, error)
}

// NewChecker makes a checker. The error is a [job.Invalid].
func NewChecker(c job.Checker) (*Checker, error) {
	options, fault := c.Options()
	if fault != nil {
		return nil, job.Invalid{*fault}
	}
	switch c.Kind {
	case job.CheckExact:
		return &Checker{exact}, nil
	case job.CheckLines:
		return &Checker{lines}, nil
	case job.CheckUnorderedLines:
		return &Checker{unorderedLines}, nil
	case job.CheckRegex:
		return &Checker{regex}, nil
	case job.CheckJSON:
		return &Checker{sameJSON}, nil
	}
	t, err := newTokens(options)
	if err != nil {
		return nil, err
	}
	return &Checker{t.compare}, nil
}

// Check reports whether the output is right, and where it is first wrong. It may leave a part of either
// unread. An error is never the output's fault: a reader failed, or the answer can't be used
// ([*AnswerError]).
func (c *Checker) Check(answer, output io.Reader) (ok bool, diff *job.Difference, err error) {
	a, o := newSide(answer), newSide(output)
	diff, err = c.compare(a, o)
	switch {
	case a.failed() != nil:
		return false, nil, fmt.Errorf("read the answer: %w", a.failed())
	case o.failed() != nil:
		return false, nil, fmt.Errorf("read the output: %w", o.failed())
	case err != nil:
		return false, nil, err
	}
	return diff == nil, diff, nil
}

// AnswerError says that an answer is none that the checker can compare with.
type AnswerError struct {
	Problem string
}

func (e *AnswerError) Error() string { return "the answer " + e.Problem }

// errTooLong is what whole answers for what is longer than it may be.
var errTooLong = errors.New("is too long")

// whole reads a side into memory.
func (s *side) whole(most int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(s.r, int64(most)+1))
	if err != nil {
		s.err = err
		return nil, err
	}
	if len(b) > most {
		return b[:most], errTooLong
	}
	return b, nil
}

// wholeBoth reads both sides. A difference says that the output is too long to be right.
func wholeBoth(answer, output *side, mostAnswer, mostOutput int) (a, o []byte, diff *job.Difference, err error) {
	if a, err = answer.whole(mostAnswer); errors.Is(err, errTooLong) {
		return nil, nil, nil, &AnswerError{fmt.Sprintf("is longer than %d bytes, the most for this checker", mostAnswer)}
	} else if err != nil {
		return nil, nil, nil, err
	}
	if o, err = output.whole(mostOutput); errors.Is(err, errTooLong) {
		diff = differAt(o, len(o), fmt.Sprintf("no more than %d bytes", mostOutput), "")
		return a, o, diff, nil
	}
	return a, o, nil, err
}

// differAt is a difference at an offset of an output that is in memory.
func differAt(output []byte, at int, want, got string) *job.Difference {
	before := output[:at]
	line := bytes.LastIndexByte(before, '\n') + 1
	return &job.Difference{
		Line: int64(bytes.Count(before, []byte{'\n'})) + 1, Column: int64(len(before)-line) + 1,
		Want: want, Got: got,
	}
}
