package convert

import (
	"bytes"
	_ "embed"
	"maps"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"
)

// dmojChecker is a checker by its name, as the judge has it.
type dmojChecker struct {
	key  string
	name string            // "" for standard
	args map[string]string // of those that are programs here
	// own are what its tests' files say, once it is known how all tests are checked; nil where they say nothing.
	own []string

	program dmojSources // of bridged
}

// dmojProgram judges as those checkers do that the default output validator isn't exactly like.
//
//go:embed programs/dmojcheckers.py
var dmojProgram []byte

// dmojArgs are the checkers that can be imported, and the values that their arguments can have; nil for a number.
var dmojArgs = map[string]map[string][]string{
	"standard":  nil,
	"identical": {"pe_allowed": {"true", "false"}},
	"floats":    {"precision": nil, "error_mode": {"default", "absolute", "relative"}},
	"floatsabs": {"precision": nil},
	"floatsrel": {"precision": nil},
	"sorted":    {"split_on": {"lines", "whitespace"}},
	"unordered": nil,
	"easy":      nil,
	"rstripped": {"filter_new_line": {"true"}},
}

// readDMOJChecker reads a name, or a map of name and args.
func readDMOJChecker(n *yaml.Node, key string) (dmojChecker, error) {
	c := dmojChecker{key: key, args: map[string]string{}}
	args := map[string]*yaml.Node{}
	if n = resolved(n); n.Kind == yaml.ScalarNode {
		c.name = n.Value
	} else {
		m, err := dmojMap(n, key)
		if err != nil {
			return c, err
		}
		for name, node := range m {
			switch name {
			case "name":
				err = dmojValue(node, key+".name", "the name of a checker", &c.name)
			case "args":
				args, err = dmojMap(node, key+".args")
			default:
				err = faultf(dmojFile, joined(key, name), "is not known: want name or args")
			}
			if err != nil {
				return c, err
			}
		}
	}
	if c.name == "bridged" {
		var err error
		c.program, err = readDMOJSources(args, key+".args", "a bridged checker", testlibType)
		return c, err
	}
	allowed, known := dmojArgs[c.name]
	if !known {
		names := slices.Sorted(maps.Keys(dmojArgs))
		return c, faultf(dmojFile, key, "checker %s can't be imported: want one of %v, or bridged with type testlib; write any other as an output validator of the package", clip(c.name), names)
	}
	for name, node := range args {
		at := joined(key+".args", name)
		values, known := allowed[name]
		if !known {
			return c, faultf(dmojFile, at, "is not known for the checker %s", c.name)
		}
		value := node.Value
		if values == nil {
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 || n > 300 || node.Kind != yaml.ScalarNode {
				return c, faultf(dmojFile, at, "want a whole number from 0 to 300 (got %s)", clip(value))
			}
		} else if node.Tag == "!!bool" {
			var b bool
			if err := dmojValue(node, at, "true or false", &b); err != nil {
				return c, err
			}
			value = strconv.FormatBool(b)
		}
		if values != nil && !slices.Contains(values, value) {
			return c, faultf(dmojFile, at, "want one of %v (got %s)", values, clip(value))
		}
		c.args[name] = value
	}
	delete(c.args, "pe_allowed") // it is about a message
	return c, nil
}

// words are the arguments of dmojProgram that stand for the checker.
func (c dmojChecker) words() []string {
	name := c.name
	if name == "" {
		name = "standard"
	}
	words := []string{name}
	for _, arg := range slices.Sorted(maps.Keys(c.args)) {
		words = append(words, arg+"="+c.args[arg])
	}
	return words
}

// choose decides how the package checks its tests: by the default output validator if that comes to the same in each of
// them, else by a program.
func (d *dmoj) choose() error {
	var cases []*dmojCase
	bridged := 0
	for i := range d.entries {
		for j := range d.entries[i].cases {
			c := &d.entries[i].cases[j]
			cases = append(cases, c)
			if c.checker.name == "bridged" {
				bridged++
			}
		}
	}
	switch {
	case len(cases) == 0:
		return nil // settle says so
	case bridged == len(cases):
		return d.bridge(cases)
	case bridged > 0:
		return faultf(dmojFile, cases[0].key, "some cases have a bridged checker, and others don't: a package has one output validator")
	}
	var flags [][]string
	for _, c := range cases {
		f, same, err := d.flags(c)
		if err != nil {
			return err
		}
		if !same {
			return d.program(cases)
		}
		flags = append(flags, f)
	}
	d.checker = flags[0]
	for i, c := range cases {
		if !slices.Equal(flags[i], d.checker) {
			c.checker.own = flags[i]
		}
	}
	return nil
}

// flags are the arguments of the default output validator with which it comes to the same as a case's checker; same is
// false if there are none.
func (d *dmoj) flags(c *dmojCase) (flags []string, same bool, err error) {
	switch c.checker.words()[0] {
	case "identical":
		return []string{"case_sensitive", "space_change_sensitive"}, true, nil
	case "standard": // which line a word is in counts, too, if there is more than one
		answer, err := d.load(c.out)
		if err != nil {
			return nil, false, err
		}
		return []string{"case_sensitive"}, len(bytes.Fields(answer)) <= 1, nil
	}
	return nil, false, nil
}

// program has dmojProgram check all tests.
func (d *dmoj) program(cases []*dmojCase) error {
	d.validator = map[string]data{"validate.py": {made: dmojProgram}}
	d.checker = cases[0].checker.words()
	for _, c := range cases {
		if w := c.checker.words(); !slices.Equal(w, d.checker) {
			c.checker.own = w
		}
	}
	return nil
}

// bridge takes a checker along that is written with testlib.h.
func (d *dmoj) bridge(cases []*dmojCase) error {
	first := cases[0].checker.program
	for _, c := range cases {
		if !slices.Equal(c.checker.program.files, first.files) {
			return faultf(dmojFile, c.key+".checker", "is another program than that of other cases: a package has one output validator")
		}
	}
	files, err := d.sources(first)
	if err != nil {
		return err
	}
	return d.wrap(files, partly)
}
