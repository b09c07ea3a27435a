package patterns_test

import (
	"errors"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/patterns"
)

// TestCompile compares how many states are counted with what package syntax makes of the pattern: there are never fewer.
func TestCompile(t *testing.T) {
	for _, text := range []string{
		"", "a", "abc", "(abc)", "a*", "(a|b|cd)+?", "[a-z]{1,1000}", "(?:a?b{3,7}){2,}", "(?i)straße", `\A(?:\d+\.){3}\z`, "a{0}", "(a{2,3}|b){4}c*", "(?:|a)*",
		`[\p{L} ]{1,100}`, "(a*)*", "(?:(?:ab){10}c?){10}", "^$", "x{5,}",
	} {
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		re, states, err := patterns.Compile(text, 10_000)
		if err != nil || re.String() != text {
			t.Fatalf("%q: %v, %v", text, re, err)
		}
		if n := len(program.Inst); states < n || states > 2*n+110 {
			t.Errorf("%q: %d states, compiled to %d", text, states, n)
		}
	}
	if _, _, err := patterns.Compile("(a", 100); err == nil {
		t.Error("compiled (a")
	}
}

// TestTooLarge: each of these would take from 100 MB up.
func TestTooLarge(t *testing.T) {
	for _, text := range []string{
		"(?:" + strings.Repeat("a", 3000) + "){1000}", strings.Repeat("(?:", 3) + strings.Repeat("ab", 300) + strings.Repeat("){9}", 3),
		strings.Repeat(`\pL`, 20_000), strings.Repeat(`(?i)[\PL]`, 7000), strings.Repeat("a", 64<<10),
	} {
		var size *patterns.SizeError
		if _, _, err := patterns.Compile(text, 10_000); !errors.As(err, &size) || size.States <= size.Most {
			t.Errorf("%.20s…: %v", text, err)
		}
	}
}

// FuzzCompile: no text takes more than what is allowed.
func FuzzCompile(f *testing.F) {
	f.Add("(a|b{3}){2,}c*")
	f.Add(`(?i)[\pL\d]{1,64}$`)
	f.Fuzz(func(t *testing.T, text string) {
		re, states, err := patterns.Compile(text, 2000)
		if err != nil {
			return
		}
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatalf("%q was compiled: %v", text, err)
		}
		if program, err := syntax.Compile(tree.Simplify()); err != nil || len(program.Inst) > 2*states {
			t.Fatalf("%q: %d states, compiled to %d (%v)", text, states, len(program.Inst), err)
		}
		re.MatchString("straße 12")
	})
}
