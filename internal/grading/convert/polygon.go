package convert

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

const (
	fromPolygon = "Polygon"
	polygonFile = "problem.xml"
)

// polygonXML is problem.xml, as far as verdicts depend on it. What is not here is about statements, or how the problem was made.
type polygonXML struct {
	XMLName   xml.Name `xml:"problem"`
	ShortName string   `xml:"short-name,attr"`
	Names     []struct {
		Language string `xml:"language,attr"`
		Value    string `xml:"value,attr"`
	} `xml:"names>name"`
	Judging struct {
		InputFile  string           `xml:"input-file,attr"`
		OutputFile string           `xml:"output-file,attr"`
		RunCount   string           `xml:"run-count,attr"`
		Testsets   []polygonTestset `xml:"testset"`
	} `xml:"judging"`
	Resources []polygonResource `xml:"files>resources>file"`
	Checkers  []struct {
		Type   string         `xml:"type,attr"`
		Source polygonFileRef `xml:"source"`
	} `xml:"assets>checker"`
	Interactors []struct {
		Source polygonFileRef `xml:"source"`
		Runs   []string       `xml:"runs>run"`
	} `xml:"assets>interactor"`
	Scorers    []struct{} `xml:"assets>scorer"`
	Strategies []struct{} `xml:"assets>strategy"`
	Solutions  []struct {
		Tag    string         `xml:"tag,attr"`
		Source polygonFileRef `xml:"source"`
	} `xml:"assets>solutions>solution"`
}

type polygonFileRef struct {
	Path string `xml:"path,attr"`
	Type string `xml:"type,attr"`
}

type polygonResource struct {
	polygonFileRef
	ForTypes string `xml:"for-types,attr"`
	Assets   []struct {
		Name string `xml:"name,attr"`
	} `xml:"assets>asset"`
}

type polygonTestset struct {
	Name          string         `xml:"name,attr"`
	TimeLimit     string         `xml:"time-limit"`
	MemoryLimit   string         `xml:"memory-limit"`
	InputPattern  string         `xml:"input-path-pattern"`
	AnswerPattern string         `xml:"answer-path-pattern"`
	Tests         []polygonTest  `xml:"tests>test"`
	Groups        []polygonGroup `xml:"groups>group"`
}

type polygonTest struct {
	Command string `xml:"cmd,attr"`
	Sample  string `xml:"sample,attr"`
	Points  string `xml:"points,attr"`
	Group   string `xml:"group,attr"`

	number int // from 1
	points float64
	test
}

// readPolygon reads the problem.
func (p *problem) readPolygon() error {
	p.from = fromPolygon
	text, err := p.read(p.FS, polygonFile, maxDescription)
	if err != nil {
		return err
	}
	var x polygonXML
	if err := xml.Unmarshal(text, &x); err != nil { // which knows no entities but those of XML itself
		return faultf(polygonFile, "", "is no description of a problem: %s", err)
	}
	if x.Judging.InputFile != "" || x.Judging.OutputFile != "" {
		return faultf(polygonFile, "judging", "has programs read and write files of their own (input-file, output-file): want both empty, for standard input and output")
	}
	if n := x.Judging.RunCount; n != "" && n != "1" {
		return faultf(polygonFile, "judging.run-count", "want 1: problems whose programs are run more than once are not imported (got %s)", clip(n))
	}
	if len(x.Scorers) > 0 {
		return faultf(polygonFile, "assets.scorer", "programs that add up points are not imported: give points to tests and groups")
	}
	if len(x.Strategies) > 0 {
		return faultf(polygonFile, "assets.strategy", "programs that say in which order others are run are not imported")
	}
	p.name = polygonName(x, p.name)
	set, err := p.polygonTestset(x.Judging.Testsets)
	if err != nil {
		return err
	}
	if err := p.polygonTests(set); err != nil {
		return err
	}
	if err := p.polygonGroups(set); err != nil {
		return err
	}
	if err := p.polygonChecker(x); err != nil {
		return err
	}
	if err := p.polygonResources(x.Resources); err != nil {
		return err
	}
	return p.polygonSolutions(x)
}

func polygonName(x polygonXML, otherwise string) string {
	name := x.ShortName
	if len(x.Names) > 0 {
		name = x.Names[0].Value
	}
	for _, n := range x.Names {
		if n.Language == "english" {
			name = n.Value
		}
	}
	if name == "" {
		return otherwise
	}
	return job.Clip(name, 200)
}

// polygonTestset chooses the tests that count, and reads their limits.
func (p *problem) polygonTestset(sets []polygonTestset) (*polygonTestset, error) {
	var set *polygonTestset
	for i := range sets {
		if sets[i].Name == "tests" || len(sets) == 1 {
			set = &sets[i]
		} else {
			p.warnf("the testset %s is left out: submissions are judged by the one called tests", clip(sets[i].Name))
		}
	}
	if set == nil {
		return nil, faultf(polygonFile, "judging.testset", "want one called tests")
	}
	ms, err := polygonNumber(set.TimeLimit, "judging.testset.time-limit", 1, 3600_000)
	if err != nil {
		return nil, err
	}
	bytes, err := polygonNumber(set.MemoryLimit, "judging.testset.memory-limit", 1, MaxMemoryMB<<20)
	if err != nil {
		return nil, err
	}
	p.timeLimit, p.memoryMB = time.Duration(ms)*time.Millisecond, (int64(bytes)+1<<20-1)>>20
	if len(set.Tests) > job.MaxTests {
		return nil, faultf(polygonFile, "judging.testset.tests", "has %d; up to %d are graded", len(set.Tests), job.MaxTests)
	}
	return set, nil
}

// pathPattern is what stands for the paths of tests: a number of at least so many digits in it.
var pathPattern = regexp.MustCompile(`^[^%]*%(0[1-9])?d[^%]*$`)

// polygonTests finds the files of all tests.
func (p *problem) polygonTests(set *polygonTestset) error {
	const at = "judging.testset."
	for key, pattern := range map[string]string{"input-path-pattern": set.InputPattern, "answer-path-pattern": set.AnswerPattern} {
		if !pathPattern.MatchString(pattern) || len(pattern) > 255 {
			return faultf(polygonFile, at+key, "want a path with one number in it, such as tests/%%02d (got %s)", clip(pattern))
		}
	}
	for i := range set.Tests {
		t := &set.Tests[i]
		t.number = i + 1
		if t.Points != "" {
			points, err := polygonNumber(t.Points, fmt.Sprintf("%stests[%d].points", at, i), 0, job.MaxPoints)
			if err != nil {
				return err
			}
			t.points = points
		}
		for key, into := range map[string]*data{"input-path-pattern": &t.input, "answer-path-pattern": &t.answer} {
			pattern := set.InputPattern
			if key == "answer-path-pattern" {
				pattern = set.AnswerPattern
			}
			path := fmt.Sprintf(pattern, t.number)
			if err := checkPath(polygonFile, at+key, path); err != nil {
				return err
			}
			there, err := p.exists(path)
			if err != nil {
				return err
			}
			if !there {
				made := ""
				if t.Command != "" {
					made = fmt.Sprintf(", as it is made by a program (%s)", clip(t.Command))
				}
				return faultf(path, "", "is not in the package%s: take the full package of Polygon, or run its doall.sh first", made)
			}
			*into = data{files: p.FS, path: path}
		}
	}
	return nil
}

func polygonNumber(text, key string, least, most float64) (float64, error) {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(x >= least && x <= most) {
		return 0, faultf(polygonFile, key, "want a number from %g to %g (got %s)", least, most, clip(text))
	}
	return x, nil
}

// polygonFound finds a file that problem.xml names.
func (p *problem) polygonFound(path, key string) (data, error) {
	if err := checkPath(polygonFile, key, path); err != nil {
		return data{}, err
	}
	there, err := p.exists(path)
	if err != nil {
		return data{}, err
	}
	if !there {
		return data{}, faultf(polygonFile, key, "there is no file %s in the package", clip(path))
	}
	return data{files: p.FS, path: path}, nil
}

// lookedAt reads a program of up to so many bytes, so that what is too large is found before anything is written.
func (p *problem) lookedAt(d data) error {
	_, err := p.read(d.files, d.path, maxProgram)
	if errors.Is(err, fs.ErrNotExist) {
		return faultf(d.path, "", "is gone")
	}
	return err
}
