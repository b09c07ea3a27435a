package convert

import (
	"archive/zip"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/glovebox-run/glovebox/internal/grading/kattis"
)

var update = flag.Bool("update", false, "write the golden files anew")

// unpack writes the files of an archive of text; those below NAME.zip/ are in an archive of that name.
func unpack(tb testing.TB, text []byte) (dir string) {
	tb.Helper()
	dir = tb.TempDir()
	zips := map[string]*bytes.Buffer{}
	writers := map[string]*zip.Writer{}
	for _, f := range txtar.Parse(text).Files {
		if before, name, ok := strings.Cut(f.Name, ".zip/"); ok {
			before += ".zip"
			if zips[before] == nil {
				zips[before] = &bytes.Buffer{}
				writers[before] = zip.NewWriter(zips[before])
			}
			w, err := writers[before].Create(name)
			if err == nil {
				_, err = w.Write(f.Data)
			}
			if err != nil {
				tb.Fatal(err)
			}
			continue
		}
		put(tb, dir, f.Name, f.Data)
	}
	for name, w := range writers {
		if err := w.Close(); err != nil {
			tb.Fatal(err)
		}
		put(tb, dir, name, zips[name].Bytes())
	}
	return dir
}

func put(tb testing.TB, dir, name string, content []byte) {
	tb.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o666); err != nil {
		tb.Fatal(err)
	}
}

// written is all that an import wrote, as text.
func written(tb testing.TB, dir string) string {
	tb.Helper()
	var out strings.Builder
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		switch {
		case bytes.Equal(content, dmojProgram):
			content = []byte("programs/dmojcheckers.py\n")
		case bytes.Equal(content, testlibWrapper):
			content = []byte("programs/testlib.cpp\n")
		case bytes.Equal(content, buildScript), bytes.Equal(content, runScript):
			info, err := e.Info()
			if err != nil || info.Mode()&0o100 == 0 {
				tb.Errorf("%s can't be executed: %v", path, err)
			}
			content = []byte("programs/" + e.Name() + ".sh\n")
		}
		fmt.Fprintf(&out, "-- %s --\n%s", path, content)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out.String()
}

// TestImport: what is written of each problem in testdata, file by file, and what is warned of.
func TestImport(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(sources) < 6 {
		t.Fatalf("got %v, %v", sources, err)
	}
	for _, path := range sources {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dst := filepath.Join(t.TempDir(), "made")
			report, err := Import(unpack(t, text), dst, Options{Name: "name of the folder"})
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s: %d tests, %d groups, %d submissions\n", report.From, report.Tests, report.Groups, report.Submissions)
			for _, w := range report.Warnings {
				got += "warning: " + w + "\n"
			}
			got += written(t, dst)
			golden := strings.TrimSuffix(path, ".txtar") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestImportOptions: what is given beats what the problem says, an archive is as good as a folder, and nothing that is
// there is overwritten.
func TestImportOptions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/polygon-points.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	if err := w.AddFS(os.DirFS(unpack(t, text))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, dir, "points.zip", packed.Bytes())
	dst := filepath.Join(dir, "made")
	for range 2 {
		_, err = Import(filepath.Join(dir, "points.zip"), dst, Options{TimeLimit: 2500 * time.Millisecond, MemoryMB: 64})
	}
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("into a folder that is there: got %v", err)
	}
	p, closer, err := kattis.Open(dst)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	if p.Limits.Time != 2500*time.Millisecond || p.Limits.MemoryMB != 64 || p.MaxScore() != 100.5 {
		t.Errorf("got %+v, a largest score of %g", p.Limits, p.MaxScore())
	}
}

// smallDMOJ and smallPolygon are problems that can be imported; the cases below change them.
const (
	smallDMOJ = `-- init.yml --
archive: a.zip
test_cases:
- {in: 1.in, out: 1.out, points: 1}
-- a.zip/1.in --
1
-- a.zip/1.out --
1
-- outside.cpp --
`
	smallPolygon = `-- problem.xml --
<problem short-name="a">
<judging input-file="" output-file=""><testset name="tests">
<time-limit>1000</time-limit><memory-limit>1048576</memory-limit>
<input-path-pattern>tests/%02d</input-path-pattern><answer-path-pattern>tests/%02d.a</answer-path-pattern>
<tests><test cmd="gen 1"/></tests></testset></judging>
<assets><checker type="testlib"><source path="check.cpp" type="cpp.g++17"/></checker></assets>
</problem>
-- check.cpp --
#include "testlib.h"
-- testlib.h --
-- tests/01 --
1
-- tests/01.a --
1
`
)

// TestImportRefuses: what can't be imported is an error that names the file and the field, and nothing is left behind.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, old, new, want string }{
		"no problem":          {smallDMOJ, "-- init.yml --", "-- innit.yml --", "init.yml: is not there, nor is problem.xml"},
		"two problems":        {smallDMOJ, "-- outside.cpp --", "-- problem.xml --", "init.yml: is there beside problem.xml"},
		"no YAML":             {smallDMOJ, "archive: a.zip", "archive: [", "init.yml: is no YAML"},
		"a list":              {smallDMOJ, "archive: a.zip\ntest_cases:", "", "init.yml: want a map"},
		"no cases":            {smallDMOJ, "- {in: 1.in, out: 1.out, points: 1}", "  []", "init.yml: has no tests"},
		"unknown key":         {smallDMOJ, "archive:", "grading: best\narchive:", "init.yml: grading: is not known"},
		"key twice":           {smallDMOJ, "archive: a.zip", "archive: a.zip\narchive: b.zip", "init.yml: archive: is there more than once"},
		"Python":              {smallDMOJ, "test_cases:", "test_cases++: |\n  range(3)\ntest_cases:", "is computed by Python"},
		"custom judge":        {smallDMOJ, "archive: a.zip", "archive: a.zip\ncustom_judge: judge.py", "init.yml: custom_judge: is a grader in Python"},
		"no interactor":       {smallDMOJ, "archive: a.zip", "archive: a.zip\ninteractive: {files: x.cpp}", "init.yml: interactive.files[0]: there is no file x.cpp"},
		"interactor's files":  {smallDMOJ, "archive: a.zip", "archive: a.zip\ninteractive: {lang: CPP17}", "init.yml: interactive.files: is missing: want the sources of an interactor"},
		"interactor's list":   {smallDMOJ, "archive: a.zip", "archive: a.zip\ninteractive: [outside.cpp]", "init.yml: interactive: want a map"},
		"interactor's paths":  {smallDMOJ, "archive: a.zip", "archive: a.zip\ninteractive: {files: {a: b}}", "init.yml: interactive.files: want a path, or a list of paths"},
		"many sources":        {smallDMOJ, "archive: a.zip", "archive: a.zip\ninteractive: {files: [" + strings.Repeat("a, ", 101) + "]}", "init.yml: interactive.files: has 101 entries; up to 100 are read"},
		"interactor outside":  {smallDMOJ, "archive: a.zip", "archive: a.zip\ninteractive: {files: ../x.cpp}", "init.yml: interactive.files[0]: want a path inside"},
		"interactor, Python":  {smallDMOJ, "archive: a.zip", "archive: a.zip\ninteractive: {files: outside.cpp, lang: PY3}", "init.yml: interactive.lang: want C++, such as CPP17, for an interactor; other languages are not imported (got PY3)"},
		"interactor, COCI":    {smallDMOJ, "archive: a.zip", "archive: a.zip\ninteractive: {files: outside.cpp, type: coci}", "init.yml: interactive.type: want testlib or default for an interactor; other types are not imported (got coci)"},
		"interactor's words":  {smallDMOJ, "archive: a.zip", "archive: a.zip\ninteractive: {files: outside.cpp, args_format_string: '{answer_file}'}", "init.yml: interactive.args_format_string: can't be imported for an interactor"},
		"interactor, a case":  {smallDMOJ, "points: 1", "points: 1, interactive: {files: outside.cpp}", "init.yml: test_cases[0].interactive: is for the whole problem"},
		"interactor, no C++":  {smallDMOJ, "archive: a.zip", "archive: a.zip\ninteractive: {files: 1.in}", "init.yml: interactive.files[0]: want a source or a header in C++"},
		"interactor, headers": {smallDMOJ + "-- x.h --\n", "archive: a.zip", "archive: a.zip\ninteractive: {files: x.h}", "init.yml: interactive.files: has no source in C++ (x.h)"},
		"a script":            {smallDMOJ + "-- build --\n", "archive: a.zip", "archive: a.zip\ninteractive: {files: [outside.cpp, build]}", "init.yml: interactive.files[1]: want a source or a header in C++"},
		"talks a lot":         {smallDMOJ, "archive: a.zip", "archive: a.zip\ninteractive: {files: outside.cpp}\noutput_limit_length: 8388609", "init.yml: output_limit_length: want a number of bytes from 1 to 8388608 (got 8388609)"},
		"generator":           {smallDMOJ, "points: 1", "points: 1, generator: gen.cpp", "init.yml: test_cases[0].generator: makes tests by a program"},
		"signature":           {smallDMOJ, "archive: a.zip", "archive: a.zip\nsignature_grader: {entry: a.cpp}", "put its files into include/cpp/"},
		"files of its own":    {smallDMOJ, "archive: a.zip", "archive: a.zip\nfile_io: {}", "init.yml: file_io: has programs read"},
		"Python checker":      {smallDMOJ, "archive: a.zip", "archive: a.zip\nchecker: check.py", "init.yml: checker: checker check.py can't be imported"},
		"odd precision":       {smallDMOJ, "points: 1", "points: 1, checker: {name: floats, args: {precision: -3}}", "test_cases[0].checker.args.precision: want a whole number"},
		"odd argument":        {smallDMOJ, "points: 1", "points: 1, checker: {name: standard, args: {x: 1}}", "test_cases[0].checker.args.x: is not known"},
		"bridged COCI":        {smallDMOJ, "points: 1", "points: 1, checker: {name: bridged, args: {files: outside.cpp, type: coci}}", "args.type: want testlib"},
		"bridged nothing":     {smallDMOJ, "points: 1", "points: 1, checker: {name: bridged, args: {files: no.cpp, type: testlib}}", "args.files[0]: there is no file no.cpp"},
		"no archive":          {smallDMOJ, "archive: a.zip", "archive: b.zip", "init.yml: archive: there is no b.zip"},
		"no zip":              {smallDMOJ, "archive: a.zip", "archive: outside.cpp", "outside.cpp: is no zip archive"},
		"archive outside":     {smallDMOJ, "archive: a.zip", "archive: ../a.zip", "init.yml: archive: want a path inside"},
		"input outside":       {smallDMOJ, "in: 1.in", "in: ../../etc/passwd", "init.yml: test_cases[0].in: want a path inside"},
		"absolute input":      {smallDMOJ, "in: 1.in", "in: /etc/passwd", "init.yml: test_cases[0].in: want a path inside"},
		"no input":            {smallDMOJ, "in: 1.in", "in: 2.in", "init.yml: test_cases[0].in: there is no file 2.in"},
		"no answer":           {smallDMOJ, ", out: 1.out", "", "init.yml: test_cases[0].out: is missing"},
		"negative points":     {smallDMOJ, "points: 1", "points: -1", "test_cases[0].points: want a number from 0"},
		"points without end":  {smallDMOJ, "points: 1", "points: .inf", "test_cases[0].points: want a number from 0"},
		"no number":           {smallDMOJ, "points: 1", "points: many", "test_cases[0].points: want a number"},
		"nested batches":      {smallDMOJ, "{in: 1.in, out: 1.out, points: 1}", "&b {points: 1, batched: [*b]}", "init.yml"},
		"later batch":         {smallDMOJ, "{in: 1.in, out: 1.out, points: 1}", "{batched: [{in: 1.in, out: 1.out}], dependencies: [1]}", "dependencies: want numbers of batches before"},
		"Python's pattern":    {smallDMOJ, "- {in: 1.in, out: 1.out, points: 1}", "  {input_format: '(?=x)(?P<case>1)'}", "test_cases.input_format: can't be read"},
		"few points":          {smallDMOJ, "- {in: 1.in, out: 1.out, points: 1}", "  {case_points: []}", "test_cases.case_points: want 1 numbers"},
		"no XML":              {smallPolygon, "</problem>", "", "problem.xml: is no description of a problem"},
		"entities":            {smallPolygon, `<problem short-name="a">`, `<!DOCTYPE p [<!ENTITY a "&b;&b;">]><problem short-name="&a;">`, "problem.xml: is no description of a problem"},
		"files of its own, P": {smallPolygon, `input-file=""`, `input-file="in.txt"`, "problem.xml: judging: has programs read and write files"},
		"run twice":           {smallPolygon, `output-file=""`, `output-file="" run-count="2"`, "problem.xml: judging.run-count: want 1"},
		"interactor, P":       {smallPolygon, "<assets>", "<assets><interactor/>", "problem.xml: assets.interactor.source.type: want an interactor of testlib in C++, such as cpp.g++17 (got )"},
		"interactor, Java":    {smallPolygon, "<assets>", `<assets><interactor><source path="check.cpp" type="java11"/></interactor>`, "problem.xml: assets.interactor.source.type: want an interactor of testlib in C++, such as cpp.g++17 (got java11)"},
		"no interactor, P":    {smallPolygon, "<assets>", `<assets><interactor><source path="talk.cpp" type="cpp.g++17"/></interactor>`, "problem.xml: assets.interactor.source.path: there is no file talk.cpp"},
		"interactor out, P":   {smallPolygon, "<assets>", `<assets><interactor><source path="../talk.cpp" type="cpp.g++17"/></interactor>`, "problem.xml: assets.interactor.source.path: want a path inside"},
		"two interactors":     {smallPolygon, "<assets>", "<assets><interactor/><interactor/>", "problem.xml: assets.interactor: want one at most (got 2)"},
		"interactor twice":    {smallPolygon, "<assets>", `<assets><interactor><source path="check.cpp" type="cpp.g++17"/><runs><run>1</run><run>2</run></runs></interactor>`, "problem.xml: assets.interactor.runs: want the run 1 alone: problems whose programs are run more than once are not imported (got 1, 2)"},
		"strategy":            {smallPolygon, "<assets>", "<assets><strategy/>", "problem.xml: assets.strategy: programs that say"},
		"scorer":              {smallPolygon, "<assets>", "<assets><scorer/>", "problem.xml: assets.scorer"},
		"no testset":          {smallPolygon, `<testset name="tests">`, `<testset name="a"/><testset name="b">`, "problem.xml: judging.testset: want one called tests"},
		"no time":             {smallPolygon, "<time-limit>1000</time-limit>", "", "problem.xml: judging.testset.time-limit: want a number"},
		"much memory":         {smallPolygon, "1048576", "1e20", "problem.xml: judging.testset.memory-limit: want a number"},
		"pattern of text":     {smallPolygon, "tests/%02d<", "tests/%s<", "problem.xml: judging.testset.input-path-pattern: want a path with one number"},
		"wide pattern":        {smallPolygon, "tests/%02d<", "tests/%0999999999d<", "problem.xml: judging.testset.input-path-pattern: want a path with one number"},
		"pattern outside":     {smallPolygon, "tests/%02d<", "../tests/%02d<", "problem.xml: judging.testset.input-path-pattern: want a path inside"},
		"not generated":       {smallPolygon, "-- tests/01 --", "-- tests/1 --", "tests/01: is not in the package, as it is made by a program (gen 1)"},
		"other checker":       {smallPolygon, `type="testlib"`, `type="other"`, "problem.xml: assets.checker: want a checker of testlib"},
		"no checker":          {smallPolygon, "-- check.cpp --", "-- chuck.cpp --", "problem.xml: assets.checker.source.path: there is no file check.cpp"},
		"no testlib.h":        {smallPolygon, "-- testlib.h --", "-- test.h --", "check.cpp: includes testlib.h, which is not in the problem"},
		"odd points":          {smallPolygon, `cmd="gen 1"`, `points="NaN"`, "problem.xml: judging.testset.tests[0].points: want a number"},
		"no group":            {smallPolygon, `cmd="gen 1"`, `points="1" group="a"`, "problem.xml: judging.testset.tests[0].group: groups says nothing of a"},
		"odd policy":          {smallPolygon, `<tests><test cmd="gen 1"/></tests>`, `<tests><test points="1" group="a"/></tests><groups><group name="a" points-policy="best"/></groups>`, "points-policy: want complete-group or each-test"},
		"itself":              {smallPolygon, `<tests><test cmd="gen 1"/></tests>`, `<tests><test points="1" group="a"/></tests><groups><group name="a" points-policy="each-test"><dependencies><dependency group="a"/></dependencies></group></groups>`, "dependencies: want groups with tests that all come before"},
		"no solution":         {smallPolygon, "</assets>", `<solutions><solution tag="main"><source path="s.cpp"/></solution></solutions></assets>`, "assets.solutions[0].source.path: there is no file s.cpp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(c.from, c.old, c.new, 1)
			if text == c.from {
				t.Fatalf("%q is not in the problem", c.old)
			}
			dst := filepath.Join(t.TempDir(), "made")
			_, err := Import(unpack(t, []byte(text)), dst, Options{})
			var fault *kattis.Error
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if _, err := os.Stat(dst); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder is there: %v", err)
			}
		})
	}
}

// TestImportUnchanged: the problems that the cases above change can be imported as they are.
func TestImportUnchanged(t *testing.T) {
	t.Parallel()
	for _, text := range []string{smallDMOJ, smallPolygon} {
		if _, err := Import(unpack(t, []byte(text)), filepath.Join(t.TempDir(), "made"), Options{}); err != nil {
			t.Error(err)
		}
	}
}
