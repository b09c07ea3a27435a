package pipelines

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/job"
)

// Context is what a step can point at: the run's parameters, and the steps that it needs.
type Context struct {
	Params map[string]any
	Needs  map[string]Need
}

// Need is a step that has ended.
type Need struct {
	Status                   StepStatus
	Count, Succeeded, Failed int
	// Each is whether it fanned out: then its outputs and artifacts are lists by index.
	Each bool
	// Jobs are its jobs by index, those that have ended.
	Jobs []Ended
	// Fault says why nothing is known of its jobs, which a step reads, or is "".
	Fault string
}

// Ended is what a job has left.
type Ended struct {
	ID        string
	Artifacts []job.Artifact
	// Outputs is what its OutputsFile says, or empty. Fault is what is wrong with that file, or "".
	Outputs map[string]any
	Fault   string
	// Gone says that nobody knows what it left: it has succeeded, and is no longer kept; or its result can't be read, which is Fault.
	Gone bool
}

// Need counts what became of a step. The caller adds its jobs.
func (s State) Need(p job.Pipeline, name string) Need {
	n := Need{Status: s.Status(p, name), Each: p.Steps[name].Each != nil}
	state := s.Steps[name]
	if state.Verdict.Word != Begin {
		return n
	}
	n.Count = state.Verdict.Count
	for _, item := range state.Items {
		switch {
		case item.Status == job.Succeeded:
			n.Succeeded++
		case item.Status.Final():
			n.Failed++
		}
	}
	return n
}

// Decide says what is to become of a step all of whose needs have ended. begun is how many jobs other steps
// of the run have.
func (d *Definition) Decide(name string, s State, c Context, begun int) Verdict {
	step := d.Steps[name]
	if step.When == "" {
		for _, need := range step.Needs {
			if !s.Passed(d.Pipeline, need) {
				return Verdict{Word: Skip, Why: fmt.Sprintf("%s, which it needs, is %s", need, s.Status(d.Pipeline, need))}
			}
		}
	}
	if why := d.Gone(name, c); why != "" {
		return Verdict{Word: Fail, Why: why}
	}
	for _, need := range step.Needs {
		if fault := c.Needs[need].fault(); fault != "" && d.readsOutputs(name, need) {
			return Verdict{Word: Fail, Why: need + ": " + fault}
		}
	}
	if step.When != "" {
		if holds, err := d.whens[name].holds(c); err != nil {
			return Verdict{Word: Fail, Why: "when: " + err.Error()}
		} else if !holds {
			return Verdict{Word: Skip, Why: "when is false: " + job.Clip(step.When, 200)}
		}
	}
	if step.Each == nil {
		return counted(Verdict{Word: Begin, Count: 1}, begun)
	}
	items, err := c.items(*step.Each)
	if err != nil {
		return Verdict{Word: Fail, Why: "each: " + err.Error()}
	}
	return counted(Verdict{Word: Begin, Count: len(items), Items: items}, begun)
}

// Gone says which job is gone, or can't be read, or whose jobs have left too much, that a step is to read something of, or is "": the jobs of a run are kept as long as it lives, but not those that it has
// taken over from an earlier one.
func (d *Definition) Gone(name string, c Context) string {
	for _, need := range d.Steps[name].Needs {
		if fault := c.Needs[need].Fault; fault != "" {
			return need + ": " + fault
		}
		i := slices.IndexFunc(c.Needs[need].Jobs, func(j Ended) bool { return j.Gone })
		if i < 0 || !d.Reads(name, need) {
			continue
		}
		if fault := c.Needs[need].Jobs[i].Fault; fault != "" {
			return fmt.Sprintf("%s: %s (job %d of %d)", need, fault, i+1, len(c.Needs[need].Jobs))
		}
		return fmt.Sprintf("%s: what its job %d of %d left is no longer kept: rerun from %s", need, i+1, len(c.Needs[need].Jobs), need)
	}
	return ""
}

func counted(v Verdict, begun int) Verdict {
	if begun+v.Count > job.MaxRunJobs {
		return Verdict{Word: Fail, Why: fmt.Sprintf("a run has up to %d jobs: other steps have %d, and this would have %d", job.MaxRunJobs, begun, v.Count)}
	}
	return v
}

// Begun is how many jobs the steps of a run have that were decided about.
func (s State) Begun() int {
	n := 0
	for _, state := range s.Steps {
		n += state.Verdict.Count
	}
	return n
}

// items are what a step fans out over.
func (c Context) items(each job.Each) ([]any, error) {
	var items []any
	if each.From != "" {
		found, ok := jsonvalue.Find(c.root(), each.From)
		if !ok {
			return nil, fmt.Errorf("%s is missing", each.From)
		}
		if items, ok = found.([]any); !ok {
			return nil, fmt.Errorf("%s is no list", each.From)
		}
	} else {
		for _, a := range c.artifacts(each.Artifacts, each.Match) {
			items = append(items, a.value())
		}
	}
	if len(items) > job.MaxEach {
		return nil, fmt.Errorf("there are %d items, and up to %d are allowed", len(items), job.MaxEach)
	}
	if b, err := job.Marshal(items); err != nil || len(b) > job.MaxStepOutputsBytes {
		return nil, fmt.Errorf("the items are larger than %d bytes, as JSON", job.MaxStepOutputsBytes)
	}
	return items, nil
}

// artifact is one of a step's job.
type artifact struct {
	job.Artifact
	id    string // of the job
	index int
}

// ref names it as a job's file does.
func (a artifact) ref() string { return a.id + "/" + a.Name }

// value is what a pointer finds of it.
func (a artifact) value() map[string]any {
	return map[string]any{"artifact": a.ref(), "name": a.Name, "sha256": a.SHA256, "size": a.Size}
}

// artifacts are those of a step whose name matches, by name and then by index. OutputsFile is none of them,
// unless it is asked for.
func (c Context) artifacts(step, match string) []artifact {
	var list []artifact
	for i, j := range c.Needs[step].Jobs {
		for _, a := range j.Artifacts {
			if matches, err := path.Match(match, a.Name); match == "" && a.Name != job.OutputsFile || matches && err == nil {
				list = append(list, artifact{a, j.ID, i})
			}
		}
	}
	slices.SortFunc(list, func(a, b artifact) int { return cmp.Or(strings.Compare(a.Name, b.Name), a.index-b.index) })
	return list
}

// root is what pointers look into.
func (c Context) root() map[string]any {
	needs := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(c.Needs)) {
		need := c.Needs[name]
		needs[name] = map[string]any{
			"status": string(need.Status), "count": int64(need.Count), "succeeded": int64(need.Succeeded), "failed": int64(need.Failed),
			"outputs": need.outputs(), "artifacts": need.values(),
		}
	}
	return map[string]any{"params": c.Params, "needs": needs}
}

// outputs are an object, or of a fan-out a list of them by index.
func (n Need) outputs() any {
	list := make([]any, len(n.Jobs))
	for i, j := range n.Jobs {
		if list[i] = j.Outputs; j.Outputs == nil {
			list[i] = map[string]any{}
		}
	}
	return n.oneOrAll(list)
}

// values are the artifacts by name, or of a fan-out a list of such by index.
func (n Need) values() any {
	list := make([]any, len(n.Jobs))
	for i, j := range n.Jobs {
		named := map[string]any{}
		for _, a := range j.Artifacts {
			named[a.Name] = artifact{a, j.ID, i}.value()
		}
		list[i] = named
	}
	return n.oneOrAll(list)
}

// fault says what is wrong with the outputs of one of its jobs.
func (n Need) fault() string {
	for i, j := range n.Jobs {
		if j.Fault != "" {
			return fmt.Sprintf("%s (job %d of %d)", j.Fault, i+1, len(n.Jobs))
		}
	}
	return ""
}

func (n Need) oneOrAll(list []any) any {
	switch {
	case n.Each:
		return list
	case len(list) > 0:
		return list[0]
	}
	return map[string]any{}
}

// ParseOutputs reads the OutputsFile of a job, which is a stranger's.
func ParseOutputs(text []byte) (map[string]any, error) {
	if len(text) > job.MaxOutputsBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", job.OutputsFile, job.MaxOutputsBytes)
	}
	v, err := jsonvalue.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s %w", job.OutputsFile, err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New(job.OutputsFile + " is no JSON object")
	}
	return object, nil
}
