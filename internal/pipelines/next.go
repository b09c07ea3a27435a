package pipelines

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/glovebox-run/glovebox/job"
)

// State is how far a run has come: what is stored of it, and nothing that follows from that.
type State struct {
	// Cancel is set once the run is to end early.
	Cancel bool
	// Steps has those that were decided about.
	Steps map[string]StepState
}

// StepState is what was decided about a step, and what became of its jobs.
type StepState struct {
	Verdict Verdict
	// Items are its jobs by index, without those that were not begun.
	Items map[int]Item
}

// Verdict is what was decided about a step when its needs had ended.
type Verdict struct {
	// Word is one of the constants below.
	Word string `json:"verdict"`
	Why  string `json:"why,omitempty"`
	// Count is how many jobs it has.
	Count int `json:"count,omitempty"`
	// Items are what it fans out over.
	Items []any `json:"items,omitempty"`
}

// UnmarshalJSON reads a verdict. Numbers stay as they are written.
func (v *Verdict) UnmarshalJSON(b []byte) error {
	type plain Verdict
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode((*plain)(v))
}

// The verdicts.
const (
	Begin = "begin" // make its jobs
	Skip  = "skip"
	Fail  = "fail" // nothing of it can be begun
)

// Item is the newest job of an index.
type Item struct {
	Try    int
	Status job.Status // Queued for any that has not ended
}

// StepStatus is where a step stands.
type StepStatus string

// Every status of a step.
const (
	Waiting   StepStatus = "waiting"
	Running   StepStatus = "running"
	Succeeded StepStatus = "succeeded"
	Failed    StepStatus = "failed"
	Skipped   StepStatus = "skipped"
	Canceled  StepStatus = "canceled"
)

// Final reports whether the step has ended.
func (s StepStatus) Final() bool { return s != Waiting && s != Running }

// Action is something to do for a run. Doing it again changes nothing.
type Action struct {
	Do    Do
	Step  string
	Index int
	Try   int
	// Status is how a run ends.
	Status StepStatus
}

// Do says what an action is.
type Do string

// The actions.
const (
	Decide Do = "decide" // about a step whose needs have ended
	Create Do = "create" // the job of a step, index and try
	Stop   Do = "stop"   // that job
	End    Do = "end"    // the run
)

// Next says what there is to do for a run, in an order that is always the same. It is none if and only if
// a job is under way whose end is waited for: any set of ends leads on. It knows no clock, no
// randomness and no order of ends.
func Next(p job.Pipeline, s State) []Action {
	var actions []Action
	stopping := s.stopping(p)
	flying, ended := 0, true
	for _, name := range slices.Sorted(maps.Keys(p.Steps)) {
		step, state := p.Steps[name], s.Steps[name]
		if status := s.status(p, name, stopping); status == Waiting {
			ended = false
			if !slices.ContainsFunc(step.Needs, func(need string) bool { return !s.status(p, need, stopping).Final() }) {
				actions = append(actions, Action{Do: Decide, Step: name})
			}
			continue
		} else if !status.Final() {
			ended = false
		}
		if state.Verdict.Word != Begin {
			continue
		}
		now := 0 // jobs of the step that are under way
		for i := range state.Verdict.Count {
			if item, begun := state.Items[i]; begun && !item.Status.Final() {
				now++
				if stopping {
					actions = append(actions, Action{Do: Stop, Step: name, Index: i, Try: item.Try})
				}
			}
		}
		most := cmp.Or(step.Parallel, state.Verdict.Count)
		for i := 0; i < state.Verdict.Count && now < most && !stopping; i++ {
			if item := state.Items[i]; item.Status == "" || again(step, item) {
				actions = append(actions, Action{Do: Create, Step: name, Index: i, Try: item.Try + 1})
				now++
			}
		}
		flying += now
	}
	if ended && flying == 0 {
		actions = append(actions, Action{Do: End, Status: s.Ended(p)})
	}
	return actions
}

// again reports whether a job of the step is to be made once more.
func again(step job.Step, item Item) bool {
	if step.Retry == nil || item.Try > step.Retry.Max {
		return false
	}
	on := step.Retry.On
	if len(on) == 0 {
		on = defaultRetry
	}
	return slices.Contains(on, item.Status)
}

// defaultRetry is what a retry is for that doesn't say.
var defaultRetry = []job.Status{job.Failed, job.TimedOut, job.InternalError}

// stopping reports whether nothing more is to be begun.
func (s State) stopping(p job.Pipeline) bool {
	if s.Cancel || !p.FailFast {
		return s.Cancel
	}
	for name, state := range s.Steps {
		if !p.Steps[name].AllowFailure && state.failed(p.Steps[name]) {
			return true
		}
	}
	return false
}

// failed reports whether the step can't succeed any more.
func (st StepState) failed(step job.Step) bool {
	if st.Verdict.Word == Fail {
		return true
	}
	for _, item := range st.Items {
		if item.Status.Final() && item.Status != job.Succeeded && !again(step, item) {
			return true
		}
	}
	return false
}

// Status is where a step stands.
func (s State) Status(p job.Pipeline, name string) StepStatus {
	return s.status(p, name, s.stopping(p))
}

func (s State) status(p job.Pipeline, name string, stopping bool) StepStatus {
	state, step := s.Steps[name], p.Steps[name]
	switch state.Verdict.Word {
	case Skip:
		return Skipped
	case Fail:
		return Failed
	case "":
		if stopping {
			return Canceled
		}
		return Waiting
	}
	status := Succeeded
	for i := range state.Verdict.Count {
		item := state.Items[i]
		switch {
		case item.Status == "" && stopping:
			status = worse(status, Canceled)
		case item.Status == "" || !item.Status.Final(), again(step, item) && !stopping:
			return Running
		case item.Status == job.Canceled:
			status = worse(status, Canceled)
		case item.Status != job.Succeeded:
			status = worse(status, Failed)
		}
	}
	return status
}

// worse is what a step is of which one job is this and another that: failed before canceled.
func worse(a, b StepStatus) StepStatus {
	if a == Failed || b == Succeeded {
		return a
	}
	return b
}

// Ended is how a run has ended all of whose steps have.
func (s State) Ended(p job.Pipeline) StepStatus {
	if s.Cancel {
		return Canceled
	}
	stopping := s.stopping(p)
	for name, step := range p.Steps {
		if status := s.status(p, name, stopping); (status == Failed || status == Canceled) && !step.AllowFailure {
			return Failed
		}
	}
	return Succeeded
}

// Passed reports whether a step that needs this one begins, as far as this one is concerned.
func (s State) Passed(p job.Pipeline, name string) bool {
	status := s.Status(p, name)
	return status == Succeeded || (status == Failed || status == Canceled) && p.Steps[name].AllowFailure
}
