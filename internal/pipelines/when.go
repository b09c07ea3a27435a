package pipelines

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/glovebox-run/glovebox/job"
)

const (
	// maxWhenCost bounds what an expression may calculate, in CEL's units: some milliseconds.
	maxWhenCost = 100_000
	// maxWhenDepth bounds how deep one is nested.
	maxWhenDepth = 32
)

// when is an expression of a step.
type when struct {
	program cel.Program
	// outputs are the needs whose outputs it reads.
	outputs map[string]bool
}

// parseWhen reads the expression of a step that has these needs. What it says of another step is refused
// here, not when the step's turn has come.
func parseWhen(text string, needs []string) (when, error) {
	if len(text) > job.MaxWhenBytes {
		return when{}, fmt.Errorf("is larger than %d bytes", job.MaxWhenBytes)
	}
	options := []cel.EnvOption{
		cel.ParserRecursionLimit(maxWhenDepth),
		cel.Variable("params", cel.MapType(cel.StringType, cel.DynType)),
	}
	for _, need := range needs {
		options = append(options,
			cel.Variable("needs."+need+".status", cel.StringType), cel.Variable("needs."+need+".count", cel.IntType),
			cel.Variable("needs."+need+".succeeded", cel.IntType), cel.Variable("needs."+need+".failed", cel.IntType),
			cel.Variable("needs."+need+".outputs", cel.DynType))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return when{}, fmt.Errorf("make CEL's environment: %w", err)
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return when{}, errors.New("is no expression: " + oneLine(issues.Err()))
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return when{}, fmt.Errorf("is of type %s", t)
	}
	program, err := env.Program(ast, cel.CostLimit(maxWhenCost), cel.CostTracking(deepCost{}))
	if err != nil {
		return when{}, errors.New("is no expression: " + oneLine(err))
	}
	w := when{program, map[string]bool{}}
	for _, r := range ast.NativeRep().ReferenceMap() {
		if parts := strings.Split(r.Name, "."); len(parts) == 3 && parts[0] == "needs" && parts[2] == "outputs" {
			w.outputs[parts[1]] = true
		}
	}
	return w, nil
}

// oneLine is the first line of what CEL says: the others show the text once more.
func oneLine(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return job.Clip(strings.TrimPrefix(first, "ERROR: <input>:"), 200)
}

// holds evaluates the expression.
func (w when) holds(c Context) (bool, error) {
	known := map[string]any{"params": plain(c.Params)}
	for name, need := range c.Needs {
		at := "needs." + name
		known[at+".status"], known[at+".count"] = string(need.Status), need.Count
		known[at+".succeeded"], known[at+".failed"], known[at+".outputs"] = need.Succeeded, need.Failed, plain(need.outputs())
	}
	v, _, err := w.program.Eval(known)
	if err != nil {
		return false, errors.New(oneLine(err))
	}
	b, ok := v.Value().(bool)
	if !ok {
		return false, fmt.Errorf("it is no bool but of type %s", v.Type().TypeName())
	}
	return b, nil
}

// plain is v with numbers as CEL knows them: whole ones that fit are ints, others doubles.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // jsonvalue.Decode refused what doesn't fit
		return f
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = plain(item)
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, item := range v {
			object[key] = plain(item)
		}
		return object
	}
	return v
}
