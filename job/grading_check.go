package job

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what a job is graded by.
const (
	// MaxGroups bounds Spec.Groups, and the groups that tests are in.
	MaxGroups = 1000
	// MaxRequired bounds the groups that all groups together require: each is looked at after each test.
	MaxRequired = 10_000
	// MaxPoints is the most that a test or a group gives. Sums of a thousand of these keep 3 decimals.
	MaxPoints = 1e9
	// MaxHintBytes bounds a test's hint, which results carry.
	MaxHintBytes = 1024
)

// CheckGrading returns what is wrong with names, groups, points and checker of a job, or nil. What
// the tests read and their answers are [Spec.Check]'s to look at.
func CheckGrading(tests []Test, groups []Group, checker *Checker) []FieldError {
	var errs []FieldError
	add := func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}
	places := checkTests(add, tests)
	checkGroups(add, groups, places)
	if checker != nil {
		if _, err := checker.Options(); err != nil {
			errs = append(errs, *err)
		}
		if err := checker.checkPasses(len(tests)); err != nil {
			errs = append(errs, *err)
		}
		if err := checker.checkInteractive(); err != nil {
			errs = append(errs, *err)
		}
	}
	return errs
}

// groupPlace is where the tests of a group stand among all: from first up to and with last.
type groupPlace struct{ first, last int }

// checkTests checks names and points, and that the tests of each group stand together: then the order
// of tests is that of groups, too.
func checkTests(add addFunc, tests []Test) map[string]groupPlace {
	names := map[string]bool{}
	places := map[string]groupPlace{"": {0, len(tests) - 1}}
	var open []string // the groups that the test before is in, the outermost first
	for i, t := range tests {
		at := fmt.Sprintf("tests[%d]", i)
		if problem := CheckName(t.Name); problem != "" {
			add(at+".name", clip(t.Name), problem, "a word such as 01, or a path such as secret/g1/07")
		} else if names[t.Name] {
			add(at+".name", clip(t.Name), "appears more than once", "each name once")
		}
		names[t.Name] = true
		checkPoints(add, at+".points", t.Points)
		if problem := checkString(t.Hint, MaxHintBytes); problem != "" {
			add(at+".hint", clip(t.Hint), problem, fmt.Sprintf("up to %d bytes of text", MaxHintBytes))
		}
		if t.Group != "" && CheckName(t.Group) != "" {
			add(at+".group", clip(t.Group), CheckName(t.Group), "a path such as secret/g1, or nothing for the root")
			continue
		}
		path := GroupPath(t.Group)
		for _, g := range path {
			place, seen := places[g]
			switch {
			case !seen:
				place.first = i
			case !slices.Contains(open, g):
				add(at+".group", clip(t.Group), fmt.Sprintf("comes back to %s after tests of other groups", clip(g)), "the tests of a group beside each other")
				return places
			}
			places[g] = groupPlace{place.first, i}
		}
		open = path
	}
	if len(places) > MaxGroups {
		add("tests", len(places), "are in too many groups", fmt.Sprintf("up to %d, with those around them", MaxGroups))
	}
	return places
}

// GroupPath lists a group and those around it, the outermost first and without the root: "secret/g1"
// is in "secret" and "secret/g1".
func GroupPath(group string) []string {
	var path []string
	for i, r := range group {
		if r == '/' {
			path = append(path, group[:i])
		}
	}
	if group != "" {
		path = append(path, group)
	}
	return path
}

func checkGroups(add addFunc, groups []Group, places map[string]groupPlace) {
	if len(groups) > MaxGroups {
		add("groups", len(groups), "has too many entries", fmt.Sprintf("0 to %d", MaxGroups))
		return
	}
	names := map[string]bool{"": false}
	for i, g := range groups {
		at := fmt.Sprintf("groups[%d]", i)
		if g.Name != "" && CheckName(g.Name) != "" {
			add(at+".name", clip(g.Name), CheckName(g.Name), "a path such as secret/g1, or nothing for the root")
		} else if names[g.Name] {
			add(at+".name", clip(g.Name), "appears more than once", "each name once")
		}
		names[g.Name] = true
		checkWord(add, at+".score", g.Score, "sum", "min", "max", "avg", "pass_fail")
		checkWord(add, at+".verdict", g.Verdict, "first", "worst", "always")
		checkWord(add, at+".checker_score", g.CheckerScore, "none", "within", "required")
		checkWord(add, at+".on_reject", g.OnReject, "continue", "break")
		checkPoints(add, at+".accept_score", g.AcceptScore)
		checkPoints(add, at+".reject_score", g.RejectScore)
		checkPoints(add, at+".max_score", g.MaxScore)
	}
	required := 0
	for i, g := range groups {
		if required += len(g.RequirePass); required > MaxRequired {
			add(fmt.Sprintf("groups[%d].require_pass", i), required, "has too many entries, with those of the groups before", fmt.Sprintf("up to %d in all groups together", MaxRequired))
			return
		}
		own, run := places[g.Name]
		for j, required := range g.RequirePass {
			at := fmt.Sprintf("groups[%d].require_pass[%d]", i, j)
			place, used := places[required]
			switch {
			case !used && !names[required]:
				add(at, clip(required), "is not a group of this job", "a group of groups[] or of a test")
			case required == g.Name || required == "" || g.Name == "":
				add(at, clip(required), "is not a group before this one", "a group whose tests all come before those of "+display(g.Name))
			case used && run && place.last >= own.first:
				add(at, clip(required), "is not a group before this one", "a group whose tests all come before those of "+display(g.Name))
			}
		}
	}
}

func display(group string) string {
	if group == "" {
		return "the root"
	}
	return clip(group)
}

func checkPoints(add addFunc, field string, points *float64) {
	if points != nil && !(*points >= 0 && *points <= MaxPoints) { // NaN is neither
		add(field, strconv.FormatFloat(*points, 'g', -1, 64), "is out of range", fmt.Sprintf("0 to %.0f", MaxPoints))
	}
}

func checkWord(add addFunc, field, word string, allowed ...string) {
	if word != "" && !slices.Contains(allowed, word) {
		add(field, clip(word), "is not known", strings.Join(allowed, ", "))
	}
}

// The kinds of [Checker]; "" is the default one.
const (
	CheckDefault        = "default"
	CheckExact          = "exact"
	CheckLines          = "lines"
	CheckUnorderedLines = "unordered_lines"
	CheckRegex          = "regex"
	CheckJSON           = "json"
)

// CheckerOptions are what the arguments of the default checker say.
type CheckerOptions struct {
	CaseSensitive        bool
	SpaceChangeSensitive bool
	// Absolute and Relative are tolerances as they were written, "1e-6"; "" is none.
	Absolute, Relative string
}

// Options reads the checker's arguments, or says what is wrong with the checker.
func (c Checker) Options() (CheckerOptions, *FieldError) {
	var o CheckerOptions
	kinds := []string{CheckDefault, CheckExact, CheckLines, CheckUnorderedLines, CheckRegex, CheckJSON, CheckKattis, CheckTestlib}
	if c.Kind != "" && !slices.Contains(kinds, c.Kind) {
		return o, &FieldError{"checker.kind", clip(c.Kind), "is not known", strings.Join(kinds, ", ")}
	}
	if err := c.checkProgramKind(); err != nil {
		return o, err
	}
	if c.Program != nil {
		return o, checkProgramArgs("checker.args", c.Args)
	}
	if len(c.Args) > 0 && c.Kind != "" && c.Kind != CheckDefault {
		return o, &FieldError{"checker.args", clip(c.Args[0]), "is for the default checker only", "nothing beside kind " + c.Kind}
	}
	if len(c.Args) > MaxArgs {
		return o, &FieldError{"checker.args", len(c.Args), "has too many entries", fmt.Sprintf("0 to %d", MaxArgs)}
	}
	return o, o.read("checker.args", c.Args)
}

// For is the checker as it judges a test, whose own arguments come after the checker's.
func (c Checker) For(t Test) Checker {
	c.Args = slices.Concat(c.Args, t.CheckerArgs)
	return c
}

// read reads arguments of the default checker; of those that contradict each other, the last one counts.
func (o *CheckerOptions) read(field string, args []string) *FieldError {
	for i := 0; i < len(args); i++ {
		at, word := fmt.Sprintf("%s[%d]", field, i), args[i]
		switch word {
		case "case_sensitive":
			o.CaseSensitive = true
			continue
		case "space_change_sensitive":
			o.SpaceChangeSensitive = true
			continue
		case "float_tolerance", "float_absolute_tolerance", "float_relative_tolerance":
		default:
			return &FieldError{
				at, clip(word), "is not known",
				"case_sensitive, space_change_sensitive, float_tolerance E, float_absolute_tolerance E, float_relative_tolerance E",
			}
		}
		if i++; i == len(args) {
			return &FieldError{at, word, "lacks its number", word + " 1e-6"}
		}
		if !isTolerance(args[i]) {
			return &FieldError{fmt.Sprintf("%s[%d]", field, i), clip(args[i]), "is not a tolerance", "a number from 0 to 1e300, such as 1e-6 or 0.001"}
		}
		if word != "float_relative_tolerance" {
			o.Absolute = args[i]
		}
		if word != "float_absolute_tolerance" {
			o.Relative = args[i]
		}
	}
	return nil
}

// checkTestArgs checks the arguments that a test has for the checker.
func (c Checker) checkTestArgs(field string, args []string) *FieldError {
	switch {
	case c.Program != nil:
		return checkProgramArgs(field, args)
	case c.Kind != "" && c.Kind != CheckDefault:
		return &FieldError{field, clip(args[0]), "is for the default checker, or for one that is a program", "nothing beside kind " + c.Kind}
	case len(c.Args)+len(args) > MaxArgs:
		return &FieldError{field, len(args), "has too many entries, with those of checker.args", fmt.Sprintf("0 to %d together", MaxArgs)}
	}
	return new(CheckerOptions).read(field, args)
}

// isTolerance refuses what ParseFloat takes beside decimals: inf, nan, hexadecimal, underscores.
func isTolerance(s string) bool {
	if len(s) > 64 || strings.Trim(s, "+0123456789.eE-") != "" {
		return false
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 { // the checker computes with fractions, exactly
		if e, err := strconv.Atoi(s[i+1:]); err != nil || e < -1000 || e > 1000 {
			return false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return err == nil && f >= 0 && f <= 1e300 && !math.Signbit(f)
}
