package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/glovebox-run/glovebox/job"
)

const (
	fromDMOJ = "DMOJ"
	dmojFile = "init.yml"
)

// dmoj reads an init.yml: https://docs.dmoj.ca/#/problem_format/problem_format
type dmoj struct {
	*problem
	archive fs.FS // nil: it has none
	entries []dmojEntry
	points  float64 // of an entry that says nothing
	// interactor is the program that talks to submissions; nil: they read their input.
	interactor *dmojSources
}

// dmojEntry is one of test_cases: a case, or a batch, of which all or nothing counts.
type dmojEntry struct {
	key     string
	batch   int // its number; 0 for a case
	points  float64
	depends []int // numbers of batches
	cases   []dmojCase
}

type dmojCase struct {
	key     string
	in, out data
	checker dmojChecker
}

// dmojSettings are those that a batch or a case takes from what is around it.
type dmojSettings struct {
	points  float64
	checker dmojChecker
	binary  bool // line ends are left as they are
}

// dmojRefused are keys that decide verdicts and have no counterpart, with what to do about it.
var dmojRefused = map[string]string{
	"custom_judge":     "is a grader in Python that runs inside the judge: write an output validator for the package",
	"grader":           "is a grader in Python that runs inside the judge: write an output validator for the package",
	"interactive":      "is for the whole problem: want it outside of test_cases",
	"signature_grader": "compiles a grader with each submission: put its files into include/cpp/ of a package",
	"generator":        "makes tests by a program: run it, put what it makes into files, and name these by in and out",
	"generator_args":   "makes tests by a program: run it, put what it makes into files, and name these by in and out",
	"file_io":          "has programs read and write files of their own: what is graded reads its standard input",
	"io_redirects":     "has programs read and write files of their own: what is graded reads its standard input",
	"symlinks":         "puts files beside the program: that is not supported",
}

// dmojPassedOver are keys that no verdict depends on: feedback, how tests are scheduled.
var dmojPassedOver = []string{"output_prefix_length", "wall_time_factor", "unbuffered", "hints", "short_circuit"}

// readDMOJ reads the problem.
func (p *problem) readDMOJ() error {
	p.from = fromDMOJ
	text, err := p.read(p.FS, dmojFile, maxDescription)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return faultf(dmojFile, "", "is no YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	root, err := dmojMap(&doc, "")
	if err != nil {
		return err
	}
	d := &dmoj{problem: p}
	if err := d.readRoot(root); err != nil {
		return err
	}
	if d.interactor != nil {
		err = d.talk()
	} else {
		err = d.choose()
	}
	if err != nil {
		return err
	}
	d.group()
	return nil
}

func (d *dmoj) readRoot(root map[string]*yaml.Node) error {
	if name := root["archive"]; name != nil {
		var path string
		if err := dmojValue(name, "archive", "the path of a zip archive", &path); err != nil {
			return err
		}
		if err := checkPath(dmojFile, "archive", path); err != nil {
			return err
		}
		files, closer, err := d.source.archive(path)
		if errors.Is(err, fs.ErrNotExist) {
			return faultf(dmojFile, "archive", "there is no %s", clip(path))
		}
		if err != nil {
			return err
		}
		d.archive = files
		d.archives = append(d.archives, closer)
	}
	if interactor := root["interactive"]; interactor != nil {
		if err := d.readInteractor(interactor); err != nil {
			return err
		}
		if root["checker"] != nil {
			d.warnf("the checker is left out: the interactor decides")
		}
		delete(root, "interactive")
	}
	if limit := root["output_limit_length"]; limit != nil {
		var bytes int64
		if err := dmojValue(limit, "output_limit_length", "a number of bytes", &bytes); err != nil {
			return err
		}
		most := int64(1) << 40
		if d.interactor != nil {
			most = job.MaxDialogBytes
		}
		if bytes < 1 || bytes > most {
			return faultf(dmojFile, "output_limit_length", "want a number of bytes from 1 to %d (got %d)", most, bytes)
		}
		d.outputMB = (bytes + 1<<20 - 1) >> 20
	}
	s, err := d.settings(root, "", dmojSettings{points: 1}, "archive", "test_cases", "pretest_test_cases", "output_limit_length")
	if err != nil {
		return err
	}
	d.points = s.points
	pretests, err := d.list(root["pretest_test_cases"], "pretest_test_cases", s)
	if err != nil {
		return err
	}
	for i := range pretests { // one that is not passed ends it all
		pretests[i].points = 0
	}
	cases := root["test_cases"]
	var entries []dmojEntry
	if cases != nil && resolved(cases).Kind == yaml.SequenceNode {
		entries, err = d.list(cases, "test_cases", s)
	} else {
		entries, err = d.matched(cases, s)
	}
	if err != nil {
		return err
	}
	if err := numberBatches(entries, pretests); err != nil {
		return err
	}
	d.entries = slices.Concat(pretests, entries)
	return nil
}

// numberBatches gives batches their numbers. The judge counts those of test_cases first.
func numberBatches(lists ...[]dmojEntry) error {
	n := 0
	for _, entries := range lists {
		for i := range entries {
			e := &entries[i]
			if e.batch == 0 {
				continue
			}
			n++
			e.batch = n
			for _, number := range e.depends {
				if number < 1 || number >= n {
					return faultf(dmojFile, e.key+".dependencies", "want numbers of batches before this one, from 1 to %d (got %d)", n-1, number)
				}
			}
		}
	}
	return nil
}

// settings reads what can stand at the root, a batch, and a case. known are further keys that may be there.
func (d *dmoj) settings(m map[string]*yaml.Node, key string, s dmojSettings, known ...string) (dmojSettings, error) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		node, at := m[name], joined(key, name)
		var err error
		switch {
		case name == "points":
			var points float64
			err = dmojValue(node, at, "a number", &points)
			if err == nil && !(points >= 0 && points <= job.MaxPoints) {
				err = faultf(dmojFile, at, "want a number from 0 to %g (got %g)", float64(job.MaxPoints), points)
			}
			s.points = points
		case name == "binary_data":
			err = dmojValue(node, at, "true or false", &s.binary)
		case name == "checker" && d.interactor != nil: // no verdict depends on it
		case name == "checker":
			s.checker, err = readDMOJChecker(node, at)
		case dmojRefused[name] != "":
			err = faultf(dmojFile, at, "%s", dmojRefused[name])
		case slices.Contains(dmojPassedOver, name), slices.Contains(known, name):
		case strings.HasSuffix(name, "+"), strings.HasSuffix(name, "++"), strings.HasSuffix(name, "{}"):
			err = faultf(dmojFile, at, "is computed by Python in the judge: write down what it comes to")
		default:
			err = faultf(dmojFile, at, "is not known: take it out if no verdict depends on it")
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// list reads a list of cases and batches; nothing for one that is not there.
func (d *dmoj) list(n *yaml.Node, key string, around dmojSettings) ([]dmojEntry, error) {
	if n == nil {
		return nil, nil
	}
	nodes, err := dmojList(n, key)
	if err != nil {
		return nil, err
	}
	var entries []dmojEntry
	for i, node := range nodes {
		e, err := d.entry(node, fmt.Sprintf("%s[%d]", key, i), around)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (d *dmoj) entry(n *yaml.Node, key string, around dmojSettings) (dmojEntry, error) {
	e := dmojEntry{key: key}
	m, err := dmojMap(n, key)
	if err != nil {
		return e, err
	}
	batched := m["batched"]
	if batched == nil {
		c, s, err := d.readCase(m, key, around)
		e.points, e.cases = s.points, []dmojCase{c}
		return e, err
	}
	s, err := d.settings(m, key, around, "batched", "dependencies")
	if err != nil {
		return e, err
	}
	e.batch, e.points = 1, s.points // its number comes later
	if depends := m["dependencies"]; depends != nil {
		if err := dmojValue(depends, key+".dependencies", "a list of numbers of batches", &e.depends); err != nil {
			return e, err
		}
	}
	nodes, err := dmojList(batched, key+".batched")
	if err != nil {
		return e, err
	}
	for i, node := range nodes {
		at := fmt.Sprintf("%s.batched[%d]", key, i)
		m, err := dmojMap(node, at)
		if err != nil {
			return e, err
		}
		c, _, err := d.readCase(m, at, s)
		if err != nil {
			return e, err
		}
		e.cases = append(e.cases, c)
	}
	if len(e.cases) == 0 {
		return e, faultf(dmojFile, key+".batched", "has no cases")
	}
	return e, nil
}

func (d *dmoj) readCase(m map[string]*yaml.Node, key string, around dmojSettings) (dmojCase, dmojSettings, error) {
	c := dmojCase{key: key}
	s, err := d.settings(m, key, around, "in", "out")
	if err != nil {
		return c, s, err
	}
	c.checker = s.checker
	if m["out"] == nil && d.interactor == nil {
		return c, s, faultf(dmojFile, key+".out", "is missing: the path of the answer")
	}
	for name, into := range map[string]*data{"in": &c.in, "out": &c.out} {
		if m[name] == nil { // without a file it is empty
			continue
		}
		var path string
		if err := dmojValue(m[name], joined(key, name), "a path", &path); err != nil {
			return c, s, err
		}
		if *into, err = d.find(path, joined(key, name), s.binary); err != nil {
			return c, s, err
		}
	}
	return c, s, nil
}

// find finds a file as the judge does: beside init.yml, or else in the archive.
func (d *dmoj) find(path, key string, binary bool) (data, error) {
	if err := checkPath(dmojFile, key, path); err != nil {
		return data{}, err
	}
	there, err := d.exists(path)
	if err != nil {
		return data{}, err
	}
	if there {
		return data{files: d.FS, path: path, text: !binary}, nil
	}
	if d.archive != nil {
		if info, err := fs.Stat(d.archive, path); err == nil && info.Mode().IsRegular() {
			return data{files: d.archive, path: path, text: !binary}, nil
		}
	}
	return data{}, faultf(dmojFile, key, "there is no file %s, neither beside init.yml nor in an archive that it names", clip(path))
}

// group makes a group of each entry. One that gives no points has to be passed for all that come after it.
func (d *dmoj) group() {
	at := map[int]int{} // of batches, by number
	var needed []int
	for i, e := range d.entries {
		g := group{points: e.points, how: "pass-fail", requires: slices.Clone(needed)}
		if d.validator[testlibProgram].made != nil { // it may give a part of the points: the least of a batch
			g.how = "min"
		}
		for _, number := range e.depends {
			if j, ok := at[number]; ok && !slices.Contains(g.requires, j) {
				g.requires = append(g.requires, j)
			}
		}
		slices.Sort(g.requires)
		if e.batch > 0 {
			at[e.batch] = i
		}
		if e.points == 0 {
			needed = append(needed, i)
		}
		for _, c := range e.cases {
			g.tests = append(g.tests, test{input: c.in, answer: c.out, checker: c.checker.own})
		}
		d.groups = append(d.groups, g)
	}
}
