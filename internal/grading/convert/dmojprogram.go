package convert

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// The types of programs in C++ that the judge calls: what their arguments are, and what their exit codes mean.
const (
	testlibType = "testlib"
	defaultType = "default" // the one that is meant where none is named
)

// dmojSources is a program that comes with the problem: a bridged checker, or an interactor.
type dmojSources struct {
	key   string
	typ   string
	files []string
}

// dmojProgramPassedOver are keys of a program that no verdict depends on: how long it may take, and what is shown of it.
var dmojProgramPassedOver = []string{"time_limit", "preprocessing_time", "memory_limit", "compiler_time_limit", "feedback", "cached", "unbuffered"}

// readDMOJSources reads such a program of one of these types. what is the word for it, with its article.
func readDMOJSources(m map[string]*yaml.Node, key, what string, types ...string) (dmojSources, error) {
	p := dmojSources{key: key, typ: defaultType}
	lang := ""
	for name, node := range m {
		at := joined(key, name)
		var err error
		switch {
		case name == "type":
			err = dmojValue(node, at, "the type of a program, a word", &p.typ)
		case name == "lang":
			err = dmojValue(node, at, "a language", &lang)
		case name == "files" && node.Kind == yaml.ScalarNode:
			p.files = []string{node.Value}
		case name == "files":
			err = dmojValue(node, at, "a path, or a list of paths", &p.files)
		case slices.Contains(dmojProgramPassedOver, name):
		default:
			err = faultf(dmojFile, at, "can't be imported for %s: want files, lang or type", what)
		}
		if err != nil {
			return p, err
		}
	}
	if !slices.Contains(types, p.typ) {
		return p, faultf(dmojFile, joined(key, "type"), "want %s for %s; other types are not imported (got %s)", strings.Join(types, " or "), what, clip(p.typ))
	}
	if len(p.files) == 0 {
		return p, faultf(dmojFile, joined(key, "files"), "is missing: want the sources of %s, a path or a list of paths", what)
	}
	if most := 100; len(p.files) > most {
		return p, faultf(dmojFile, joined(key, "files"), "has %d entries; up to %d are read", len(p.files), most)
	}
	if lang != "" && !isCPP(lang) {
		return p, faultf(dmojFile, joined(key, "lang"), "want C++, such as CPP17, for %s; other languages are not imported (got %s)", what, clip(lang))
	}
	return p, nil
}

func isCPP(lang string) bool {
	return slices.Contains([]string{"CPP", "CPP03", "CPP11", "CPP14", "CPP17", "CPP20", "CPP23"}, lang)
}

// sources finds a program's files, by the names that they get in the package.
func (d *dmoj) sources(p dmojSources) (map[string]data, error) {
	files := map[string]data{}
	for i, source := range p.files {
		at := fmt.Sprintf("%s.files[%d]", p.key, i)
		found, err := d.find(source, at, true)
		if err != nil {
			return nil, err
		}
		if suffixes := slices.Concat(sourceSuffixes, headerSuffixes); !slices.Contains(suffixes, path.Ext(source)) {
			return nil, faultf(dmojFile, at, "want a source or a header in C++, with one of %s at its end (got %s)", strings.Join(suffixes, " "), clip(source))
		}
		files[path.Base(source)] = found
	}
	if there, err := d.exists(testlibHeader); err != nil {
		return nil, err
	} else if there && files[testlibHeader].files == nil {
		files[testlibHeader] = data{files: d.FS, path: testlibHeader}
	}
	return files, nil
}

// readInteractor reads the program that talks to submissions. It decides alone: the judge asks no checker then.
func (d *dmoj) readInteractor(n *yaml.Node) error {
	const key = "interactive"
	m, err := dmojMap(n, key)
	if err != nil {
		return err
	}
	program, err := readDMOJSources(m, key, "an interactor", testlibType, defaultType)
	if err != nil {
		return err
	}
	d.interactor = &program
	return nil
}

// talk takes the interactor along.
func (d *dmoj) talk() error {
	files, err := d.sources(*d.interactor)
	if err != nil {
		return err
	}
	d.interactive = true
	how := interacts
	if d.interactor.typ == defaultType {
		how = interactsPlainly
	}
	return d.wrap(files, partly, how)
}
