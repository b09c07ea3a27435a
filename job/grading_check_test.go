package job

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestCheckGrading(t *testing.T) {
	t.Parallel()
	number := func(f float64) *float64 { return &f }
	in := func(groups ...string) []Test {
		var tests []Test
		for i, g := range groups {
			tests = append(tests, Test{Name: string(rune('a' + i)), Group: g})
		}
		return tests
	}
	requiring := func(required string, groups, entries int) (list []Group) {
		for i := range groups {
			list = append(list, Group{Name: fmt.Sprint("g", i), RequirePass: slices.Repeat([]string{required}, entries)})
		}
		return list
	}
	tests := []struct {
		name    string
		tests   []Test
		groups  []Group
		checker *Checker
		want    string // what the only error begins with; "" for none
	}{
		{name: "nothing"},
		{name: "tree", tests: in("", "sample", "secret/g1", "secret", "secret/g2", ""), groups: []Group{{}, {Name: "secret"}, {Name: "secret/g2", RequirePass: []string{"sample", "secret/g1"}}}},
		{name: "a group without tests", groups: []Group{{Name: "g"}}},
		{name: "no name", tests: []Test{{}}, want: "tests[0].name: is empty"},
		{name: "name twice", tests: []Test{{Name: "1"}, {Name: "1"}}, want: "tests[1].name: appears more than once (got 1)"},
		{name: "name with an escape", tests: []Test{{Name: "a\x1b[2J"}}, want: "tests[0].name: has a control"},
		{name: "empty part", tests: in("a//b"), want: "tests[0].group: is not a plain path"},
		{name: "slash at the end", tests: in("a/"), want: "tests[0].group: is not a plain path"},
		{name: "absolute", tests: in("/a"), want: "tests[0].group: is absolute"},
		{name: "up", tests: in("../a"), want: "tests[0].group: is not a plain path"},
		{name: "comes back", tests: in("a", "b", "a"), want: "tests[2].group: comes back to a after tests of other groups"},
		{name: "comes back to one around it", tests: in("a/x", "b", "a/y"), want: "tests[2].group: comes back to a after"},
		{name: "comes back from the root", tests: in("a", "", "a"), want: "tests[2].group: comes back to a after"},
		{name: "points are no number", tests: []Test{{Name: "1", Points: number(math.NaN())}}, want: "tests[0].points: is out of range (got NaN)"},
		{name: "negative points", tests: []Test{{Name: "1", Points: number(-1)}}, want: "tests[0].points: is out of range (got -1); allowed: 0 to 1000000000"},
		{name: "endless points", tests: []Test{{Name: "1", Points: number(math.Inf(1))}}, want: "tests[0].points: is out of range"},
		{name: "long hint", tests: []Test{{Name: "1", Hint: strings.Repeat("a", MaxHintBytes+1)}}, want: "tests[0].hint: is too long"},
		{name: "group twice", groups: []Group{{Name: "a"}, {Name: "a"}}, want: "groups[1].name: appears more than once"},
		{name: "root twice", groups: []Group{{}, {}}, want: "groups[1].name: appears more than once"},
		{name: "score", groups: []Group{{Score: "mean"}}, want: "groups[0].score: is not known (got mean); allowed: sum, min, max, avg, pass_fail"},
		{name: "verdict", groups: []Group{{Verdict: "last"}}, want: "groups[0].verdict: is not known"},
		{name: "on_reject", groups: []Group{{OnReject: "stop"}}, want: "groups[0].on_reject: is not known"},
		{name: "checker_score", groups: []Group{{CheckerScore: "any"}}, want: "groups[0].checker_score: is not known (got any); allowed: none, within, required"},
		{name: "max_score", groups: []Group{{MaxScore: number(-1)}}, want: "groups[0].max_score: is out of range"},
		{name: "requires what is not there", groups: []Group{{Name: "a", RequirePass: []string{"b"}}}, want: "groups[0].require_pass[0]: is not a group of this job (got b)"},
		{name: "requires itself", tests: in("a"), groups: []Group{{Name: "a", RequirePass: []string{"a"}}}, want: "groups[0].require_pass[0]: is not a group before this one"},
		{name: "requires a later one", tests: in("a", "b"), groups: []Group{{Name: "a", RequirePass: []string{"b"}}}, want: "groups[0].require_pass[0]: is not a group before this one"},
		{name: "requires one around it", tests: in("a", "a/x"), groups: []Group{{Name: "a/x", RequirePass: []string{"a"}}}, want: "groups[0].require_pass[0]: is not a group before this one"},
		{name: "the root requires", tests: in("a"), groups: []Group{{RequirePass: []string{"a"}}}, want: "groups[0].require_pass[0]: is not a group before this one"},
		{name: "requires the root", tests: in("", "a"), groups: []Group{{}, {Name: "a", RequirePass: []string{""}}}, want: "groups[1].require_pass[0]: is not a group before this one"},
		{name: "requires too much", tests: in("a"), groups: requiring("a", 11, 1000), want: "groups[10].require_pass: has too many entries, with those of the groups before (got 11000); allowed: up to 10000 in all groups together"},
		{name: "requires the most", tests: in("a"), groups: requiring("a", 10, 1000)},
		{name: "checker", checker: &Checker{Kind: "magic"}, want: "checker.kind: is not known (got magic)"},
		{name: "checker without its program", checker: &Checker{Kind: "kattis"}, want: "checker.program: is missing"},
		{name: "checker that is no program", checker: &Checker{Program: &CheckerProgram{}}, want: "checker.program: is for checkers of kind kattis or testlib only"},
		{name: "passes", checker: &Checker{Kind: "kattis", Passes: 100, Program: &CheckerProgram{}}},
		{name: "too many passes", checker: &Checker{Kind: "kattis", Passes: 101, Program: &CheckerProgram{}}, want: "checker.passes: is out of range"},
		{name: "interactive", checker: &Checker{Kind: "kattis", Interactive: true, Program: &CheckerProgram{}}},
		{name: "interactive, with testlib", checker: &Checker{Kind: "testlib", Interactive: true, Passes: 1, Program: &CheckerProgram{}}, want: "checker.passes: is for checkers of kind kattis only"},
		{name: "interactive, and no program", checker: &Checker{Interactive: true}, want: "checker.interactive: is for checkers that are a program only"},
		{name: "interactive, in passes", checker: &Checker{Kind: "kattis", Interactive: true, Passes: 2, Program: &CheckerProgram{}}},
		{name: "interactive, in passes of testlib", checker: &Checker{Kind: "testlib", Interactive: true, Passes: 2, Program: &CheckerProgram{}}, want: "checker.passes: is for checkers of kind kattis only"},
		{name: "passes below 0", checker: &Checker{Kind: "kattis", Passes: -1, Program: &CheckerProgram{}}, want: "checker.passes: is out of range"},
		{name: "passes of testlib", checker: &Checker{Kind: "testlib", Passes: 2, Program: &CheckerProgram{}}, want: "checker.passes: is for checkers of kind kattis only"},
		{name: "arguments of a program", checker: &Checker{Kind: "kattis", Args: []string{"any", "case_sensitive"}, Program: &CheckerProgram{}}},
		{name: "arguments with NUL", checker: &Checker{Kind: "kattis", Args: []string{"\x00"}, Program: &CheckerProgram{}}, want: "checker.args[0]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			errs := CheckGrading(tt.tests, tt.groups, tt.checker)
			switch {
			case tt.want == "" && len(errs) > 0:
				t.Errorf("got %v", errs)
			case tt.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tt.want)):
				t.Errorf("got %v, want one that begins with %q", errs, tt.want)
			}
		})
	}
}
