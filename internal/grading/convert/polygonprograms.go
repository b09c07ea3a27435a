package convert

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// polygonChecker takes the checker along, with the headers that it may include.
func (p *problem) polygonChecker(x polygonXML) error {
	const at = "assets.checker"
	if len(x.Checkers) != 1 {
		return faultf(polygonFile, at, "want one (got %d)", len(x.Checkers))
	}
	c := x.Checkers[0]
	if c.Type != "testlib" || !strings.HasPrefix(c.Source.Type, "cpp") {
		return faultf(polygonFile, at, "want a checker of testlib in C++ (got type %s, source %s)", clip(c.Type), clip(c.Source.Type))
	}
	source, err := p.polygonFound(c.Source.Path, at+".source.path")
	if err != nil {
		return err
	}
	files, how := map[string]data{path.Base(c.Source.Path): source}, []string(nil)
	if len(x.Interactors) > 0 {
		interactor, err := p.polygonInteractor(x)
		if err != nil {
			return err
		}
		files = twoPrograms(interactor, source)
		how, p.interactive = []string{interacts, thenChecks}, true
	}
	for _, where := range []string{testlibHeader, "files/" + testlibHeader} { // packages don't always name it
		there, err := p.exists(where)
		if err != nil {
			return err
		}
		if there {
			files[testlibHeader] = data{files: p.FS, path: where}
		}
	}
	for i, r := range x.Resources {
		if !slices.Contains(headerSuffixes, path.Ext(r.Path)) {
			continue
		}
		if files[path.Base(r.Path)], err = p.polygonFound(r.Path, fmt.Sprintf("files.resources[%d].path", i)); err != nil {
			return err
		}
	}
	return p.wrap(files, wholly, how...)
}

// polygonInteractor finds the program that talks to submissions. The checker judges what it has written down.
func (p *problem) polygonInteractor(x polygonXML) (data, error) {
	const at = "assets.interactor"
	if len(x.Interactors) != 1 {
		return data{}, faultf(polygonFile, at, "want one at most (got %d)", len(x.Interactors))
	}
	i := x.Interactors[0]
	if len(i.Runs) > 1 || len(i.Runs) == 1 && strings.TrimSpace(i.Runs[0]) != "1" {
		return data{}, faultf(polygonFile, at+".runs", "want the run 1 alone: problems whose programs are run more than once are not imported (got %s)", clip(strings.Join(i.Runs, ", ")))
	}
	if !strings.HasPrefix(i.Source.Type, "cpp") {
		return data{}, faultf(polygonFile, at+".source.type", "want an interactor of testlib in C++, such as cpp.g++17 (got %s)", clip(i.Source.Type))
	}
	return p.polygonFound(i.Source.Path, at+".source.path")
}

// included are the folders of include/ for the types of sources that a resource is for.
var included = map[string]string{"c": "c", "cpp": "cpp", "java": "java", "java8": "java", "python": "python3", "pas": "pascal"}

// polygonResources takes along what is compiled with submissions.
func (p *problem) polygonResources(resources []polygonResource) error {
	for i, r := range resources {
		at := fmt.Sprintf("files.resources[%d]", i)
		for _, a := range r.Assets {
			if a.Name != "SOLUTION" {
				continue
			}
			for types := range strings.SplitSeq(r.ForTypes, ";") {
				language, _, _ := strings.Cut(strings.TrimSpace(types), ".")
				folder := included[language]
				if folder == "" {
					return faultf(polygonFile, at+".for-types", "want types that begin with c, cpp, java, pas or python, for files that submissions are compiled with (got %s)", clip(r.ForTypes))
				}
				file, err := p.polygonFound(r.Path, at+".path")
				if err != nil {
					return err
				}
				if err := p.lookedAt(file); err != nil {
					return err
				}
				if p.includes == nil {
					p.includes = map[string]data{}
				}
				p.includes[folder+"/"+named(r.Path)] = file
			}
		}
	}
	return nil
}

// polygonTags are where solutions go, by what is expected of them. The format has no word for memory: it is as a crash.
var polygonTags = map[string]string{
	"main":                      "accepted",
	"accepted":                  "accepted",
	"wrong-answer":              "wrong_answer",
	"presentation-error":        "wrong_answer",
	"time-limit-exceeded":       "time_limit_exceeded",
	"memory-limit-exceeded":     "run_time_error",
	"rejected":                  "rejected",
	"failed":                    "rejected",
	timeLimitExceededOrAccepted: "time_limit_exceeded_or_accepted",
	"time-limit-exceeded-or-memory-limit-exceeded": "brute_force",
}

const timeLimitExceededOrAccepted = "time-limit-exceeded-or-accepted"

// polygonSolutions takes the solutions along. Nobody's verdict depends on them, so one that can't be used is left out.
func (p *problem) polygonSolutions(x polygonXML) error {
	p.programs = map[string]data{}
	for i, s := range x.Solutions {
		folder := polygonTags[s.Tag]
		if folder == "" {
			p.warnf("solution %s is left out: the tag %s expects nothing that can be checked", clip(s.Source.Path), clip(s.Tag))
			continue
		}
		if strings.HasPrefix(s.Source.Type, "python.2") {
			p.warnf("solution %s is left out: it is in Python 2", clip(s.Source.Path))
			continue
		}
		file, err := p.polygonFound(s.Source.Path, fmt.Sprintf("assets.solutions[%d].source.path", i))
		if err != nil {
			return err
		}
		if err := p.lookedAt(file); err != nil {
			return err
		}
		name := folder + "/" + named(s.Source.Path)
		if _, taken := p.programs[name]; taken {
			name = fmt.Sprintf("%s/%d_%s", folder, i, named(s.Source.Path))
		}
		p.programs[name] = file
		if s.Tag == timeLimitExceededOrAccepted {
			p.permitted = map[string][]string{folder: {"AC", "TLE"}}
		}
	}
	return nil
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_.-]`)

// named is the name of a file, as the format has names.
func named(at string) string {
	name := notInNames.ReplaceAllString(path.Base(at), "_")
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") {
		name = "_" + name
	}
	return name
}
