package pipelines

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/internal/templates"
	"github.com/glovebox-run/glovebox/job"
)

// Definition is a pipeline that was checked.
type Definition struct {
	job.Pipeline
	// Samples are the steps' jobs with a placeholder for each value that is pointed at: a submit has to
	// accept them. A step that runs a template has none.
	Samples map[string]job.Spec

	schema *templates.Schema
	whens  map[string]when
}

// stepName is what a step's name may be, in words.
const stepName = "a lower-case letter, then up to 31 lower-case letters, digits and _"

// Parse checks a pipeline. It fails with job.Invalid, which has all faults.
func Parse(p job.Pipeline) (*Definition, error) {
	d := &Definition{Pipeline: p, Samples: map[string]job.Spec{}, whens: map[string]when{}}
	c := &checker{d: d}
	b, err := job.Marshal(p)
	if err != nil {
		return nil, job.Invalid{{Field: "params", Message: "is not JSON", Allowed: "a JSON Schema"}}
	}
	if len(b) > job.MaxPipelineBytes {
		return nil, job.Invalid{{
			Field: "steps", Value: fmt.Sprintf("%d bytes of the whole pipeline, as JSON", len(b)), Message: "are too large",
			Allowed: fmt.Sprintf("up to %d bytes; larger files are uploaded (files[].upload)", job.MaxPipelineBytes),
		}}
	}
	if n := len(p.Steps); n == 0 || n > job.MaxSteps {
		return nil, job.Invalid{{Field: "steps", Value: n, Message: "is a number of steps that no pipeline has", Allowed: fmt.Sprintf("1 to %d steps", job.MaxSteps)}}
	}
	if d.schema, err = templates.Parse(p.Params); err != nil {
		return nil, err // the pointers can't be checked without
	}
	if p.Name != "" && !job.ValidTemplateName(p.Name) {
		c.add("pipeline", job.Clip(p.Name, 64), "is no pipeline's name", "1 to 64 lower-case letters, digits, - and _, starting with a letter or digit")
	}
	c.between("deadline_seconds", p.DeadlineSeconds, 0, job.MaxRunSeconds)
	for _, name := range slices.Sorted(maps.Keys(p.Steps)) {
		c.step(name, p.Steps[name])
	}
	c.cycle()
	c.few("outputs", len(p.Outputs))
	for _, name := range slices.Sorted(maps.Keys(p.Outputs)) {
		field := "outputs." + job.Clip(name, 64)
		if !job.ValidTemplateName(name) {
			c.add(field, nil, "is no output's name", "1 to 64 lower-case letters, digits, - and _")
		}
		if from := p.Outputs[name].From; from != "" {
			c.pointer(field+".from", from, slices.Sorted(maps.Keys(p.Steps)), false)
		}
	}
	if c.invalid != nil {
		return nil, c.invalid
	}
	return d, nil
}

// Params decodes a run's parameters, fills in what is left out, and checks them. It fails with job.Invalid.
func (d *Definition) Params(text []byte) (map[string]any, error) { return d.schema.Params(text) }

// FilledParams is Params of what that has returned before: a run's, which another repeats.
func (d *Definition) FilledParams(text []byte) (map[string]any, error) { return d.schema.Filled(text) }

// checker gathers the faults of a pipeline.
type checker struct {
	d       *Definition
	invalid job.Invalid
}

func (c *checker) add(field string, value any, message, allowed string) {
	c.invalid = append(c.invalid, job.FieldError{Field: field, Value: value, Message: message, Allowed: allowed})
}

func (c *checker) between(field string, value, least, most int64) {
	if value < least || value > most {
		c.add(field, value, "is out of range", fmt.Sprintf("%d to %d", least, most))
	}
}

// few: each of these may point at a MiB.
func (c *checker) few(field string, n int) {
	if n > job.MaxPointers {
		c.add(field, n, "are too many", fmt.Sprintf("up to %d", job.MaxPointers))
	}
}

func (c *checker) step(name string, s job.Step) {
	at := "steps." + job.Clip(name, 40)
	if !job.ValidStepName(name) {
		c.add(at, nil, "is no step's name", stepName)
		return
	}
	known := 0
	for i, need := range s.Needs {
		field := fmt.Sprintf("%s.needs[%d]", at, i)
		switch _, ok := c.d.Steps[need]; {
		case !ok || !job.ValidStepName(need):
			c.add(field, job.Clip(need, 64), "is no step", job.Clip(strings.Join(slices.Sorted(maps.Keys(c.d.Steps)), ", "), 300))
		case slices.Contains(s.Needs[:i], need):
			c.add(field, need, "appears more than once", "each step once")
		default:
			known++
		}
	}
	if s.When != "" && known == len(s.Needs) { // else each expression would have the same fault
		w, err := parseWhen(s.When, s.Needs)
		if err != nil {
			c.add(at+".when", job.Clip(s.When, 120), err.Error(), "an expression (CEL) that is true or false: of params, and of .status, .count, .succeeded, .failed and .outputs of needs."+orSTEP(s.Needs))
		}
		c.d.whens[name] = w
	}
	c.each(at, s)
	c.retry(at, s.Retry)
	c.job(at, name, s)
}

func orSTEP(needs []string) string {
	if len(needs) == 0 {
		return "STEP, which this step has to need"
	}
	return job.Clip(strings.Join(needs, ", needs."), 200)
}

func (c *checker) each(at string, s job.Step) {
	c.between(at+".parallel", int64(s.Parallel), 0, job.MaxEach)
	if s.Each == nil {
		if s.Parallel != 0 {
			c.add(at+".parallel", s.Parallel, "is for a step with each", "nothing")
		}
		return
	}
	e := *s.Each
	switch {
	case (e.From == "") == (e.Artifacts == ""):
		c.add(at+".each", nil, "has not one of from and artifacts", "a pointer to a list in from, or a step in artifacts")
	case e.Artifacts != "":
		c.artifacts(at+".each", e.Artifacts, e.Match, s.Needs)
	default:
		c.pointer(at+".each.from", e.From, s.Needs, false)
		if e.Match != "" {
			c.add(at+".each.match", e.Match, "is for artifacts", "nothing")
		}
	}
}

func (c *checker) artifacts(at, step, match string, needs []string) {
	if !slices.Contains(needs, step) {
		c.add(at+".artifacts", job.Clip(step, 64), "is no step that this one needs", "a step that is in needs"+job.Clip(": "+strings.Join(needs, ", "), 300))
	}
	if _, err := path.Match(match, ""); err != nil || len(match) > job.MaxName {
		c.add(at+".match", job.Clip(match, 64), "is no pattern", "a pattern such as *.csv")
	}
}

// retried are the ends that a retry can be for.
var retried = []job.Status{job.Failed, job.TimedOut, job.OutOfMemory, job.OutputLimitExceeded, job.CompileFailed, job.InternalError}

func (c *checker) retry(at string, r *job.Retry) {
	if r == nil {
		return
	}
	c.between(at+".retry.max", int64(r.Max), 1, job.MaxRetries)
	c.between(at+".retry.delay_seconds", r.DelaySeconds, 0, job.MaxRetryDelaySeconds)
	for i, status := range r.On {
		if !slices.Contains(retried, status) {
			c.add(fmt.Sprintf("%s.retry.on[%d]", at, i), job.Clip(string(status), 64), "is no end after which a job is run again", fmt.Sprint(retried))
		}
	}
}

// job checks what a step runs.
func (c *checker) job(at, name string, s job.Step) {
	each := s.Each != nil
	if s.Template != "" {
		if _, _, err := job.ParseTemplateRef(s.Template); err != nil {
			c.add(at+".template", job.Clip(s.Template, 64), "is no template's name", "a template's name, or name@revision")
		}
		c.few(at+".from", len(s.From))
		for _, param := range slices.Sorted(maps.Keys(s.From)) {
			if v := s.From[param]; v.From != "" {
				c.pointer(at+".from."+job.Clip(param, 64), v.From, s.Needs, each)
			}
		}
		s.TemplateSpec.Files = nil // the step's are its own
		for _, field := range given(reflect.ValueOf(s.TemplateSpec)) {
			c.add(at+"."+field, nil, "is beside template", "nothing: the template says it; or a job of the step's own without template")
		}
		if len(s.Files) > 0 {
			c.add(at+".files", nil, "is beside template", "nothing: from gives the template parameters; or a job of the step's own without template")
		}
		return
	}
	if len(s.From) > 0 {
		c.add(at+".from", nil, "is for a template's parameters", "nothing")
	}
	for field, given := range map[string]bool{
		"run_at": !s.RunAt.IsZero(), "deadline": !s.Deadline.IsZero(), "idempotency_key": s.IdempotencyKey != "",
	} {
		if given {
			c.add(at+"."+field, nil, "is for a job of its own", "nothing; the pipeline has deadline_seconds")
		}
	}
	for _, f := range job.OwnMetadata(s.Metadata) {
		c.add(at+"."+f.Field, f.Value, f.Message, f.Allowed)
	}
	sample := templates.Pointers(s.TemplateSpec, func(field, pointer string) {
		c.pointer(at+"."+field+".from", pointer, s.Needs, each)
	})
	if sample.Metadata == nil {
		sample.Metadata = map[string]string{}
	}
	for _, key := range []string{job.RunKey, job.StepKey} { // what each of its jobs has besides
		sample.Metadata[key] = strings.Repeat("0", mostOwnMetadata)
	}
	for i, f := range s.Files {
		if file, ok := c.file(fmt.Sprintf("%s.files[%d]", at, i), f, s); ok {
			sample.Files = append(sample.Files, file)
		}
	}
	c.d.Samples[name] = sample
}

// mostOwnMetadata is as long as a run's id, or a step's name with an index, may be.
const mostOwnMetadata = 80

// given are the fields of a job that are set, by their names in JSON.
func given(v reflect.Value) (names []string) {
	for _, f := range reflect.VisibleFields(v.Type()) {
		in := v.FieldByIndex(f.Index)
		empty := in.IsZero() || (in.Kind() == reflect.Slice || in.Kind() == reflect.Map) && in.Len() == 0
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && !empty {
			names = append(names, name)
		}
	}
	return names
}

// file checks a file of a step, and returns one to check as a submit does, if there is one.
func (c *checker) file(at string, f job.StepFile, s job.Step) (job.File, bool) {
	own := f.Content != (job.Value{}) || f.ContentBase64 != "" || f.Kept()
	sample := job.File{Name: f.Name, Content: "0"}
	switch {
	case f.Artifacts != "":
		if own || f.From != "" || f.Name != "" {
			c.add(at, nil, "has more than artifacts", "artifacts, match and under; or name and one content")
		}
		if problem := job.CheckName(f.Under); f.Under != "" && problem != "" {
			c.add(at+".under", job.Clip(f.Under, 64), problem, "a relative path")
		}
		c.artifacts(at, f.Artifacts, f.Match, s.Needs)
		return sample, false
	case f.Match != "" || f.Under != "":
		c.add(at, nil, "has match or under without artifacts", "artifacts, match and under; or name and one content")
	case f.From == "":
		sample = f.File
		if sample.Content = f.Content.Text; f.Content.From != "" {
			c.pointer(at+".content.from", f.Content.From, s.Needs, s.Each != nil)
			sample.Content = "0"
		}
	case own:
		c.add(at+".from", job.Clip(f.From, 120), "is beside a content", "one of them")
	case f.From == "/item" && s.Each != nil && s.Each.Artifacts != "":
	default:
		// What a job wrote to its outputs must not name the artifacts of another job: a pointer to an
		// artifact leads through the run's own steps.
		words, ok := job.ParsePointer(f.From)
		if !ok || len(words) < 4 || words[0] != "needs" || !slices.Contains(s.Needs, words[1]) || words[2] != "artifacts" {
			c.add(at+".from", job.Clip(f.From, 120), "points at no artifact", "/needs/STEP/artifacts/NAME of a step that this one needs; /item of a step for each artifact; a text is pointed at by content")
		}
	}
	return sample, true
}

// needFields are what a step can point at of another.
var needFields = []string{"status", "count", "succeeded", "failed", "outputs", "artifacts"}

// pointer checks what a value points at.
func (c *checker) pointer(field, pointer string, needs []string, each bool) {
	words, ok := job.ParsePointer(pointer)
	if ok && len(words) > 0 {
		switch words[0] {
		case "params":
			if len(words) == 1 || c.d.schema.Has(words[1]) {
				return
			}
		case "needs":
			if len(words) > 2 && slices.Contains(needs, words[1]) && slices.Contains(needFields, words[2]) {
				return
			}
		case "item":
			if each {
				return
			}
		case "index":
			if each && len(words) == 1 {
				return
			}
		}
	}
	roots := []string{"/params"}
	for _, name := range c.d.schema.Names() {
		roots = append(roots, "/params/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	for _, need := range needs {
		roots = append(roots, "/needs/"+need+"/"+strings.Join(needFields, "|"))
	}
	if each {
		roots = append(roots, "/item", "/index")
	}
	c.add(field, job.Clip(pointer, 120), "points at nothing that there is", job.Clip(strings.Join(roots, ", "), 500))
}

// cycle names steps that need each other.
func (c *checker) cycle() {
	const under, done = 1, 2
	seen := map[string]int{}
	var trail []string
	var visit func(name string) bool
	visit = func(name string) bool {
		trail = append(trail, name)
		defer func() { trail = trail[:len(trail)-1] }()
		seen[name] = under
		for _, need := range c.d.Steps[name].Needs {
			if seen[need] == under {
				ring := append(slices.Clone(trail[slices.Index(trail, need):]), need)
				c.add("steps."+name+".needs", strings.Join(ring, " needs "), "is a cycle", "steps that don't need themselves")
				return false
			}
			if seen[need] == 0 && !visit(need) {
				return false
			}
		}
		seen[name] = done
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(c.d.Steps)) {
		if seen[name] == 0 && !visit(name) {
			return
		}
	}
}
