package pipelines

import (
	"maps"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// Kept are the steps of a run that has ended which another takes over when the run is repeated, by name: those that have
// succeeded or were not to run, unless they follow from a step that runs again. from runs again besides, "" for no other.
// It fails with job.Invalid for a from that is no step, and where nothing would run.
func Kept(p job.Pipeline, s State, from string) (map[string]bool, error) {
	if _, known := p.Steps[from]; from != "" && !known {
		return nil, job.Invalid{{Field: "from", Value: job.Clip(from, 64), Message: "is no step of the run's pipeline", Allowed: strings.Join(slices.Sorted(maps.Keys(p.Steps)), ", ")}}
	}
	again := map[string]bool{}
	for name := range p.Steps {
		if status := s.Status(p, name); name == from || status != Succeeded && status != Skipped {
			again[name] = true
		}
	}
	if len(again) == 0 {
		return nil, job.Invalid{{Field: "from", Message: "is missing, and every step has succeeded or was not to run", Allowed: "the step to run again from: " + strings.Join(slices.Sorted(maps.Keys(p.Steps)), ", ")}}
	}
	for grown := true; grown; {
		grown = false
		for name, step := range p.Steps {
			if !again[name] && slices.ContainsFunc(step.Needs, func(need string) bool { return again[need] }) {
				again[name], grown = true, true
			}
		}
	}
	kept := map[string]bool{}
	for name := range p.Steps {
		if !again[name] {
			kept[name] = true
		}
	}
	return kept, nil
}
