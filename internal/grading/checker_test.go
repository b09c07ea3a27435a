package grading

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

func words(s string) []string { return strings.Fields(s) }

func TestCheck(t *testing.T) {
	t.Parallel()
	ulp := "float_tolerance 1e-6"
	tests := []struct {
		name, kind, args, answer, output string
		want                             bool
	}{
		{name: "same", answer: "1 2\n", output: "1 2\n", want: true},
		{name: "no newline at the end", answer: "1 2\n", output: "1 2", want: true},
		{name: "CRLF", answer: "1\n2\n", output: "1\r\n2\r\n", want: true},
		{name: "leading blank lines", answer: "1\n", output: "\n\n 1", want: true},
		{name: "every white space", answer: "a b", output: "\f\v\ta\r\n\v\fb\f", want: true},
		{name: "a non-breaking space is text", answer: "a b", output: "a\u00a0b"},
		{name: "case", answer: "Yes\n", output: "yEs\n", want: true},
		{name: "case is ASCII's", answer: "Ä\n", output: "ä\n"},
		{name: "case of what is no letter", answer: "[@", output: "{`"},
		{name: "case_sensitive", args: "case_sensitive", answer: "Yes\n", output: "yes\n"},
		{name: "nothing", answer: "1\n", output: ""},
		{name: "nothing wanted, nothing there", answer: "", output: " \n", want: true},
		{name: "nothing wanted", answer: "", output: "1"},
		{name: "too few", answer: "1 2 3", output: "1 2"},
		{name: "too many", answer: "1 2", output: "1 2 3"},
		{name: "a token is longer", answer: "12", output: "123"},
		{name: "a token is shorter", answer: "123", output: "12"},
		{name: "tokens cut elsewhere", answer: "12 3", output: "1 23"},
		{name: "NUL is text", answer: "a b", output: "a\x00b"},
		{name: "what is behind a NUL counts", answer: "a\x00b", output: "a\x00c"},
		{name: "NUL at the end", answer: "a", output: "a\x00"},
		{name: "no UTF-8", answer: "\xff\xfe", output: "\xff\xfe", want: true},
		{name: "without a tolerance numbers are text", answer: "1.0", output: "1"},

		{name: "spaces", args: "space_change_sensitive", answer: "1 2\n", output: "1 2\n", want: true},
		{name: "two spaces", args: "space_change_sensitive", answer: "1 2\n", output: "1  2\n"},
		{name: "a tab", args: "space_change_sensitive", answer: "1 2\n", output: "1\t2\n"},
		{name: "newline is missing", args: "space_change_sensitive", answer: "1 2\n", output: "1 2"},
		{name: "newline too many", args: "space_change_sensitive", answer: "1 2\n", output: "1 2\n\n"},
		{name: "space at the begin", args: "space_change_sensitive", answer: "1", output: " 1"},
		{name: "spaces, and case", args: "space_change_sensitive", answer: "A b\n", output: "a B\n", want: true},
		{name: "spaces, and numbers", args: "space_change_sensitive float_tolerance 1e-3", answer: "1.0 2\n", output: "1 2.0001\n", want: true},

		{name: "near", args: ulp, answer: "1.0", output: "1.0000009", want: true},
		{name: "not near", args: ulp, answer: "1.0", output: "1.0000011"},
		{name: "exactly as near as may be", args: ulp, answer: "0.3", output: "0.300001", want: true},
		{name: "the least bit too far", args: ulp, answer: "0.3", output: "0.3000010000000000000000000000001"},
		{name: "other forms", args: ulp, answer: "1.0 10 0.5 7. +3 -0", output: "1 1e1 .5 7 3 0", want: true},
		{name: "relative", args: "float_relative_tolerance 1e-6", answer: "1e9", output: "1000000999", want: true},
		{name: "relative, too far", args: "float_relative_tolerance 1e-6", answer: "1e9", output: "1000001001"},
		{name: "relative to zero", args: "float_relative_tolerance 1e-6", answer: "0", output: "1e-9"},
		{name: "zero is zero", args: "float_relative_tolerance 1e-6", answer: "0.0", output: "-0e7", want: true},
		{name: "absolute", args: "float_absolute_tolerance 1e-6", answer: "1e9", output: "1000000001"},
		{name: "either", args: "float_absolute_tolerance 1 float_relative_tolerance 1e-9", answer: "100", output: "101", want: true},
		{name: "the last one counts", args: "float_tolerance 1 float_absolute_tolerance 0.1 float_relative_tolerance 0", answer: "100", output: "100.5"},
		{name: "NaN", args: ulp, answer: "1.0", output: "NaN"},
		{name: "NaN is text", args: ulp, answer: "nan", output: "NaN", want: true},
		{name: "inf", args: ulp, answer: "1.0", output: "inf"},
		{name: "minus infinity", args: ulp, answer: "-1.0", output: "-Infinity"},
		{name: "hexadecimal", args: ulp, answer: "1.0", output: "0x1p0"},
		{name: "underscore", args: ulp, answer: "10", output: "1_0"},
		{name: "decimal comma", args: ulp, answer: "1.5", output: "1,5"},
		{name: "trailing letters", args: ulp, answer: "1.0", output: "1.0f"},
		{name: "two signs", args: ulp, answer: "1.0", output: "+-1.0"},
		{name: "lone point", args: ulp, answer: "0", output: "."},
		{name: "lone exponent", args: ulp, answer: "0", output: "e1"},
		{name: "exponent without digits", args: ulp, answer: "1", output: "1e"},
		{name: "the answer is no number", args: ulp, answer: "x1", output: "x1.0"},
		{name: "overflow", args: ulp, answer: "1", output: "1e999999999999"},
		{name: "overflow on both sides", args: ulp, answer: "1e400", output: "2e400"},
		{name: "beyond float64", args: ulp, answer: "1e400", output: "10e399", want: true},
		{name: "underflow", args: "float_relative_tolerance 1e-6", answer: "1e-400", output: "0"},
		{name: "underflow to one another", args: "float_relative_tolerance 1e-6", answer: "1e-400", output: "5e-400"},
		{name: "underflow, near", args: "float_relative_tolerance 1e-6", answer: "1e-400", output: "10e-401", want: true},
		{name: "beyond 2^53", args: "float_tolerance 0", answer: "9007199254740993", output: "9007199254740992"},
		{name: "tolerance 0", args: "float_tolerance 0", answer: "0.1", output: "1e-1", want: true},
		{name: "a number too long is text", args: ulp, answer: "1." + strings.Repeat("0", MaxNumber), output: "1"},
		{name: "a number too long, the same", args: ulp, answer: "1." + strings.Repeat("0", 3*MaxNumber), output: "1." + strings.Repeat("0", 3*MaxNumber), want: true},
		{name: "numbers and words", args: ulp, answer: "Case 1: 0.5\n", output: "case 1: 0.50000001", want: true},

		{name: "bytes", kind: "exact", answer: "a\x00b\n", output: "a\x00b\n", want: true},
		{name: "a byte more", kind: "exact", answer: "a\n", output: "a\n\n"},
		{name: "a byte less", kind: "exact", answer: "a\n", output: "a"},
		{name: "a carriage return", kind: "exact", answer: "a\n", output: "a\r\n"},

		{name: "ends of lines", kind: "lines", answer: "a b\nc\n", output: "a b  \r\nc\t\n\n  \n", want: true},
		{name: "no newline", kind: "lines", answer: "a\n", output: "a", want: true},
		{name: "blank lines wanted at the end", kind: "lines", answer: "a\n \n\n", output: "a", want: true},
		{name: "within lines", kind: "lines", answer: "a b\n", output: "a  b\n"},
		{name: "begin of lines", kind: "lines", answer: "a\n", output: " a\n"},
		{name: "blank line between", kind: "lines", answer: "a\nb\n", output: "a\n\nb\n"},
		{name: "leading blank line", kind: "lines", answer: "a\n", output: "\na\n"},
		{name: "case of lines", kind: "lines", answer: "a\n", output: "A\n"},
		{name: "line too many", kind: "lines", answer: "a\n", output: "a\nb\n"},
		{name: "line too few", kind: "lines", answer: "a\nb\n", output: "a\n\n"},

		{name: "order", kind: "unordered_lines", answer: "a\nb\nb\n", output: "b \nb\r\na\n\n", want: true},
		{name: "once too few", kind: "unordered_lines", answer: "a\nb\nb\n", output: "a\nb\n"},
		{name: "once too many", kind: "unordered_lines", answer: "a\nb\n", output: "a\nb\nb\n"},
		{name: "another", kind: "unordered_lines", answer: "a\n", output: "c\n"},

		{name: "pattern", kind: "regex", answer: `\d+( apples)?` + "\n", output: "17 apples\n", want: true},
		{name: "the whole of it", kind: "regex", answer: `\d+`, output: "x 17"},
		{name: "alternatives, whole", kind: "regex", answer: `a|b`, output: "ab"},
		{name: "over lines", kind: "regex", answer: `(?s)a.*b`, output: "a\nx\nb", want: true},
		{name: "a pattern in no time", kind: "regex", answer: `(a|a)*b`, output: strings.Repeat("a", 10000)},

		{name: "JSON", kind: "json", answer: `{"a":[1,2,{"b":null}],"c":"ä"}`, output: ` {"c":"\u00e4", "a":[1.0,0.2e1,{"b":null}]}` + "\n", want: true},
		{name: "order of an array", kind: "json", answer: `[1,2]`, output: `[2,1]`},
		{name: "longer array", kind: "json", answer: `[1,2]`, output: `[1,2,3]`},
		{name: "another key", kind: "json", answer: `{"a":1}`, output: `{"b":1}`},
		{name: "a key more", kind: "json", answer: `{}`, output: `{"b":1}`},
		{name: "number and string", kind: "json", answer: `1`, output: `"1"`},
		{name: "null and nothing", kind: "json", answer: `[null]`, output: `[]`},
		{name: "empty array and null", kind: "json", answer: `[]`, output: `null`},
		{name: "huge numbers", kind: "json", answer: `1e999999999999999999999`, output: `10e999999999999999999998`, want: true},
		{name: "a number too long is text, JSON", kind: "json", answer: `1`, output: `1.` + strings.Repeat("0", MaxNumber)},
		{name: "a number too long, the same, JSON", kind: "json", answer: `1.` + strings.Repeat("0", MaxNumber), output: `1.` + strings.Repeat("0", MaxNumber), want: true},
		{name: "a large exponent, written otherwise", kind: "json", answer: `1e+` + strings.Repeat("0", 2000) + strings.Repeat("7", 2000), output: `10e` + strings.Repeat("7", 1999) + "6", want: true},
		{name: "precise numbers", kind: "json", answer: `9007199254740993`, output: `9007199254740992`},
		{name: "zeros", kind: "json", answer: `[0, 0]`, output: `[-0.0e5, 0e9]`, want: true},
		{name: "negative", kind: "json", answer: `1`, output: `-1`},
		{name: "more after it", kind: "json", answer: `1`, output: `1 2`},
		{name: "no JSON", kind: "json", answer: `1`, output: `[1,]`},
		{name: "no JSON, a comma too few", kind: "json", answer: `[1, 2]`, output: `[1 2]`},
		{name: "NaN is no JSON", kind: "json", answer: `1`, output: `NaN`},
		{name: "nothing is no JSON", kind: "json", answer: `1`, output: ``},
		{name: "no UTF-8 is no JSON", kind: "json", answer: `"\ufffd"`, output: "\"\xff\""},
		{name: "deep", kind: "json", answer: `1`, output: strings.Repeat("[", 100000)},
	}
	for _, tt := range tests {
		t.Run(tt.kind+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := NewChecker(job.Checker{Kind: tt.kind, Args: words(tt.args)})
			if err != nil {
				t.Fatal(err)
			}
			for _, read := range []func(string) io.Reader{
				func(s string) io.Reader { return strings.NewReader(s) },
				func(s string) io.Reader { return iotest.OneByteReader(strings.NewReader(s)) },
			} {
				ok, diff, err := c.Check(read(tt.answer), read(tt.output))
				if err != nil {
					t.Fatal(err)
				}
				if ok != tt.want || ok != (diff == nil) {
					t.Errorf("%q for %q: got %t, %+v; want %t", tt.output, tt.answer, ok, diff, tt.want)
				}
			}
		})
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	tests := []struct {
		name, kind, args, answer, output string
		want                             job.Difference
	}{
		{"token", "", "", "1 2\n3 4\n", "1 2\n3 5\n", job.Difference{Line: 2, Column: 3, Want: "4", Got: "5"}},
		{"within a token", "", "", "hello", "help", job.Difference{Line: 1, Column: 4, Want: "hello", Got: "help"}},
		{"as it was written", "", "", "HELLO", "hElp", job.Difference{Line: 1, Column: 4, Want: "HELLO", Got: "hElp"}},
		{"end", "", "", "1 2", "1\n", job.Difference{Line: 2, Column: 1, Want: "2"}},
		{"more", "", "", "1", "1\n2\n", job.Difference{Line: 2, Column: 1, Got: "2"}},
		{"number", "", "float_tolerance 0.1", "7 1.25", "7 1.50", job.Difference{Line: 1, Column: 3, Want: "1.25", Got: "1.50"}},
		{"long", "", "", long + "a" + long, long + "b" + long, job.Difference{
			Line: 1, Column: 1001,
			Want: "…" + strings.Repeat("x", 32) + "a" + strings.Repeat("x", 89) + "…",
			Got:  "…" + strings.Repeat("x", 32) + "b" + strings.Repeat("x", 89) + "…",
		}},
		{"bytes that are no text", "", "", "a", "a\xff\x00", job.Difference{Line: 1, Column: 2, Want: "a", Got: "a\uFFFD\x00"}},
		{"exact", "exact", "", "ab\ncd\nef", "ab\ncD\nef", job.Difference{Line: 2, Column: 2, Want: "cd", Got: "cD"}},
		{"exact, newline", "exact", "", "ab\n", "ab", job.Difference{Line: 1, Column: 3, Want: "ab\n", Got: "ab"}},
		{"spaces", "", "space_change_sensitive", "a b", "a\tb", job.Difference{Line: 1, Column: 2, Want: " ", Got: "\t"}},
		{"lines", "lines", "", "a b\nc d\n", "a b \nc  d\n", job.Difference{Line: 2, Column: 3, Want: "c d", Got: "c  d"}},
		{"a line more", "lines", "", "a\n", "a\n\nb\n", job.Difference{Line: 3, Column: 1, Got: "b"}},
		{"a line less", "lines", "", "a\nb\n", "a\n", job.Difference{Line: 2, Column: 1, Want: "b"}},
		{"unordered", "unordered_lines", "", "a\nb\n", "b\nc\n", job.Difference{Line: 2, Column: 1, Got: "c"}},
		{"unordered, several", "unordered_lines", "", "d\nc\nb\n", "x\nc\na\n", job.Difference{Line: 1, Column: 1, Got: "x"}},
		{"unordered, twice", "unordered_lines", "", "a\nb\na\n", "b\na\nb\n", job.Difference{Line: 3, Column: 1, Got: "b"}},
		{"unordered, missing", "unordered_lines", "", "a\nb\n", "b\n", job.Difference{Line: 2, Column: 1, Want: "a"}},
		{"regex", "regex", "", `\d`, "x", job.Difference{Line: 1, Column: 1, Want: `\d`, Got: "x"}},
		{"json", "json", "", `{"a":[1,2]}`, "{\"a\":\n[1,3]}", job.Difference{Line: 2, Column: 4, Want: "$.a[1]: 2", Got: "$.a[1]: 3"}},
		{"json, syntax", "json", "", `1`, "\nx", job.Difference{
			Line: 2, Column: 1, Want: "a JSON document", Got: "invalid character 'x' looking for beginning of value",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := NewChecker(job.Checker{Kind: tt.kind, Args: words(tt.args)})
			if err != nil {
				t.Fatal(err)
			}
			_, diff, err := c.Check(strings.NewReader(tt.answer), strings.NewReader(tt.output))
			if err != nil || diff == nil {
				t.Fatalf("got %v, %v", diff, err)
			}
			if d := cmp.Diff(tt.want, *diff); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestNewCheckerErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		checker job.Checker
		want    string
	}{
		{job.Checker{Kind: "fuzzy"}, "checker.kind: is not known (got fuzzy)"},
		{job.Checker{Kind: "exact", Args: words("case_sensitive")}, "checker.args: is for the default checker only"},
		{job.Checker{Args: words("case-sensitive")}, "checker.args[0]: is not known (got case-sensitive)"},
		{job.Checker{Args: words("case_sensitive float_tolerance")}, "checker.args[1]: lacks its number"},
		{job.Checker{Args: words("float_tolerance -1")}, "checker.args[1]: is not a tolerance (got -1)"},
		{job.Checker{Args: words("float_tolerance NaN")}, "checker.args[1]: is not a tolerance"},
		{job.Checker{Args: words("float_tolerance inf")}, "checker.args[1]: is not a tolerance"},
		{job.Checker{Args: words("float_tolerance 0x1p-3")}, "checker.args[1]: is not a tolerance"},
		{job.Checker{Args: words("float_tolerance 1e999")}, "checker.args[1]: is not a tolerance"},
		{job.Checker{Args: words("float_tolerance 1e-99999")}, "checker.args[1]: is not a tolerance"},
	}
	for _, tt := range tests {
		if _, err := NewChecker(tt.checker); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.checker, err, tt.want)
		}
	}
}

func TestUnusableAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct{ kind, answer, want string }{
		{"regex", "(", "is no regular expression"},
		{"regex", `a{1001}`, "is no regular expression"},
		{"regex", strings.Repeat(`.{1000}`, 100), "states or more"},
		{"regex", "(?:" + strings.Repeat("a", 3000) + "){1000}", "states or more"}, // compiling it takes 120 MB
		{"regex", strings.Repeat("a", maxPattern+1), "is longer than"},
		{"json", "{", "is no JSON document"},
		{"json", "1 2", "is no JSON document"},
		{"json", strings.Repeat("[", maxDepth+2), "nested"},
		{"json", `"` + strings.Repeat("a", MaxJSON) + `"`, "is longer than"},
		{"unordered_lines", strings.Repeat("a", MaxDocument+1), "is longer than"},
		{"unordered_lines", strings.Repeat("a\n", MaxLines+1), "more than 1048576 lines"},
	}
	for _, tt := range tests {
		c, err := NewChecker(job.Checker{Kind: tt.kind})
		if err != nil {
			t.Fatal(err)
		}
		ok, diff, err := c.Check(strings.NewReader(tt.answer), strings.NewReader("1"))
		var unusable *AnswerError
		if !errors.As(err, &unusable) || !strings.Contains(err.Error(), tt.want) || ok || diff != nil {
			t.Errorf("%s of %.20q…: got %t, %v, %v; want an AnswerError with %q", tt.kind, tt.answer, ok, diff, err, tt.want)
		}
	}
}

func TestLongOutputsAreWrong(t *testing.T) {
	t.Parallel()
	for kind, answer := range map[string]string{"unordered_lines": "a", "regex": "a", "json": "1"} {
		c, err := NewChecker(job.Checker{Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		endless := &counted{r: zeros{}}
		ok, diff, err := c.Check(strings.NewReader(answer), endless)
		if ok || diff == nil || err != nil {
			t.Errorf("%s: got %t, %v, %v", kind, ok, diff, err)
		}
		if endless.n > MaxDocument+bufferBytes {
			t.Errorf("%s read %d bytes", kind, endless.n)
		}
	}
}

func TestReaderFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	for _, kind := range []string{"default", "exact", "lines", "unordered_lines", "regex", "json"} {
		c, err := NewChecker(job.Checker{Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		half := func() io.Reader { return io.MultiReader(strings.NewReader("1"), iotest.ErrReader(broken)) }
		if ok, diff, err := c.Check(half(), strings.NewReader("1")); ok || diff != nil || !errors.Is(err, broken) {
			t.Errorf("%s, answer: got %t, %v, %v", kind, ok, diff, err)
		}
		if ok, diff, err := c.Check(strings.NewReader("1"), half()); ok || diff != nil || !errors.Is(err, broken) {
			t.Errorf("%s, output: got %t, %v, %v", kind, ok, diff, err)
		}
	}
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// TestStreams compares sides that are far larger than what may be held, without a newline.
func TestStreams(t *testing.T) { // not parallel: allocations are counted
	size := int64(16 << 20)
	if testing.Short() {
		size = 4 << 20 // 64 buffers
	}
	for _, c := range []job.Checker{{}, {Args: words("float_tolerance 1e-6")}, {Kind: "exact"}, {Kind: "lines"}} {
		checker, err := NewChecker(c)
		if err != nil {
			t.Fatal(err)
		}
		allocated := testing.AllocsPerRun(1, func() {
			ok, diff, err := checker.Check(io.LimitReader(zeros{}, size), io.LimitReader(zeros{}, size))
			if !ok || err != nil {
				t.Errorf("%+v: got %t, %v, %v", c, ok, diff, err)
			}
		})
		if allocated > float64(size/bufferBytes+100) { // a few bytes each
			t.Errorf("%+v: %v allocations", c, allocated)
		}
		ok, diff, err := checker.Check(io.LimitReader(zeros{}, size), io.MultiReader(io.LimitReader(zeros{}, size-1), strings.NewReader("1")))
		if ok || err != nil || diff.Column != size {
			t.Errorf("%+v: got %t, %+v, %v; want a difference at %d", c, ok, diff, err, size)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	same := strings.Repeat("12345 67890\n", 1<<20/12)
	floats := strings.Repeat("0.5 1.25\n", 1<<20/9)
	near := strings.Repeat("0.5000000001 1.25\n", 1<<20/9)
	for _, bb := range []struct{ name, args, answer, output string }{
		{"same", "", same, same},
		{"CRLF", "", same, strings.ReplaceAll(same, "\n", "\r\n")},
		{"floats", "float_tolerance 1e-6", floats, near},
	} {
		b.Run(bb.name, func(b *testing.B) {
			c, err := NewChecker(job.Checker{Args: words(bb.args)})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(bb.output)))
			for b.Loop() {
				if ok, diff, err := c.Check(strings.NewReader(bb.answer), strings.NewReader(bb.output)); !ok {
					b.Fatal(diff, err)
				}
			}
		})
	}
}

// TestLongExponent: a number of a program's takes no longer to compare than to read.
func TestLongExponent(t *testing.T) {
	t.Parallel()
	long := "10e" + strings.Repeat("7", 1<<20-10) // of a number, 1e…8 would come of it
	if got := canonical(long); got != long {
		t.Errorf("got a number of %d bytes, want the text", len(got))
	}
	if shortest, limit := canonical(long[:MaxNumber]), MaxNumber+2; len(shortest) > limit {
		t.Errorf("got %d bytes, want up to %d", len(shortest), limit)
	}
}
