// Package templates makes jobs of templates: it checks parameters against the template's JSON Schema,
// and puts them where the template points at them. Start at [Parse].
package templates

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/internal/patterns"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// maxSchemaValues and maxParams bound how many values a schema and parameters have, maxSteps one times
	// the other: validation may take as long, and holds an error for each step that fails.
	maxSchemaValues = 2000
	maxParams       = 4096
	maxSteps        = 200_000
	// maxPatterns and maxPatternBytes bound regular expressions, each of which reads a whole text.
	maxPatterns     = 32
	maxPatternBytes = 256
	// maxStates bounds the states of all patterns together. Each state may be tried at each byte of 64 KiB of parameters, which takes a second.
	maxStates = 4000
	// maxFaults is how many faults of parameters are listed.
	maxFaults = 32

	schemaURL = "schema:params"
)

// Schema says what the parameters of a template may be.
type Schema struct {
	compiled *jsonschema.Schema
	document map[string]any // decoded
	values   int            // how many the document has
}

// Parse reads the JSON Schema of a template's parameters; none is that of no parameters. It fails with
// job.Invalid.
func Parse(text json.RawMessage) (*Schema, error) {
	if len(text) == 0 {
		text = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	if len(text) > job.MaxSchemaBytes {
		return nil, refuse(fmt.Sprintf("%d bytes", len(text)), "is too large", fmt.Sprintf("up to %d bytes", job.MaxSchemaBytes))
	}
	decoded, err := jsonvalue.Decode(text)
	if err != nil {
		return nil, refuse(nil, err.Error(), "a JSON Schema")
	}
	document, ok := decoded.(map[string]any)
	if !ok || document["type"] != "object" {
		return nil, refuse(nil, "is not the schema of an object", `{"type": "object", "properties": …}`)
	}
	if err := checkSchema(document); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(refused{})                                           // the library's own opens files
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) { // also for a parameter that is to be a pattern
		re, _, err := patterns.Compile(text, maxStates)
		return re, err
	})
	if err := c.AddResource(schemaURL, document); err != nil {
		return nil, refuse(nil, "is not a JSON Schema: "+job.Clip(err.Error(), 200), "a JSON Schema of draft 2020-12")
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return nil, refuseSchema(err)
	}
	return &Schema{compiled, document, jsonvalue.Count(document)}, nil
}

// refused is a loader of other documents.
type refused struct{}

func (refused) Load(string) (any, error) { return nil, errors.New("other documents are not read") }

// checkSchema refuses what could make validation take long: references, which may double at each step,
// many values or patterns, and patterns of many states.
func checkSchema(document map[string]any) error {
	if n := jsonvalue.Count(document); n > maxSchemaValues {
		return refuse(fmt.Sprintf("%d values", n), "has too many values", fmt.Sprintf("up to %d", maxSchemaValues))
	}
	count, states := 0, 0 // of patterns
	pattern := func(text string) {
		count++
		if len(text) > maxPatternBytes {
			count = maxPatterns + 1
			return
		}
		n, err := patterns.States(text, maxStates)
		var size *patterns.SizeError
		if errors.As(err, &size) { // what else is wrong with it the schema's compiler says
			n = size.States
		}
		states = min(states+n, maxStates+1)
	}
	var found error
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for key, item := range v {
				text, isText := item.(string)
				under, isMap := item.(map[string]any)
				switch {
				case isText && (key == "$ref" || key == "$dynamicRef" || key == "$recursiveRef"):
					found = refuse(text, "has "+key, "a schema that stands for itself")
				case isText && key == "pattern":
					pattern(text)
				case isMap && key == "patternProperties":
					for text := range under {
						pattern(text)
					}
				}
				walk(item)
			}
		}
	}
	walk(document)
	if found == nil && count > maxPatterns {
		found = refuse(nil, "has too many patterns, or too long ones", fmt.Sprintf("up to %d of %d bytes", maxPatterns, maxPatternBytes))
	}
	if found == nil && states > maxStates {
		found = refuse(nil, "has patterns that take too long to match", fmt.Sprintf("up to %d states together: [a-z]{1,500} has some 1000, a class such as \\pL 100", maxStates))
	}
	return found
}

func refuse(value any, problem, allowed string) error {
	if s, ok := value.(string); ok {
		value = job.Clip(s, 64)
	}
	return job.Invalid{{Field: "params", Value: value, Message: problem, Allowed: allowed}}
}

func refuseSchema(err error) error {
	var faults *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	if errors.As(err, &faults) && errors.As(faults.Err, &invalid) {
		return problems("params", invalid, "as JSON Schema (draft 2020-12) has it")
	}
	return refuse(nil, "is not a JSON Schema: "+job.Clip(err.Error(), 200), "a JSON Schema of draft 2020-12")
}

// Has reports whether the schema names a parameter of that name.
func (s *Schema) Has(name string) bool {
	properties, _ := s.document["properties"].(map[string]any)
	_, ok := properties[name]
	return ok
}

// takes reports whether a run may have a parameter of that name, be it that the schema allows others than it names.
func (s *Schema) takes(name string) bool {
	_, byPattern := s.document["patternProperties"]
	return s.Has(name) || s.document["additionalProperties"] != false || byPattern
}

// of is the schema of a parameter; nil: it has none, or one that is true or false.
func (s *Schema) of(name string) map[string]any {
	properties, _ := s.document["properties"].(map[string]any)
	of, _ := properties[name].(map[string]any)
	return of
}

// Names are those of the parameters, sorted.
func (s *Schema) Names() []string {
	properties, _ := s.document["properties"].(map[string]any)
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Missing finds what the schema requires, has no default for, and isn't among these names: a run without would be refused.
func (s *Schema) Missing(names []string) (invalid job.Invalid) {
	required, _ := s.document["required"].([]any)
	for _, r := range required {
		name, _ := r.(string)
		if _, ok := s.of(name)["default"]; !ok && !slices.Contains(names, name) && len(invalid) < maxFaults {
			invalid = append(invalid, job.FieldError{Field: "from." + job.Clip(name, 64), Message: "is missing: the template's schema requires it", Allowed: "where it is from; or a default in the schema"})
		}
	}
	return invalid
}

// Unknown finds those of these names that no parameter of a run can have.
func (s *Schema) Unknown(names []string) (invalid job.Invalid) {
	known := job.Clip(strings.Join(s.Names(), ", "), 200)
	for _, name := range names {
		if !s.takes(name) && len(invalid) < maxFaults {
			invalid = append(invalid, job.FieldError{Field: "from." + job.Clip(name, 64), Message: "is no parameter of the template", Allowed: cmp.Or(known, "nothing: it has none")})
		}
	}
	return invalid
}

// Params decodes parameters, gives those that are left out their defaults, and checks all. It fails with
// job.Invalid.
func (s *Schema) Params(text json.RawMessage) (map[string]any, error) {
	if len(text) == 0 || string(text) == "null" {
		text = json.RawMessage("{}")
	}
	if len(text) > job.MaxParamsBytes {
		return nil, refuse(fmt.Sprintf("%d bytes", len(text)), "are too large", fmt.Sprintf("up to %d bytes", job.MaxParamsBytes))
	}
	params, err := object(text)
	if err != nil {
		return nil, err
	}
	return params, s.Check(params)
}

// Filled is [Schema.Params] of what that has returned before, as JSON: with its defaults it may have more bytes and values than somebody may send.
func (s *Schema) Filled(text json.RawMessage) (map[string]any, error) {
	params, err := object(text)
	if err != nil {
		return nil, err
	}
	return params, s.fill(params)
}

func object(text json.RawMessage) (map[string]any, error) {
	decoded, err := jsonvalue.Decode(text)
	if err != nil {
		return nil, refuse(nil, err.Error(), "a JSON object")
	}
	params, ok := decoded.(map[string]any)
	if !ok {
		return nil, refuse(nil, "is not an object", "a JSON object")
	}
	return params, nil
}

// Check gives parameters that are left out their defaults, and checks all. It fails with job.Invalid.
func (s *Schema) Check(params map[string]any) error {
	if n := jsonvalue.Count(params); n > maxParams {
		return refuse(fmt.Sprintf("%d values", n), "have too many values", fmt.Sprintf("up to %d", maxParams))
	}
	return s.fill(params)
}

// fill is Check of any number of values.
func (s *Schema) fill(params map[string]any) error {
	setDefaults(params, s.document)
	if n := jsonvalue.Count(params); n*s.values > maxSteps {
		return refuse(fmt.Sprintf("%d values", n), fmt.Sprintf("have too many values, defaults included, for a schema of %d", s.values), fmt.Sprintf("up to %d with this schema", maxSteps/s.values))
	}
	err := s.compiled.Validate(params)
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		allowed := "what the template's schema says; parameters: " + job.Clip(strings.Join(s.Names(), ", "), 200)
		if len(s.Names()) == 0 {
			allowed = "what the template's schema says; it names no parameters"
		}
		return problems("params", invalid, allowed)
	}
	return err
}

// setDefaults gives properties that are left out the defaults of their schemas, also in objects within.
func setDefaults(v, schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	for name, of := range properties {
		property, ok := of.(map[string]any)
		if !ok {
			continue
		}
		if _, given := v[name]; !given {
			value, ok := property["default"]
			if !ok {
				continue
			}
			v[name] = jsonvalue.Clone(value) // else runs would share it with the schema
		}
		if in, ok := v[name].(map[string]any); ok {
			setDefaults(in, property)
		}
	}
}

// problems lists the faults at the tree's leaves, by where they are.
func problems(prefix string, invalid *jsonschema.ValidationError, allowed string) job.Invalid {
	english := message.NewPrinter(language.English) // it is not safe for concurrent use
	var list job.Invalid
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 && len(list) < maxFaults {
			field := prefix
			for _, word := range e.InstanceLocation {
				field += "." + word
			}
			list = append(list, job.FieldError{Field: job.Clip(field, 120), Message: "is wrong: " + job.Clip(e.ErrorKind.LocalizedString(english), 200), Allowed: allowed})
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(invalid)
	slices.SortStableFunc(list, func(a, b job.FieldError) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Message, b.Message))
	})
	return list
}
