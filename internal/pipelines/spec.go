package pipelines

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/internal/templates"
	"github.com/glovebox-run/glovebox/job"
)

// Spec is the job of a step, with what it points at, for an item of its fan-out. It fails with job.Invalid.
// A step that runs a template has [Definition.TemplateParams].
func (d *Definition) Spec(name string, v Verdict, index int, c Context) (job.Spec, error) {
	step, root := d.Steps[name], c.itemRoot(v, index)
	at := "steps." + name
	from := step.TemplateSpec
	from.Files = nil
	var files []job.File
	var named []string // of a file each, unlike artifacts
	for i, f := range step.Files {
		if f.Artifacts == "" {
			named = append(named, f.Name)
		}
		field := fmt.Sprintf("%s.files[%d]", at, i)
		switch {
		case f.Artifacts != "":
			fans := c.Needs[f.Artifacts].Each
			for _, a := range c.artifacts(f.Artifacts, f.Match) {
				under := f.Under
				if fans {
					under = path.Join(under, strconv.Itoa(a.index))
				}
				files = append(files, job.File{Name: path.Join(under, a.Name), Artifact: a.ref(), Size: a.Size, SHA256: a.SHA256})
			}
		case f.From != "":
			found, _ := jsonvalue.Find(root, f.From)
			value, ok := found.(map[string]any)
			ref, isRef := value["artifact"].(string)
			if !ok || !isRef {
				return job.Spec{}, job.Invalid{{Field: field + ".from", Value: f.From, Message: "is no artifact that was made", Allowed: "an artifact of a step before"}}
			}
			files = append(files, job.File{Name: f.Name, Artifact: ref})
		default:
			from.Files = append(from.Files, f.TemplateFile)
		}
	}
	spec, err := templates.FillFrom(from, root)
	spec.Files = append(spec.Files, files...)
	if len(named) == 1 && len(spec.Files) > 1 { // it was checked without artifacts
		spec.RunFile(named[0])
	}
	return spec, err
}

// TemplateParams are the parameters of a step that runs a template.
func (d *Definition) TemplateParams(name string, v Verdict, index int, c Context) (map[string]any, error) {
	params, root, size := map[string]any{}, c.itemRoot(v, index), 0
	for param, value := range d.Steps[name].From {
		if value.From == "" {
			params[param] = value.Text
			continue
		}
		found, ok := jsonvalue.Find(root, value.From)
		if !ok {
			return nil, job.Invalid{{Field: "steps." + name + ".from." + job.Clip(param, 64), Value: value.From, Message: "is missing", Allowed: "what a step before has left"}}
		}
		text, err := job.Marshal(found)
		if size += len(text); err != nil || size > job.MaxParamsBytes {
			return nil, job.Invalid{{Field: "steps." + name + ".from", Value: fmt.Sprintf("%d bytes and more", size), Message: "point at too much", Allowed: fmt.Sprintf("up to %d bytes as JSON, together", job.MaxParamsBytes)}}
		}
		params[param] = jsonvalue.Clone(found) // the template's defaults are written into it, and other steps read it
	}
	return params, nil
}

// Outputs are what the run answers with, as far as it is there, as JSON of at most so many bytes. Those that have no room, by
// name, are left out. What steps have left may come in several contexts, of which none is held once the next is asked for.
func (d *Definition) Outputs(contexts iter.Seq[Context], most int) (outputs []byte, left []string) {
	texts := map[string][]byte{} // nil for what has no room
	for c := range contexts {
		root := c.root()
		for name, value := range d.Pipeline.Outputs {
			if _, known := texts[name]; known {
				continue
			}
			var one any = value.Text
			if value.From != "" {
				var ok bool
				if one, ok = jsonvalue.Find(root, value.From); !ok {
					continue
				}
			}
			text, err := job.Marshal(one)
			if err != nil || len(text) > most {
				text = nil
			}
			texts[name] = text
		}
	}
	found, size := map[string]json.RawMessage{}, len("{}")
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := texts[name]
		key, err := job.Marshal(name)
		takes := len(key) + len(":") + len(text) + len(",")
		if err != nil || text == nil || size+takes > most {
			left = append(left, name)
			continue
		}
		found[name], size = text, size+takes
	}
	text, err := job.Marshal(found)
	if err != nil || len(text) > most {
		return []byte(`{}`), slices.Sorted(maps.Keys(d.Pipeline.Outputs))
	}
	return text, left
}

// itemRoot is root for a job of a fan-out.
func (c Context) itemRoot(v Verdict, index int) map[string]any {
	root := c.root()
	if index < len(v.Items) {
		root["item"], root["index"] = v.Items[index], int64(index)
	}
	return root
}

// IsArtifacts reports whether a pointer leads to artifacts, which are described by us and not by a job.
func IsArtifacts(pointer string) bool {
	parts := strings.Split(pointer, "/")
	return len(parts) > 3 && parts[1] == "needs" && parts[3] == "artifacts"
}

// Reads reports whether a step has any use for what the jobs of one that it needs have left.
func (d *Definition) Reads(name, need string) bool {
	step := d.Steps[name]
	if step.Each != nil && step.Each.Artifacts == need || d.whens[name].outputs[need] {
		return true
	}
	for _, f := range step.Files {
		if f.Artifacts == need {
			return true
		}
	}
	return pointsTo(step, "/needs/"+need+"/")
}

// WhenReads reports whether the expression of a step reads what the jobs of one that it needs have written into OutputsFile, which is
// copied for that.
func (d *Definition) WhenReads(name, need string) bool { return d.whens[name].outputs[need] }

// readsOutputs reports whether a step reads what the jobs of one that it needs have written into OutputsFile.
func (d *Definition) readsOutputs(name, need string) bool {
	step := d.Steps[name]
	return d.whens[name].outputs[need] || pointsTo(step, "/needs/"+need+"/outputs")
}

// pointsTo reports whether a pointer of the step begins so.
func pointsTo(step job.Step, pointer string) bool {
	step.Source, step.When = "", "" // no pointers are in there
	text, err := job.Marshal(step)  // each is in the rest
	return err != nil || strings.Contains(string(text), pointer)
}

// OutputsRead reports whether the run's outputs point at what the jobs of a step have left.
func (d *Definition) OutputsRead(name string) bool {
	for _, v := range d.Pipeline.Outputs {
		if strings.HasPrefix(v.From, "/needs/"+name+"/") {
			return true
		}
	}
	return false
}
