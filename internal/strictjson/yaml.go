package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

const (
	// maxYAMLDepth bounds how deep YAML is nested: an alias may stand for what it is in.
	maxYAMLDepth = 100
	// maxYAMLMerges bounds how many mappings are merged (<<) into others. Where each mapping merges the one before it twice, the number doubles with each.
	maxYAMLMerges = 10_000
)

// FromYAML returns one document of YAML as JSON of most bytes at most. Keys are text, also on and 1. True and false are booleans, and the yes
// and off of YAML 1.1 are text. Numbers stay as they are written; those that JSON doesn't have, such as 0777, are refused. JSON is returned as it is.
func FromYAML(text []byte, most int) ([]byte, error) {
	if json.Valid(text) {
		return text, nil
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	if err := d.Decode(&document); errors.Is(err, io.EOF) {
		return []byte("null"), nil
	} else if err != nil {
		return nil, err
	}
	for {
		var more yaml.Node
		if err := d.Decode(&more); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if more.Content[0].ShortTag() != "!!null" { // or nothing is behind ---
			return nil, fmt.Errorf("line %d: there is more than one document: what is behind --- would be read by nobody", more.Line)
		}
	}
	y := yamlWriter{most: most}
	err := y.write(&document, 0)
	return y.out, err
}

// yamlWriter writes YAML as JSON.
type yamlWriter struct {
	out    []byte
	most   int
	merges int
}

func (y *yamlWriter) write(n *yaml.Node, depth int) error {
	if len(y.out) > y.most {
		return fmt.Errorf("line %d: it has more than %d bytes as JSON, with what its aliases stand for", n.Line, y.most)
	}
	if depth > maxYAMLDepth {
		return fmt.Errorf("line %d: it is nested deeper than %d levels", n.Line, maxYAMLDepth)
	}
	if tag := n.ShortTag(); (n.Kind == yaml.SequenceNode || n.Kind == yaml.MappingNode) && tag != "!!seq" && tag != "!!map" {
		return fmt.Errorf("line %d: the tag %s is not known", n.Line, tag)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return y.write(n.Content[0], depth)
	case yaml.AliasNode:
		return y.write(n.Alias, depth+1)
	case yaml.SequenceNode:
		y.out = append(y.out, '[')
		for i, item := range n.Content {
			if i > 0 {
				y.out = append(y.out, ',')
			}
			if err := y.write(item, depth+1); err != nil {
				return err
			}
		}
		y.out = append(y.out, ']')
		return nil
	case yaml.MappingNode:
		return y.object(n, depth)
	}
	return y.scalar(n)
}

func (y *yamlWriter) object(n *yaml.Node, depth int) error {
	entries, err := y.entries(n, depth)
	if err != nil {
		return err
	}
	y.out = append(y.out, '{')
	for i := 0; i < len(entries); i += 2 {
		if i > 0 {
			y.out = append(y.out, ',')
		}
		y.text(entries[i].Value)
		y.out = append(y.out, ':')
		if err := y.write(entries[i+1], depth+1); err != nil {
			return err
		}
	}
	y.out = append(y.out, '}')
	return nil
}

// entries lists keys and values of a mapping in turn: its own, and then those that it merges (<<) and has not itself.
func (y *yamlWriter) entries(n *yaml.Node, depth int) ([]*yaml.Node, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: << merges what is no mapping", n.Line)
	}
	if depth > maxYAMLDepth {
		return nil, fmt.Errorf("line %d: it merges more than %d levels", n.Line, maxYAMLDepth)
	}
	var own, merged []*yaml.Node
	lines := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.ShortTag() == "!!merge" && value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		case key.ShortTag() == "!!merge":
			merged = append(merged, value)
		case key.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: a key is no text", key.Line)
		case lines[key.Value] > 0:
			return nil, fmt.Errorf("line %d: %s appears more than once, first in line %d", key.Line, strconv.Quote(key.Value), lines[key.Value])
		default:
			lines[key.Value] = key.Line
			own = append(own, key, value)
		}
	}
	for _, m := range merged {
		if y.merges++; y.merges > maxYAMLMerges {
			return nil, fmt.Errorf("line %d: it merges more than %d mappings", n.Line, maxYAMLMerges)
		}
		entries, err := y.entries(m, depth+1)
		if err != nil {
			return nil, err
		}
		for entry := range slices.Chunk(entries, 2) {
			if lines[entry[0].Value] == 0 {
				lines[entry[0].Value] = entry[0].Line
				own = append(own, entry...)
			}
		}
	}
	return own, nil
}

func (y *yamlWriter) scalar(n *yaml.Node) error {
	number := n.Value != "" && strings.ContainsRune("-0123456789", rune(n.Value[0])) && json.Valid([]byte(n.Value))
	switch tag := n.ShortTag(); {
	case tag == "!!str" && n.Style == 0 && number: // one that no float holds
		y.out = append(y.out, n.Value...)
	case tag == "!!str", tag == "!!timestamp":
		y.text(n.Value)
	case tag == "!!null" && n.Style != yaml.TaggedStyle:
		y.out = append(y.out, "null"...)
	case tag == "!!bool":
		var v bool
		if err := n.Decode(&v); err != nil {
			return err
		}
		y.out = strconv.AppendBool(y.out, v)
	case tag == "!!int", tag == "!!float":
		if !number {
			return fmt.Errorf("line %d: %s is a number that JSON has not: write it in decimal, or as text in quotes", n.Line, n.Value)
		}
		y.out = append(y.out, n.Value...)
	default:
		return fmt.Errorf("line %d: the tag %s is not known", n.Line, tag)
	}
	return nil
}

func (y *yamlWriter) text(s string) {
	quoted, _ := json.Marshal(s) // a text can be
	y.out = append(y.out, quoted...)
}
