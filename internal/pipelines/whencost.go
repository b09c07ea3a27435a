package pipelines

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types/ref"
)

// deepCost counts all that a comparison walks. CEL itself counts the items of a list or map, and nothing within these, so that one
// unit could be 64 KiB of parameters.
type deepCost struct{}

// CallCost is [cel.CostTracking]'s estimator; nil leaves a call to CEL.
func (deepCost) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	switch function {
	case operators.Equals, operators.NotEquals, operators.In:
	default:
		return nil
	}
	var cost uint64
	for _, arg := range args {
		cost += values(arg)
	}
	return &cost
}

// values is how many values there are in v, v itself among them; each ten bytes of text are one.
func values(v any) uint64 {
	n := uint64(1)
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			n += values(item)
		}
	case map[string]any:
		for key, item := range v {
			n += uint64(len(key))/10 + values(item)
		}
	case []ref.Val:
		for _, item := range v {
			n += values(item)
		}
	case map[ref.Val]ref.Val:
		for key, item := range v {
			n += values(key) + values(item)
		}
	case string:
		n += uint64(len(v)) / 10
	case []byte:
		n += uint64(len(v)) / 10
	case ref.Val:
		return values(v.Value())
	}
	return n
}
