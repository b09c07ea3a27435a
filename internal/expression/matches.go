package expression

import (
	"regexp"
	"regexp/syntax"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// stepsPerUnit is how much of a regular expression's work is one of CEL's units: a step is one byte of text in one state of the
// pattern, some 4 ns.
const stepsPerUnit = 40

// matcher is CEL's function matches, which CEL itself counts by the length of the pattern's text: "{1000}" is six characters, and a thousand
// states that each byte of text may be in. Nothing interrupts a match, so one that costs too much is not begun.
type matcher struct {
	most uint64 // units

	mu       sync.Mutex
	patterns map[string]pattern
}

type pattern struct {
	regexp *regexp.Regexp
	states uint64
	err    error
}

// maxPatterns bounds how many are remembered: one may come from the data.
const maxPatterns = 16

func (m *matcher) pattern(text string) pattern {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok := m.patterns[text]; ok {
		return p
	}
	if m.patterns == nil || len(m.patterns) >= maxPatterns {
		m.patterns = map[string]pattern{}
	}
	p := compile(text)
	m.patterns[text] = p
	return p
}

func compile(text string) (p pattern) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return pattern{err: err}
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return pattern{err: err}
	}
	p.states = uint64(len(program.Inst))
	p.regexp, p.err = regexp.Compile(text)
	return p
}

// cost is that of a match, in units.
func (m *matcher) cost(text, of ref.Val) uint64 {
	t, ok := text.(types.String)
	p, is := of.(types.String)
	if !ok || !is {
		return 1
	}
	return 1 + uint64(len(t))*m.pattern(string(p)).states/stepsPerUnit
}

func (m *matcher) match(text, of ref.Val) ref.Val {
	t, ok := text.(types.String)
	o, is := of.(types.String)
	if !ok || !is {
		return types.MaybeNoSuchOverloadErr(text)
	}
	p := m.pattern(string(o))
	switch {
	case p.err != nil:
		return types.WrapErr(p.err)
	case m.cost(text, of) > m.most:
		return types.NewErr("to match %d bytes against a pattern of %d states takes too long", len(t), p.states)
	}
	return types.Bool(p.regexp.MatchString(string(t)))
}

// library is all of CEL's functions, with ours in place of its matches.
func (m *matcher) library() []cel.EnvOption {
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
