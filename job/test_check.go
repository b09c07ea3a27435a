package job

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of tests.
const (
	// MaxTests is more than twice what the largest problem packages have (some 400), and keeps a
	// result with a line for each below 1 MiB.
	MaxTests = 1000
	// MaxTestBytes bounds the input of one test, and its answer.
	MaxTestBytes = 64 << 20
	// MaxTestsInline bounds all inputs and answers that are in the spec itself; limits.source_kb does
	// not count them. Larger ones are uploaded once, and named by their digest.
	MaxTestsInline = 4 << 20
	// MaxTestsWall bounds the number of tests, and of the passes of each, times limits.wall_ms, milliseconds. With each test run
	// twice, which is the most, a job then ends within the two hours for which a sandbox may live.
	MaxTestsWall = 3_000_000
	// MaxTestArgBytes bounds the arguments of one test, together.
	MaxTestArgBytes = 8 << 10
)

// checkTests checks what a graded job has, and what it can't have.
func (s Spec) checkTests() (errs []FieldError) {
	add := func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}
	if !s.Graded() {
		if s.Checker != nil {
			add("checker", nil, "is there without tests", "nothing, or tests beside it")
		}
		if len(s.Groups) > 0 {
			add("groups", len(s.Groups), "is there without tests", "nothing, or tests beside it")
		}
		return errs
	}
	for _, other := range []struct {
		field string
		given bool
		why   string
	}{
		{"stdin", s.Stdin != "", "nothing: each test has its own"},
		{"stdin_base64", s.StdinBase64 != "", "nothing: each test has its own"},
		{"image", s.Image != "" || len(s.Command) > 0, "a runtime: programs of images are not graded"},
		{"secrets", len(s.Secrets) > 0, "nothing: a program that is judged by what it prints gets no secrets, which would be masked there"},
		{"stream", s.Stream, "nothing: what a graded program prints is not streamed"},
	} {
		if other.given {
			add(other.field, nil, "can't be together with tests", other.why)
		}
	}
	if len(s.Tests) > MaxTests {
		add("tests", len(s.Tests), "has too many entries", fmt.Sprintf("0 to %d", MaxTests))
		return errs
	}
	errs = append(errs, CheckGrading(s.Tests, s.Groups, s.Checker)...)
	if wall := s.Limits.Or(DefaultLimits).WallMS; wall > s.mostWall() {
		add("limits.wall_ms", wall, "is too long for "+s.testsAndPasses(), fmt.Sprintf("up to %d: all tests together have %d", s.mostWall(), MaxTestsWall))
	}
	var checker Checker
	if s.Checker != nil {
		checker = *s.Checker
	}
	var inline int64
	for i, t := range s.Tests {
		at := fmt.Sprintf("tests[%d]", i)
		checkWords(add, at+".args", t.Args, MaxArgs)
		if n := len(strings.Join(t.Args, " ")); n > MaxTestArgBytes {
			add(at+".args", fmt.Sprintf("%d bytes", n), "are too long", fmt.Sprintf("up to %d bytes together", MaxTestArgBytes))
		}
		if len(t.CheckerArgs) > 0 {
			if err := checker.checkTestArgs(at+".checker_args", t.CheckerArgs); err != nil {
				errs = append(errs, *err)
			}
		}
		if n := len(strings.Join(t.CheckerArgs, " ")); n > MaxTestArgBytes {
			add(at+".checker_args", fmt.Sprintf("%d bytes", n), "are too long", fmt.Sprintf("up to %d bytes together", MaxTestArgBytes))
		}
		inline += t.Input().checkTestContent(add, at, "stdin") + t.Expected().checkTestContent(add, at, "answer")
	}
	if inline > MaxTestsInline {
		add("tests", fmt.Sprintf("%d bytes of inputs and answers", inline), "are too large", fmt.Sprintf("%d bytes; upload the larger ones (stdin_upload, answer_upload)", MaxTestsInline))
	}
	return errs
}

// checkTestContent checks an input or an answer, and returns how much of it is in the spec, bytes.
func (f File) checkTestContent(add addFunc, at, field string) int64 {
	var given []string
	for _, c := range []struct{ suffix, value string }{{"", f.Content}, {"_base64", f.ContentBase64}, {"_upload", f.Upload}} {
		if c.value != "" {
			given = append(given, field+c.suffix)
		}
	}
	if len(given) > 1 {
		add(at, nil, "has "+strings.Join(given, " and "), "one of them")
	}
	if !utf8.ValidString(f.Content) {
		add(at+"."+field, nil, "is not UTF-8", "text; bytes go in "+field+"_base64")
	}
	if f.Upload != "" {
		if !IsSHA256(f.Upload) {
			add(at+"."+field+"_upload", clip(f.Upload), "is not a SHA-256", "64 lower-case hex digits")
		}
		return 0
	}
	content, err := f.Bytes()
	if err != nil {
		add(at+"."+field+"_base64", nil, "is not base64", "standard base64 with padding (RFC 4648)")
	}
	return int64(len(content)) // Spec.Check is for specs whose size is bounded
}
