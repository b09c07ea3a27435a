package worker

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// placeError is why an execution isn't executed where it was to be.
type placeError struct{ reason *job.Error }

func (e *placeError) Error() string { return e.reason.Message }

// place says where an execution that was taken is executed: its context, and what others the session has. It fails with a [*placeError].
func (h *heldSession) place(j record.Record) (in sandbox.Context, beside map[string]int, err error) {
	in = sandbox.Context{Name: cmp.Or(j.Place.Context, job.MainContext), Generation: j.Generation}
	beside = map[string]int{}
	for _, c := range j.Contexts {
		if c.Name != in.Name {
			beside[c.Name] = c.Generation
			continue
		}
		in.Language, in.Directory = c.Language, c.Directory
	}
	changed := &job.GenerationError{Context: in.Name, Asked: j.Expect, Generation: j.Generation}
	switch {
	case j.Generation == 0:
		return in, nil, &placeError{&job.Error{Code: job.CodeNoContext, Message: fmt.Sprintf("the context %s was deleted before this was executed", in.Name)}}
	case j.Expect > 0 && j.Expect != j.Generation:
		return in, nil, &placeError{&job.Error{Code: job.CodeGenerationChanged, Message: changed.Error()}}
	case j.Place.Language == job.FilesLanguage && in.Name == job.MainContext:
		in.Language = job.FilesLanguage
		return in, beside, nil
	case in.Language != j.Place.Language || !slices.Contains(h.languages, cmp.Or(in.Language, h.languages[0])): // nobody of ours wrote that
		return in, nil, &placeError{&job.Error{Code: job.CodeNoContext, Message: fmt.Sprintf("the context %s has the language %.40q, which the session's worker hasn't", in.Name, in.Language)}}
	}
	if in.Language == h.languages[0] { // it has the command of main
		in.Language = ""
	}
	return in, beside, nil
}

// lostWith are the contexts whose interpreters ended with the execution, and their generations.
func (t *turn) lostWith(o sandbox.TurnOutcome) map[string]int {
	lost := map[string]int{}
	if o.StateLost {
		lost[t.in.Name] = t.in.Generation
	}
	for _, name := range o.LostContexts {
		lost[name] = t.beside[name]
	}
	return lost
}
