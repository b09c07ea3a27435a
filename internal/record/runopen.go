package record

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// NewRun is a run to begin.
type NewRun struct {
	// ID is [job.NewRunID]'s by default. One that is there already is found, whatever it runs.
	ID string
	// Name is the pipeline's, Template what it came from as name@revision; or "".
	Name, Template   string
	Pipeline, Params []byte
	Metadata         map[string]string
	Callback         string
	Trace            string    // where the trace goes on that it is begun in, as a traceparent, or ""
	By               job.Token // that began it: its id and label, or neither
	Deadline         time.Time
	// Key is an idempotency key, or "", and Asked what it stands for.
	Key   string
	Asked []byte
	// RerunOf is the run that it repeats, or "", Kept are the steps that it takes over from that, by name, and Verdicts what
	// was decided about them.
	RerunOf  string
	Kept     map[string]KeptStep
	Verdicts map[string][]byte
}

// fields are those of the record, each name before its value, and how many bytes they take.
func (n NewRun) fields() (list []any, size int, err error) {
	metadata := ""
	if len(n.Metadata) > 0 {
		text, err := job.Marshal(n.Metadata)
		if err != nil {
			return nil, 0, fmt.Errorf("encode metadata: %w", err)
		}
		metadata = string(text)
	}
	for name, value := range map[string]string{
		"metadata": metadata, "pipeline": string(n.Pipeline), "params": string(n.Params), "name": n.Name, "template": n.Template, "callback": n.Callback, "trace": n.Trace, "by": n.By.ID, "by_label": n.By.Label, "rerun_of": n.RerunOf,
	} {
		list, size = append(list, name, value), size+textCost(len(value))
	}
	if n.RerunOf == "" {
		return list, size, nil
	}
	kept, err := json.Marshal(n.Kept)
	if err != nil {
		return nil, 0, fmt.Errorf("encode steps that are kept: %w", err)
	}
	list, size = append(list, "kept", kept), size+textCost(len(kept))
	for step, verdict := range n.Verdicts {
		list, size = append(list, stepField+step, verdict), size+textCost(len(stepField+step)+len(verdict))
	}
	return list, size, nil
}

// OpenRun begins a run, or finds the one that its key began. It fails with job.ErrConflict where that has
// another pipeline or parameters, and with a *job.GoneError where it is no longer kept.
func (s *Store) OpenRun(ctx context.Context, tenant string, n NewRun) (Run, error) {
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return Run{}, fmt.Errorf("begin run: %w", err)
	}
	overBudget := s.checkBudget(ctx, tenant, terms)
	if overBudget != nil && job.CodeOf(overBudget) != job.CodeBudgetExceeded {
		return Run{}, fmt.Errorf("begin run: %w", overBudget)
	}
	if err := s.noteTenant(ctx, tenant); err != nil {
		return Run{}, fmt.Errorf("begin run: %w", err)
	}
	id, delivery := cmp.Or(n.ID, job.NewRunID(tenant)), ""
	if n.Callback != "" {
		delivery = DeliveryID(id, job.EventPipelineCompleted, n.Callback)
	}
	fields, size, err := n.fields()
	if err != nil {
		return Run{}, fmt.Errorf("begin run: %w", err)
	}
	most := s.mostRecorded(terms)
	held, err := openRunScript.Run(ctx, s.lasting, tenant, script.Args{
		"id": id, "now": s.now(), "key": hashKey(n.Key), "options": hashAsked(n.Asked), "size": runCost + size + textCost(len(n.Callback)), "most_recorded": most, "over_budget": overBudget != nil,
	}, append(fields, "delivery", delivery, "message", MessageID(id, job.EventPipelineCompleted),
		"deadline", ms(n.Deadline), "retention", s.Retention(terms).Milliseconds())...).Text()
	if err != nil {
		return Run{}, fmt.Errorf("begin run: %w", err)
	}
	gone, isGone := strings.CutPrefix(held, "gone ")
	switch {
	case isGone:
		return Run{}, &job.GoneError{ID: gone}
	case held == "conflict":
		return Run{}, job.ErrConflict
	case held == "bytes_recorded":
		return Run{}, overRecorded(most)
	case held == "over_budget":
		return Run{}, overBudget
	}
	return s.GetRun(ctx, held)
}
