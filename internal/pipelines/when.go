package pipelines

import (
	"encoding/json"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/glovebox-run/glovebox/internal/expression"
	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/job"
)

// maxWhenCost bounds what an expression may calculate, in CEL's units: some milliseconds.
const maxWhenCost = 100_000

// when is an expression of a step.
type when struct {
	condition expression.Condition
	// outputs are the needs whose outputs it reads.
	outputs map[string]bool
}

// parseWhen reads the expression of a step that has these needs. What it says of another step is refused
// here, not when the step's turn has come.
func parseWhen(text string, needs []string) (when, error) {
	if len(text) > job.MaxWhenBytes {
		return when{}, fmt.Errorf("is larger than %d bytes", job.MaxWhenBytes)
	}
	options := []cel.EnvOption{cel.Variable("params", cel.MapType(cel.StringType, cel.DynType))}
	for _, need := range needs {
		options = append(options,
			cel.Variable("needs."+need+".status", cel.StringType), cel.Variable("needs."+need+".count", cel.IntType),
			cel.Variable("needs."+need+".succeeded", cel.IntType), cel.Variable("needs."+need+".failed", cel.IntType),
			cel.Variable("needs."+need+".outputs", cel.DynType))
	}
	condition, err := expression.Parse(text, maxWhenCost, options...)
	if err != nil {
		return when{}, err
	}
	w := when{condition, map[string]bool{}}
	for _, name := range condition.Names {
		if parts := strings.Split(name, "."); len(parts) == 3 && parts[0] == "needs" && parts[2] == "outputs" {
			w.outputs[parts[1]] = true
		}
	}
	return w, nil
}

// holds evaluates the expression.
func (w when) holds(c Context) (bool, error) {
	known := map[string]any{"params": plain(c.Params)}
	for name, need := range c.Needs {
		at := "needs." + name
		known[at+".status"], known[at+".count"] = string(need.Status), need.Count
		known[at+".succeeded"], known[at+".failed"] = need.Succeeded, need.Failed
		if w.outputs[name] { // else it would be copied for nothing
			known[at+".outputs"] = plain(need.outputs())
		}
	}
	holds, _, err := w.condition.Holds(known)
	return holds, err
}

// plain is v with numbers as CEL knows them: whole ones that fit are ints, others doubles.
func plain(v any) any {
	return jsonvalue.Map(v, func(v any) any {
		number, ok := v.(json.Number)
		if !ok {
			return v
		}
		if n, err := number.Int64(); err == nil {
			return n
		}
		f, _ := number.Float64() // jsonvalue.Decode refused what doesn't fit
		return f
	})
}
