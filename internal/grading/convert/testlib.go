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

// What a checker of testlib may say of an output: right or wrong, or that it gives a part of the points, too.
const (
	wholly = "whole"
	partly = "part"
)

// wrap has a checker of testlib check all tests, in the mode wholly or partly.
func (p *problem) wrap(files map[string]data, mode string) error {
	sources := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
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
		if _, there := files["testlib.h"]; !there && bytes.Contains(content, []byte("testlib.h")) {
			return faultf(files[name].path, "", "includes testlib.h, which is not in the problem: put it beside %s", p.described())
		}
	}
	if sources == 0 {
		return faultf(p.described(), "checker", "has no source in C++ (%s)", strings.Join(slices.Sorted(maps.Keys(files)), ", "))
	}
	files[testlibProgram] = data{made: testlibWrapper}
	p.validator, p.checker = files, []string{mode}
	return nil
}
