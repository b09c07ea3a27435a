package grading

import (
	"fmt"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// What a checker of kind testlib exits with: testlib.h's own codes, of its version 0.9.41, where neither EJUDGE
// nor CONTESTER is defined.
const (
	testlibOK         = 0
	testlibWrong      = 1
	testlibFormat     = 2
	testlibFail       = 3
	testlibDirt       = 4
	testlibPoints     = 7
	testlibUnexpected = 8
	testlibPartial    = 50 // and a share of mostPartial, where TESTSYS is defined
)

// mostPartial is what Codeforces' page on checkers gives _pc for all points.
const mostPartial = 200

// RuleTestlib reads what a checker of kind testlib leaves: its exit code, which begins a report of [Rule]'s form, and
// its message, the beginning of what it said on stderr. Both come from a sandbox and may be anything.
//
// Bash gives a program that a signal ends 128 and the signal's number, which are shares, too. So one counts only if
// the message says the same, as testlib.h's does.
func RuleTestlib(report []byte, message string) Ruling {
	r := Ruling{Judge: message}
	fail := func(format string, args ...any) Ruling {
		r.Verdict, r.Fault = job.JudgeError, fmt.Sprintf(format, args...)
		return r
	}
	code, _, err := readExit(report)
	if err != nil {
		return fail("%s", err)
	}
	const partially = "partially correct ("
	if strings.HasPrefix(message, partially) && code < testlibPartial {
		return fail("the checker's message is %s…, and it exited with %d, which is no code for that: define TESTSYS before testlib.h is included, or use quitp", partially, code)
	}
	switch part := code - testlibPartial; {
	case code == testlibOK:
		r.Verdict = job.Accepted
	case code == testlibWrong, code == testlibFormat, code == testlibDirt, code == testlibUnexpected:
		r.Verdict = job.WrongAnswer
	case code == testlibFail:
		return fail("the checker says that it failed (exit code %d)", code)
	case code == testlibPoints:
		points, ok := parsePoints(message)
		if !ok {
			return fail("the checker exited with %d, and its message does not begin with points and a number from 0 to %g", code, job.MaxPoints)
		}
		r.give(points, &r.Score)
	case part >= 0 && part <= mostPartial && strings.HasPrefix(message, fmt.Sprintf("%s%d)", partially, part)):
		r.give(float64(part)/mostPartial, &r.Multiplier)
	default:
		return fail("the checker exited with %d, which is no exit code of testlib.h", code)
	}
	return r
}

// give accepts an output for what it gives; for nothing it is wrong.
func (r *Ruling) give(score float64, as **float64) {
	r.Verdict = job.WrongAnswer
	if score > 0 {
		r.Verdict, *as = job.Accepted, &score
	}
}

// parsePoints reads the number in "points 12.5 text".
func parsePoints(message string) (float64, bool) {
	rest, ok := strings.CutPrefix(message, "points ")
	if !ok {
		return 0, false
	}
	number := rest
	if end := strings.IndexAny(rest, " \t\r\n"); end >= 0 {
		number = rest[:end]
	}
	return parseScore(number, job.MaxPoints)
}
