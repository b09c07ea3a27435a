package convert

import (
	"bytes"
	_ "embed"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// testlibHeader is the library itself, of which each problem has its own version.
const testlibHeader = "testlib.h"

// testlibProgram is the name of testlibWrapper beside a checker's own sources.
const testlibProgram = "glovebox_testlib.cpp"

// testlibWrapper makes an output validator of the format of a checker that is written with testlib.h.
//
//go:embed programs/testlib.cpp
var testlibWrapper []byte

// sourceSuffixes are those of C++, which are compiled together; headerSuffixes are what they include.
var (
	sourceSuffixes = []string{".cc", ".cpp", ".cxx", ".c++", ".C"}
	headerSuffixes = []string{".h", ".hh", ".hpp", ".hxx", ".inc"}
)

// The scripts of an output validator that is two programs: an interactor, with testlibWrapper, and a checker. Nothing of a
// problem is in them.
var (
	//go:embed programs/build.sh
	buildScript []byte
	//go:embed programs/run.sh
	runScript []byte
)

// twoPrograms are the files of such a validator, by the names that the scripts know.
func twoPrograms(interactor, checker data) map[string]data {
	return map[string]data{
		"interactor.cpp": interactor, "checker.cpp": checker,
		"build": {made: buildScript, script: true}, "run": {made: runScript, script: true},
	}
}

// What a checker of testlib may say of an output: right or wrong, or that it gives a part of the points, too; or a part that is as
// good as right, as a sample gives no points.
const (
	wholly = "whole"
	partly = "part"
	atAll  = "some"
)

// How testlibWrapper calls a program that is no checker.
const (
	interacts        = "interactor" // as testlib's interactors are called
	thenChecks       = "checker"    // behind interacts: a checker judges what the interactor has written down
	interactsPlainly = "plain"      // as DMOJ's interactors are called that are of no library
)

// wrap has a program that is written with testlib.h judge all tests, in the mode wholly or partly: a checker, unless how says
// otherwise.
func (p *problem) wrap(files map[string]data, mode string, how ...string) error {
	sources := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if files[name].files == nil {
			continue
		}
		content, err := p.read(files[name].files, files[name].path, maxProgram)
		if errors.Is(err, fs.ErrNotExist) {
			return faultf(files[name].path, "", "is missing: a file of the checker")
		}
		if err != nil {
			return err
		}
		if slices.Contains(sourceSuffixes, path.Ext(name)) {
			sources++
		}
		if _, there := files[testlibHeader]; !there && bytes.Contains(content, []byte(testlibHeader)) {
			return faultf(files[name].path, "", "includes testlib.h, which is not in the problem: put it beside %s", p.described())
		}
	}
	if sources == 0 {
		key := "checker"
		if p.interactive {
			key = "interactive.files"
		}
		return faultf(p.described(), key, "has no source in C++ (%s)", strings.Join(slices.Sorted(maps.Keys(files)), ", "))
	}
	files[testlibProgram] = data{made: testlibWrapper}
	p.validator, p.checker = files, append([]string{mode}, how...)
	for i, t := range p.samples {
		if t.checker != nil {
			p.samples[i].checker = slices.Concat(t.checker, how)
		}
	}
	for i, g := range p.groups {
		if g.checker != nil {
			p.groups[i].checker = slices.Concat(g.checker, how)
		}
	}
	return nil
}
