package convert

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/glovebox-run/glovebox/internal/grading/kattis"
)

// inMemory is a problem, with its archive.
func inMemory(f *testing.F, text string) fstest.MapFS {
	f.Helper()
	files := fstest.MapFS{}
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for _, file := range txtar.Parse([]byte(text)).Files {
		name, inside := strings.CutPrefix(file.Name, "a.zip/")
		if !inside {
			files[name] = &fstest.MapFile{Data: file.Data}
			continue
		}
		entry, err := w.Create(name)
		if err == nil {
			_, err = entry.Write(file.Data)
		}
		if err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	files["a.zip"] = &fstest.MapFile{Data: packed.Bytes()}
	return files
}

// readable is a problem that is read, or refused as a user can understand, and whose names stay where they belong.
func readable(t *testing.T, files fs.FS) {
	t.Helper()
	p, err := read(files, Options{Name: "fuzz"})
	var fault *kattis.Error
	if err != nil {
		if !errors.As(err, &fault) {
			t.Fatalf("no error of the problem: %v", err)
		}
		return
	}
	defer p.close()
	for _, all := range []map[string]data{p.validator, p.includes, p.programs} {
		for name := range all {
			if !fs.ValidPath(name) {
				t.Errorf("it would write %q", name)
			}
		}
	}
	names := p.folders()
	for i, g := range p.groups {
		if len(g.tests) == 0 || i > 0 && names[i-1] >= names[i] {
			t.Errorf("group %d (%s) has %d tests, after %s", i, names[i], len(g.tests), names[max(i-1, 0)])
		}
		for _, r := range g.requires {
			if r < 0 || r >= i {
				t.Errorf("group %d requires %d", i, r)
			}
		}
	}
}

func FuzzDMOJ(f *testing.F) {
	files := inMemory(f, smallDMOJ)
	for _, seed := range []string{
		string(files[dmojFile].Data), "archive: a.zip", "archive: a.zip\ntest_cases: {case_points: [3]}",
		"a: &a [x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\ntest_cases: [*c, *c]", "test_cases: &a [*a]", "a: &a {<<: *a}", "archive: ../a.zip",
		"archive: a.zip\nchecker: &c {name: floats, args: {precision: 3}}\ntest_cases: [{batched: [{in: 1.in, out: 1.out, checker: *c}], points: 0}, {in: 1.in, out: 1.out}]",
		"archive: a.zip\ninteractive: {files: check.cpp, type: testlib, lang: CPP20}\nchecker: linecount\ntest_cases: [{in: 1.in, points: 3}, {batched: [{}], points: 2}]",
		"archive: a.zip\ninteractive: &a {files: [check.cpp, *a]}", "archive: a.zip\ninteractive: &a {files: *a}", "interactive: {files: {check.cpp: 1}, type: [x]}",
		"archive: a.zip\ntest_cases: {input_format: '(?P<case>.)(?P<batch>.)?', output_format: '(?P<case>.)'}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		readable(t, fstest.MapFS{dmojFile: {Data: text}, "a.zip": files["a.zip"], "check.cpp": {}})
	})
}

func FuzzPolygon(f *testing.F) {
	files := inMemory(f, smallPolygon)
	seed := string(files[polygonFile].Data)
	f.Add([]byte(seed))
	f.Add([]byte(strings.Replace(seed, "<problem", `<!DOCTYPE a [<!ENTITY b "&c;&c;">]><problem`, 1)))
	f.Add([]byte(strings.Replace(seed, `cmd="gen 1"`, `points="1e300" group="../a"`, 1)))
	f.Add([]byte(strings.Replace(seed, `<test cmd="gen 1"/>`, strings.Repeat(`<test points="1" group="0"/>`, 3), 1)))
	f.Add([]byte(strings.Repeat("<problem>", 2000)))
	f.Add([]byte(strings.Replace(seed, "<assets>", `<assets><interactor><source path="check.cpp" type="cpp.g++17"/><runs><run> 1 </run></runs></interactor>`, 1)))
	f.Add([]byte(strings.Replace(seed, "<assets>", "<assets>"+strings.Repeat("<interactor><runs>", 1000), 1)))
	f.Fuzz(func(t *testing.T, text []byte) {
		given := fstest.MapFS{}
		for name, file := range files {
			given[name] = file
		}
		given[polygonFile] = &fstest.MapFile{Data: text}
		readable(t, given)
	})
}

func FuzzZip(f *testing.F) {
	archive := inMemory(f, smallDMOJ)["a.zip"].Data
	f.Add(archive)
	f.Add(archive[:len(archive)/2])
	f.Add(bytes.Repeat([]byte("PK\x01\x02"), 100))
	f.Fuzz(func(t *testing.T, archive []byte) {
		files, err := zipOf("a.zip", bytes.NewReader(archive), int64(len(archive)))
		if err != nil {
			return
		}
		s := &source{FS: files}
		for _, entry := range files.(*zip.Reader).File {
			if _, err := s.read(files, entry.Name, 1<<10); err == nil && !fs.ValidPath(entry.Name) {
				t.Errorf("%q was read", entry.Name)
			}
		}
	})
}
