package convert

import (
	"math"

	"gopkg.in/yaml.v3"

	"github.com/glovebox-run/glovebox/job"
)

func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// dmojMap reads a map. What its values are is read as it is asked for, so that a file with many aliases stays small.
func dmojMap(n *yaml.Node, key string) (map[string]*yaml.Node, error) {
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		n = n.Content[0]
	}
	if n = resolved(n); n.Kind != yaml.MappingNode {
		return nil, faultf(dmojFile, key, "want a map (line %d)", n.Line)
	}
	m := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := resolved(n.Content[i]), resolved(n.Content[i+1])
		switch {
		case name.Kind != yaml.ScalarNode:
			return nil, faultf(dmojFile, key, "has a key that is no word (line %d)", name.Line)
		case name.Tag == "!!merge":
			return nil, faultf(dmojFile, key, "merges another map (line %d): write its keys down", name.Line)
		case m[name.Value] != nil:
			return nil, faultf(dmojFile, joined(key, clip(name.Value)), "is there more than once (line %d)", name.Line)
		case value.Tag != "!!null": // that is as if it were not there
			m[name.Value] = value
		}
	}
	return m, nil
}

func dmojList(n *yaml.Node, key string) ([]*yaml.Node, error) {
	if n = resolved(n); n.Kind != yaml.SequenceNode {
		return nil, faultf(dmojFile, key, "want a list (line %d)", n.Line)
	}
	if len(n.Content) > job.MaxTests {
		return nil, faultf(dmojFile, key, "has %d entries; up to %d tests are graded", len(n.Content), job.MaxTests)
	}
	return n.Content, nil
}

// dmojValue reads a value; want says what it is to be.
func dmojValue(n *yaml.Node, key, want string, into any) error {
	if err := n.Decode(into); err != nil {
		return faultf(dmojFile, key, "want %s (line %d)", want, n.Line)
	}
	if f, ok := into.(*float64); ok && math.IsNaN(*f) {
		return faultf(dmojFile, key, "want %s (line %d)", want, n.Line)
	}
	return nil
}

func joined(key, name string) string {
	if name = clip(name); key == "" {
		return name
	}
	return key + "." + name
}
