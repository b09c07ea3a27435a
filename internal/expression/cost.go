package expression

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// deepCost counts all that a comparison walks. CEL itself counts the items of a list or map, and nothing within these, so that one
// unit could be 64 KiB of parameters.
type deepCost struct{ matcher matcher }

// CallCost is [cel.CostTracking]'s estimator; nil leaves a call to CEL.
func (d deepCost) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	var cost uint64
	switch function {
	case "matches":
		cost = d.matcher.cost(args[0], args[1])
		return &cost
	case operators.Equals, operators.NotEquals, operators.In:
	default:
		return nil
	}
	for _, arg := range args {
		cost += values(arg)
	}
	return &cost
}

// values is how many values there are in v, v itself among them; each ten bytes of text are one.
func values(v ref.Val) uint64 {
	n := uint64(1)
	switch v := v.(type) {
	case types.String:
		n += uint64(len(v)) / 10
	case types.Bytes:
		n += uint64(len(v)) / 10
	case traits.Mapper:
		for i := v.Iterator(); i.HasNext() == types.True; {
			key := i.Next()
			n += values(key) + values(v.Get(key))
		}
	case traits.Lister:
		for i := v.Iterator(); i.HasNext() == types.True; {
			n += values(i.Next())
		}
	}
	return n
}
