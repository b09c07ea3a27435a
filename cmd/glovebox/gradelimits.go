package main

import (
	"errors"
	"fmt"

	"github.com/glovebox-run/glovebox/job"
)

// fit lowers limits that the package doesn't give itself to what is allowed, where err says that they are beyond it: its format knows no such
// maximum, so the largest that there is will do. It reports whether there is anything to be tried once more.
func (g *grader) fit(limits *job.Limits, checker *job.Checker, err error) bool {
	var faults job.Invalid
	if g.problem == nil || !errors.As(err, &faults) {
		return false
	}
	own := map[string]*int64{"limits.stack_mb": &limits.StackMB}
	if checker != nil && checker.Program != nil && g.problem.Limits.ValidationMB == 0 {
		own["checker.program.limits.memory_mb"] = &checker.Program.Limits.MemoryMB
	}
	lowered := false
	for _, f := range faults {
		var most int64
		value := own[f.Field]
		if value == nil {
			continue
		}
		if _, err := fmt.Sscanf(f.Allowed, "0 (the default) to %d", &most); err == nil && most < *value {
			*value, lowered = most, true
		}
	}
	return lowered
}
