// Package patterns compiles regular expressions of people whom nobody has to trust. Package regexp bounds what it parses, but not what it
// compiles: (?:aaa…){1000} of 3 KiB becomes three million instructions, 120 MB, and to match takes as many steps for each byte of text.
package patterns

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// tableStates is what a class such as \pL counts for, however often it is repeated: its table takes as much memory as so many states.
const tableStates = 100

// SizeError is that of a pattern which is too large to be compiled.
type SizeError struct{ States, Most int }

func (e *SizeError) Error() string {
	return fmt.Sprintf("is a regular expression of %d states or more; allowed: up to %d", e.States, e.Most)
}

// Compile compiles a pattern of up to that many states. How many there are is what a match takes for each byte of text at most, in steps of
// some 4 ns to 20 ns, and what it takes of memory, some 100 bytes each. It fails with *SizeError, or as [regexp.Compile] does.
func Compile(text string, most int) (re *regexp.Regexp, states int, err error) {
	return compile(text, most, "", "")
}

// CompileWhole is Compile of a pattern that has to match the whole of a text.
func CompileWhole(text string, most int) (re *regexp.Regexp, states int, err error) {
	return compile(text, most, `\A(?:`, `)\z`)
}

func compile(text string, most int, before, after string) (re *regexp.Regexp, states int, err error) {
	if states, err = States(text, most); err != nil {
		return nil, 0, err
	}
	re, err = regexp.Compile(before + text + after)
	return re, states, err
}

// States counts those of a pattern, which it does not compile. It fails as Compile does.
func States(text string, most int) (int, error) {
	states := tableStates * (strings.Count(text, `\p`) + strings.Count(text, `\P`))
	if states <= most { // else it takes too much to parse it
		tree, err := syntax.Parse(text, syntax.Perl) // by itself: its brackets are not those around it
		if err != nil {
			return 0, err
		}
		states += statesOf(tree) + 4 // a match, a failure, the two ends
	}
	if states > most {
		return 0, &SizeError{states, most}
	}
	return states, nil
}

// enough is beyond what anyone allows: the states of nested repetitions are a product.
const enough = 1 << 30

// statesOf is how many instructions a parsed pattern is compiled to, or a few more.
func statesOf(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n = min(n+statesOf(sub), enough)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpConcat:
	case syntax.OpCapture:
		n += 2
	case syntax.OpPlus, syntax.OpQuest:
		n++
	case syntax.OpStar:
		n += 2 // of what may be empty
	case syntax.OpAlternate:
		n += len(re.Sub) - 1
	case syntax.OpRepeat: // up to 1,000 times, says package syntax
		n = n*max(re.Min, re.Max, 1) + max(re.Max-re.Min, 0) + 2
	default:
		n = 1
	}
	return min(n, enough)
}
