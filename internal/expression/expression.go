// Package expression reads and evaluates CEL expressions of people whom nobody has to trust: what one may calculate is bounded.
package expression

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"

	"github.com/glovebox-run/glovebox/job"
)

// maxDepth bounds how deep an expression is nested.
const maxDepth = 32

// Condition is an expression of type bool.
type Condition struct {
	program cel.Program
	// Names are the variables that it reads.
	Names []string
}

// Parse reads a condition over these variables. What it may calculate is bounded by cost, in CEL's units, of which some
// milliseconds have 100,000.
func Parse(text string, cost uint64, variables ...cel.EnvOption) (Condition, error) {
	m := matcher{most: cost}
	env, err := cel.NewCustomEnv(slices.Concat(m.library(), []cel.EnvOption{cel.ParserRecursionLimit(maxDepth)}, variables)...)
	if err != nil {
		return Condition{}, fmt.Errorf("make CEL's environment: %w", err)
	}
	read, issues := env.Compile(text)
	if issues.Err() != nil {
		return Condition{}, errors.New("is no expression: " + oneLine(issues.Err()))
	}
	if t := read.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return Condition{}, fmt.Errorf("is of type %s", t)
	}
	program, err := env.Program(read, cel.CostLimit(cost), cel.CostTracking(deepCost{m}))
	if err != nil {
		return Condition{}, errors.New("is no expression: " + oneLine(err))
	}
	return Condition{program, names(read.NativeRep())}, nil
}

func names(read *ast.AST) (list []string) {
	for _, r := range read.ReferenceMap() {
		if r.Name != "" {
			list = append(list, r.Name)
		}
	}
	return list
}

// oneLine is the first line of what CEL says: the others show the text once more.
func oneLine(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return job.Clip(strings.TrimPrefix(first, "ERROR: <input>:"), 200)
}

// Holds evaluates the condition, and says what that cost.
func (c Condition) Holds(known map[string]any) (holds bool, cost uint64, err error) {
	v, details, err := c.program.Eval(known)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	if err != nil {
		return false, cost, errors.New(oneLine(err))
	}
	b, ok := v.Value().(bool)
	if !ok {
		return false, cost, fmt.Errorf("it is no bool but of type %s", v.Type().TypeName())
	}
	return b, cost, nil
}
