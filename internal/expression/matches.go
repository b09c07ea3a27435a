package expression

import (
	"regexp"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/glovebox-run/glovebox/internal/patterns"
)

// stepsPerUnit is how much of a regular expression's work is one of CEL's units: a step is one byte of text in one state of the
// pattern, some 4 ns.
const stepsPerUnit = 40

// A pattern may come from the data, and nothing interrupts its compilation or a match. So what takes too much is not begun.
const (
	maxStates = 10_000 // of a pattern: a millisecond to compile it, and a megabyte
	// A match costs as that of so many more bytes: what is not remembered is compiled anew.
	textBase = 32
	// maxRemembered bounds what all patterns that are remembered take, in states of some 100 bytes.
	maxRemembered = 200_000
)

// matcher is CEL's function matches, which CEL itself counts by the length of the pattern's text: "{1000}" is six characters, and a thousand
// states that each byte of text may be in.
type matcher struct {
	most uint64 // units
}

type pattern struct {
	regexp *regexp.Regexp
	states int
	err    error
}

// remembered are patterns of all expressions.
var remembered struct {
	sync.Mutex
	patterns map[string]pattern
	states   int
}

func patternOf(text string) pattern {
	remembered.Lock()
	p, ok := remembered.patterns[text]
	remembered.Unlock()
	if ok {
		return p
	}
	p.regexp, p.states, p.err = patterns.Compile(text, maxStates)
	if p.err != nil { // which costs little to find again
		return p
	}
	remembered.Lock()
	defer remembered.Unlock()
	size := p.states + len(text)
	if remembered.states += size; remembered.patterns == nil || remembered.states > maxRemembered {
		remembered.patterns, remembered.states = map[string]pattern{}, size
	}
	remembered.patterns[text] = p
	return p
}

// cost is that of a match, in units.
func (m matcher) cost(text, of ref.Val) uint64 {
	t, ok := text.(types.String)
	p, is := of.(types.String)
	if !ok || !is {
		return 1
	}
	return costOf(t, patternOf(string(p)), len(p))
}

func costOf(text types.String, p pattern, bytes int) uint64 {
	if p.err != nil {
		return 1 + uint64(bytes)/10
	}
	return 1 + uint64(len(text)+textBase)*uint64(p.states)/stepsPerUnit
}

func (m matcher) match(text, of ref.Val) ref.Val {
	t, ok := text.(types.String)
	o, is := of.(types.String)
	if !ok || !is {
		return types.MaybeNoSuchOverloadErr(text)
	}
	p := patternOf(string(o))
	switch {
	case p.err != nil:
		return types.WrapErr(p.err)
	case costOf(t, p, len(o)) > m.most:
		return types.NewErr("to match %d bytes against a pattern of %d states takes too long", len(t), p.states)
	}
	return types.Bool(p.regexp.MatchString(string(t)))
}

// library is all of CEL's functions, with ours in place of its matches.
func (m matcher) library() []cel.EnvOption {
	text := []*cel.Type{cel.StringType, cel.StringType}
	return []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{ExcludeFunctions: []*env.Function{{Name: "matches"}}})),
		cel.Function(
			"matches", cel.Overload("matches", text, cel.BoolType), cel.MemberOverload("matches_string", text, cel.BoolType),
			cel.SingletonBinaryBinding(m.match),
		),
		cel.EagerlyValidateDeclarations(true),
	}
}
