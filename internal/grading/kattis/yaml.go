package kattis

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// field is a value of a YAML file, and where it is. A field that is not there has no node.
type field struct {
	file string
	key  string // all of it, for an error: "limits.memory"
	name string // the last part
	node *yaml.Node
}

// parseYAML returns what a file has, nothing for an empty one. Nodes are read as they are asked for, so
// that a small file with many aliases stays small.
func parseYAML(file string, text []byte) (field, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return field{}, faultf(file, "", "is no YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	f := field{file: file}
	if len(doc.Content) > 0 {
		f.node = resolve(doc.Content[0])
	}
	if f.is("!!null") {
		f.node = nil
	}
	return f, nil
}

// resolve follows an alias. One can't name another.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (f field) given() bool { return f.node != nil }

func (f field) is(tag string) bool { return f.node != nil && f.node.Tag == tag }

func (f field) fault(format string, args ...any) error { return faultf(f.file, f.key, format, args...) }

// wrong says what is wanted, and what is there.
func (f field) wrong(want string) error {
	switch f.node.Kind {
	case yaml.MappingNode:
		return f.fault("want %s, not a map", want)
	case yaml.SequenceNode:
		return f.fault("want %s, not a list", want)
	default:
		return f.fault("want %s (got %s)", want, clip(f.node.Value))
	}
}

// fields returns the entries of a map, in their order.
func (f field) fields() ([]field, error) {
	if !f.given() {
		return nil, nil
	}
	if f.node.Kind != yaml.MappingNode {
		return nil, f.wrong("a map")
	}
	var all []field
	seen := map[string]bool{}
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		key, value := resolve(f.node.Content[i]), resolve(f.node.Content[i+1])
		if key.Kind != yaml.ScalarNode {
			return nil, f.fault("has a key that is no word (line %d)", key.Line)
		}
		if seen[key.Value] {
			return nil, f.fault("has the key %s more than once", clip(key.Value))
		}
		seen[key.Value] = true
		path := clip(key.Value)
		if f.key != "" {
			path = f.key + "." + path
		}
		entry := field{f.file, path, key.Value, value}
		if entry.is("!!null") { // as if it were not there
			entry.node = nil
		}
		all = append(all, entry)
	}
	return all, nil
}

// text returns a scalar as it is written; "" for none.
func (f field) text() (string, error) {
	if !f.given() {
		return "", nil
	}
	if f.node.Kind != yaml.ScalarNode {
		return "", f.wrong("a string")
	}
	return f.node.Value, nil
}

// word returns one of some words; "" for none.
func (f field) word(allowed ...string) (string, error) {
	s, err := f.text()
	if err == nil && s != "" && !slices.Contains(allowed, s) {
		err = f.wrong(strings.Join(allowed, ", "))
	}
	return s, err
}

// words returns a list of strings, or the words of one string.
func (f field) words() ([]string, error) {
	if !f.given() {
		return nil, nil
	}
	switch f.node.Kind {
	case yaml.ScalarNode:
		return strings.Fields(f.node.Value), nil
	case yaml.SequenceNode:
		var all []string
		for _, n := range f.node.Content {
			n = resolve(n)
			if n.Kind != yaml.ScalarNode {
				return nil, f.fault("want a list of strings (line %d)", n.Line)
			}
			all = append(all, n.Value)
		}
		return all, nil
	}
	return nil, f.wrong("a string, or a list of them")
}

// number returns a number from least to most; otherwise for none.
func (f field) number(otherwise, least, most float64) (float64, error) {
	if !f.given() {
		return otherwise, nil
	}
	want := "a number from " + short(least) + " to " + short(most)
	if f.node.Kind != yaml.ScalarNode {
		return 0, f.wrong(want)
	}
	x, err := strconv.ParseFloat(strings.TrimSpace(f.node.Value), 64)
	if err != nil || math.IsNaN(x) || x < least || x > most {
		return 0, f.wrong(want)
	}
	return x, nil
}

// whole returns a whole number from 1 to most; 0 for none.
func (f field) whole(most int64) (int64, error) {
	x, err := f.number(0, 1, float64(most))
	if err == nil && x != math.Trunc(x) {
		err = f.wrong("a whole number from 1 to " + strconv.FormatInt(most, 10))
	}
	return int64(x), err
}

func (f field) boolean(otherwise bool) (bool, error) {
	if !f.given() {
		return otherwise, nil
	}
	if !f.is("!!bool") {
		return false, f.wrong("true or false")
	}
	return strings.EqualFold(f.node.Value, "true"), nil
}

func short(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
