package kattis

import (
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// dataset is what data/ has: a tree of folders.
type dataset struct{ root *folder }

// folder is one of data/, with its tests and folders in the order of their names.
type folder struct {
	path     string // relative to data/: "secret/g1"; "" for data/ itself
	children []any  // *testCase or *folder
	config   config
}

// testCase is a test, and what its own file says.
type testCase struct {
	Test
	flags []string // of the output validator; nil: those of its folder
	given bool     // flags are
	where string   // they come from
}

// data reads data/sample and data/secret.
func (r *reader) data(p *Problem) (dataset, error) {
	root := &folder{}
	var err error
	if root.config, err = r.config(p, "data"); err != nil {
		return dataset{}, err
	}
	for _, name := range []string{"sample", "secret"} {
		there, err := r.exists("data/" + name)
		if err != nil {
			return dataset{}, err
		}
		if !there {
			continue
		}
		f, err := r.folder(p, name, root)
		if err != nil {
			return dataset{}, err
		}
		root.children = append(root.children, f)
	}
	return dataset{root}, nil
}

func (r *reader) folder(p *Problem, at string, in *folder) (*folder, error) {
	f := &folder{path: at}
	var err error
	if f.config, err = r.config(p, "data/"+at); err != nil {
		return nil, err
	}
	f.config.inherit(in.config)
	all, err := r.list("data/" + at)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, e := range all {
		names[e.name] = true
	}
	for _, e := range all {
		base, isTest := strings.CutSuffix(e.name, ".in")
		switch {
		case e.dir && strings.HasSuffix(e.name, ".files") && names[strings.TrimSuffix(e.name, ".files")+".in"]:
			return nil, unsupported(e.path, "", "files beside a test's input are")
		case e.dir:
			inner, err := r.folder(p, at+"/"+e.name, f)
			if err != nil {
				return nil, err
			}
			if len(inner.children) > 0 {
				f.children = append(f.children, inner)
			}
		case isTest && base != "":
			c, err := r.testCase(f, all, e, base)
			if err != nil {
				return nil, err
			}
			f.children = append(f.children, c)
		}
	}
	// A test is called without .in: "a-1" comes before "a", by its file's name.
	slices.SortStableFunc(f.children, func(a, b any) int { return strings.Compare(nameIn(a), nameIn(b)) })
	return f, nil
}

func nameIn(child any) string {
	if c, ok := child.(*testCase); ok {
		return c.Name
	}
	return child.(*folder).path
}

func (r *reader) testCase(in *folder, all []entry, input entry, base string) (*testCase, error) {
	c := &testCase{
		Test:  Test{Name: in.path + "/" + base, Group: in.path, Input: Data{input.path, input.size}, Args: in.config.args, Hidden: !in.config.fullFeedback(in.path)},
		flags: in.config.flags, given: in.config.flagsFrom != "", where: in.config.flagsFrom,
	}
	if input.size > maxTestData {
		return nil, faultf(input.path, "", "is larger than %d bytes", maxTestData)
	}
	answer := slices.IndexFunc(all, func(e entry) bool { return !e.dir && e.name == base+".ans" })
	if answer < 0 {
		return nil, faultf(input.path, "", "has no answer: %s.ans is missing", base)
	}
	if all[answer].size > maxTestData {
		return nil, faultf(all[answer].path, "", "is larger than %d bytes", maxTestData)
	}
	c.Answer = Data{all[answer].path, all[answer].size}
	beside := func(suffix string) string {
		i := slices.IndexFunc(all, func(e entry) bool { return !e.dir && e.name == base+suffix })
		if i < 0 {
			return ""
		}
		return all[i].path
	}
	if at := beside(".hint"); at != "" { // legacy
		hint, _, err := r.read(at, job.MaxHintBytes)
		if err != nil {
			return nil, err
		}
		c.Hint = strings.TrimSpace(string(hint))
	}
	if at := beside(".yaml"); at != "" {
		if err := r.caseConfig(c, at); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// caseConfig reads X.yaml of 2025-09.
func (r *reader) caseConfig(c *testCase, at string) error {
	root, err := r.yaml(at)
	if err != nil {
		return err
	}
	all, err := root.fields()
	if err != nil {
		return err
	}
	for _, f := range all {
		switch f.name {
		case "args":
			c.Args, err = f.words()
		case "output_validator_args":
			c.flags, err = f.words()
			c.given, c.where = true, at
		case "full_feedback":
			var full bool
			full, err = f.boolean(!c.Hidden)
			c.Hidden = !full
		case "hint":
			c.Hint, err = f.text()
		case "description", "input_validator_args", "input_visualizer_args", "output_visualizer_args":
		default:
			err = f.fault("there is no such key")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// walk visits the folders below f, each before those in it.
func (f *folder) walk(visit func(*folder)) {
	visit(f)
	for _, c := range f.children {
		if inner, ok := c.(*folder); ok {
			inner.walk(visit)
		}
	}
}

// count counts the tests of a folder, those in its folders too.
func (f *folder) count() (n int) {
	f.walk(func(f *folder) {
		for _, c := range f.children {
			if _, ok := c.(*testCase); ok {
				n++
			}
		}
	})
	return n
}

// validatedTests lists the tests in their order, each with its arguments for the package's own validator.
func (d dataset) validatedTests() (tests []Test) {
	d.root.each(func(c *testCase) {
		c.CheckerArgs = c.flags
		tests = append(tests, c.Test)
	})
	return tests
}

// each visits the tests below f, in their order.
func (f *folder) each(visit func(*testCase)) {
	for _, child := range f.children {
		if c, isTest := child.(*testCase); isTest {
			visit(c)
		} else {
			child.(*folder).each(visit)
		}
	}
}

// tests lists the tests in their order, and the default checker. Where its arguments are not the same ones in all
// tests, each has its own. flags are those of problem.yaml, which come first.
func (d dataset) tests(flags []string) (tests []Test, checker job.Checker, err error) {
	var cases []*testCase
	d.root.each(func(c *testCase) { cases = append(cases, c) })
	differ := slices.ContainsFunc(cases, func(c *testCase) bool { return !slices.Equal(c.flags, cases[0].flags) })
	checker = job.Checker{Kind: job.CheckDefault, Args: flags}
	if !differ && len(cases) > 0 {
		checker.Args = slices.Concat(flags, cases[0].flags)
	}
	for i, c := range cases {
		if i == 0 || !slices.Equal(c.flags, cases[i-1].flags) {
			if err := c.checkFlags(flags); err != nil {
				return nil, checker, err
			}
		}
		if differ {
			c.CheckerArgs = c.flags
		}
		tests = append(tests, c.Test)
	}
	return tests, checker, nil
}

// checkFlags checks what the default checker is told in a test, those of problem.yaml first.
func (c *testCase) checkFlags(flags []string) error {
	_, fault := job.Checker{Kind: job.CheckDefault, Args: slices.Concat(flags, c.flags)}.Options()
	if fault == nil {
		return nil
	}
	where := problemFile
	if c.given {
		where = c.where
	}
	return faultf(where, "arguments of the output validator", "%s", strings.TrimPrefix(fault.Error(), fault.Field+": "))
}
