package grading

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

var checkers = []job.Checker{
	{},
	{Args: words("case_sensitive")},
	{Args: words("space_change_sensitive")},
	{Args: words("float_tolerance 1e-6")},
	{Args: words("space_change_sensitive float_absolute_tolerance 0 float_relative_tolerance 1e300")},
	{Kind: "exact"},
	{Kind: "lines"},
	{Kind: "unordered_lines"},
	{Kind: "regex"},
	{Kind: "json"},
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"", "1 2\n3", "a\r\nb \n\n", "1.5e-400 nan 0x1 1,5 .", "\x00\xff", `{"a":[1,-0.0e5]}`, `(?i)a{2,}|b`} {
		for which := range checkers {
			f.Add(byte(which), []byte(seed), []byte("1 2\n"))
			f.Add(byte(which), []byte(seed), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, which byte, answer, output []byte) {
		spec := checkers[int(which)%len(checkers)]
		c, err := NewChecker(spec)
		if err != nil {
			t.Fatal(err)
		}
		check := func(answer, output []byte) (bool, *job.Difference) {
			ok, diff, err := c.Check(bytes.NewReader(answer), bytes.NewReader(output))
			var unusable *AnswerError
			if err != nil && !errors.As(err, &unusable) {
				t.Fatalf("nothing failed, and yet: %v", err)
			}
			if err == nil && ok != (diff == nil) || err != nil && (ok || diff != nil) {
				t.Fatalf("got %t, %+v, %v", ok, diff, err)
			}
			if diff != nil {
				lines := int64(bytes.Count(output, []byte{'\n'})) + 1
				if diff.Line < 1 || diff.Line > lines || diff.Column < 1 || diff.Column > int64(len(output))+1 {
					t.Errorf("the difference is outside of the output: %+v", diff)
				}
				for _, s := range []string{diff.Want, diff.Got} {
					if len(s) > excerptBytes || !utf8.ValidString(s) {
						t.Errorf("%d bytes, or no UTF-8: %q", len(s), s)
					}
				}
			}
			return ok, diff
		}
		ok, _ := check(answer, output)
		switch spec.Kind {
		case "regex":
			return
		case "json":
			if back, _ := check(output, answer); ok && !back {
				t.Errorf("%q is right for %q, but not the other way", output, answer)
			}
			return
		case "exact":
			if ok != bytes.Equal(answer, output) {
				t.Errorf("exact says %t of %q for %q", ok, output, answer)
			}
		}
		if same, diff := check(answer, answer); !same {
			t.Errorf("an answer is not right for itself: %+v", diff)
		}
		if bytes.Equal(answer, output) && !ok {
			t.Error("equal, and wrong")
		}
		if spec.Kind == "" && spec.Args == nil {
			a, o := bytes.FieldsFunc(answer, isSpaceRune), bytes.FieldsFunc(output, isSpaceRune)
			want := len(a) == len(o)
			for i := 0; want && i < len(a); i++ {
				want = bytes.Equal(asciiLower(a[i]), asciiLower(o[i]))
			}
			if ok != want {
				t.Errorf("default says %t of %q for %q, which have the tokens %q and %q", ok, output, answer, o, a)
			}
		}
	})
}

func isSpaceRune(r rune) bool { return isSpace(int(r)) }

func asciiLower(b []byte) []byte {
	c := bytes.Clone(b)
	for i := range c {
		c[i] = lower(c[i])
	}
	return c
}

// FuzzJudgement makes a tree of groups and verdicts from bytes.
func FuzzJudgement(f *testing.F) {
	f.Add([]byte{}, uint64(1))
	f.Add([]byte{3, 1, 2, 5, 9, 200, 17, 4, 4, 80, 3, 2, 1}, uint64(7))
	f.Add([]byte("sum min max avg pass_fail first worst always break"), uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, shuffle uint64) {
		tests, groups, verdicts := grown(data)
		in, err := NewJudgement(tests, groups)
		if err != nil {
			return // a group that comes back, or is required too early
		}
		asWanted, err := NewJudgement(tests, groups)
		if err != nil {
			t.Fatal(err)
		}
		order := make([]int, len(tests))
		for i := range order {
			order[i] = i
			in.Set(i, verdicts[i].is, verdicts[i].score)
			if asWanted.Wanted(i) {
				asWanted.Set(i, verdicts[i].is, verdicts[i].score)
			}
		}
		other, err := NewJudgement(tests, groups)
		if err != nil {
			t.Fatal(err)
		}
		for i := range order {
			j := int(shuffle % uint64(len(order)-i))
			shuffle = shuffle*6364136223846793005 + 1442695040888963407
			order[i], order[i+j] = order[i+j], order[i]
			other.Set(order[i], verdicts[order[i]].is, verdicts[order[i]].score)
		}
		whole := in.Whole()
		if d := cmp.Diff(whole, other.Whole()); d != "" {
			t.Errorf("the order counts: %s", d)
		}
		if d := cmp.Diff(whole, asWanted.Whole()); d != "" {
			t.Errorf("what is not wanted counts: %s", d)
		}
		inRange := func(what string, score, most float64) {
			if !(score >= 0 && score <= most) || math.IsInf(most, 0) {
				t.Errorf("%s: score %v of %v", what, score, most)
			}
		}
		inRange("the whole", whole.Score, whole.MaxScore)
		for i, s := range whole.Tests {
			inRange(tests[i].Name, s.Score, s.MaxScore)
			if s.Verdict == job.JudgeError && whole.Verdict != job.JudgeError {
				t.Errorf("the judge failed at %s, and the whole is %s", tests[i].Name, whole.Verdict)
			}
			if in.Wanted(i) == (s.Verdict == job.SkippedTest) && verdicts[i].is != job.SkippedTest {
				t.Errorf("%s: wanted is %t, and its verdict %s", tests[i].Name, in.Wanted(i), s.Verdict)
			}
		}
		for _, g := range whole.Groups {
			inRange(g.Name, g.Score, g.MaxScore)
		}
	})
}

// grown makes tests, groups and verdicts of bytes.
func grown(data []byte) (tests []job.Test, groups []job.Group, verdicts []verdict) {
	next := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b) % n
	}
	points := func() *float64 {
		if n := next(5); n > 0 {
			p := []float64{0, 1, 100.0 / 3, 0.1, 1e9}[n]
			return &p
		}
		return nil
	}
	names := []string{"", "a", "a/x", "a/y", "b", "b/x/1", "c"}
	for _, name := range names {
		if next(3) == 0 {
			continue
		}
		g := job.Group{
			Name:  name,
			Score: []string{"", "sum", "min", "max", "avg", "pass_fail"}[next(6)], Verdict: []string{"", "first", "worst", "always"}[next(4)],
			AcceptAny: next(2) == 1, AcceptScore: points(), RejectScore: points(), MaxScore: points(),
			OnReject: []string{"", "continue", "break"}[next(3)],
		}
		if next(3) == 1 {
			g.RequirePass = []string{names[next(len(names))]}
		}
		groups = append(groups, g)
	}
	possible := append([]job.Verdict{job.Accepted, job.Accepted, job.SkippedTest, "unknown"}, severity...)
	for len(data) > 0 && len(tests) < 50 {
		tests = append(tests, job.Test{Name: string(rune('A'+len(tests)%26)) + string(rune('a'+len(tests)/26)), Group: names[min(len(names)-1, next(3)+len(tests)/3)], Points: points()})
		v := verdict{is: possible[next(len(possible))]}
		if next(4) == 1 {
			score := []float64{0, 0.5, 1e300, -1, math.NaN()}[next(5)]
			v.score = &score
		}
		verdicts = append(verdicts, v)
	}
	return tests, groups, verdicts
}
