package kattis

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

// TestStored: what a package puts over submissions is by runtime, and finds what a submission calls its own.
func TestStored(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"problem.yaml":     "problem_format_version: 2025-09\nname: Double\ntype: pass-fail\nlanguages: [python3, c, cobol, cpp, go]\n",
		"data/secret/1.in": "1\n", "data/secret/1.ans": "2\n",
		"include/python3/main.py":                  "from solution import double\n",
		"include/c/grader.c":                       "int main(void) {}\n",
		"include/go/grader.go":                     "package main\n",
		"include/cpp/grader.h":                     "long twice(long);\n",
		"include/default/README":                   "read me",
		"submissions/accepted/python/solution.py":  "def double(n): return 2 * n\n",
		"submissions/wrong_answer/python/other.py": "def double(n): return n\n",
		"submissions/accepted/one.c":               "long twice(long n) { return 2 * n; }\n",
		"submissions/partially_accepted/another.c": "long twice(long n) { return 2; }\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	p, err := Read(files)
	if err != nil {
		t.Fatal(err)
	}
	runtimeOf := func(language string) (string, error) {
		if names := map[string]string{"python3": "python", "c": "c", "cpp": "cpp", "go": "go"}; names[language] != "" {
			return names[language], nil
		}
		return "", errors.New("no runtime for " + language)
	}
	got, err := p.Stored(Run{Time: time.Second}, runtimeOf)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got.Runtimes)
	if diff := cmp.Diff([]string{"c", "cpp", "go", "python"}, got.Runtimes); diff != "" {
		t.Error(diff)
	}
	want := map[string]job.Include{
		"python":           {Files: []job.File{{Name: "main.py", Content: "from solution import double\n"}}, SourceName: "solution.py", Entrypoint: "main.py"},
		"c":                {Files: []job.File{{Name: "grader.c", Content: "int main(void) {}\n"}}, Commands: &job.Commands{Compile: "shopt -s globstar nullglob; gcc -O2 -o /tmp/main ./**/*.c -lm", Run: `/tmp/main "$@"`}},
		"go":               {Files: []job.File{{Name: "grader.go", Content: "package main\n"}}, Commands: &job.Commands{Compile: "shopt -s globstar nullglob; go build -o /tmp/main ./*.go", Run: `/tmp/main "$@"`}},
		"cpp":              {Files: []job.File{{Name: "grader.h", Content: "long twice(long);\n"}}},
		job.DefaultInclude: {Files: []job.File{{Name: "README", Content: "read me"}}},
	}
	if diff := cmp.Diff(want, got.Include); diff != "" {
		t.Error(diff)
	}
	if got.Name != "Double" || got.SubmissionKB != 128 || got.Limits.CPUMS != 1000 || len(got.Tests) != 1 || got.Tests[0].Answer != "2\n" || !got.Tests[0].Hidden {
		t.Errorf("got %+v", got)
	}
	if err := got.Check(); err != nil {
		t.Error(err)
	}
	p.Languages = []string{"cobol"}
	if _, err := p.Stored(Run{Time: time.Second}, runtimeOf); err == nil {
		t.Error("a package for a language without a runtime is stored")
	}
}

// TestStoredSourceName: source without an entrypoint can be sent also where what the package puts over it has the file that source becomes in its
// runtime, and is compiled together with it.
func TestStoredSourceName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		language, include, submissions string // separated by blanks
		want                           string
	}{
		{"go", "main.go", "alice.go", "alice.go"},
		{"go", "main.go", "x/solve/solve.go", "solve/solve.go"}, // a package that main.go imports
		{"csharp", "Main.cs", "Solution.cs", "Solution.cs"},
		{"d", "main.d", "solution.d", "solution.d"},
		{"c", "main.c", "solution.c", "solution.c"},
		{"c", "grader.c", "solution.c", ""},
		{"c", "main.c", "alice.c bob.c", "solution.c"},
		{"cpp", "main.cpp", "alice.cpp x/bob.cpp x/more.cpp", "solution.cc"},
		{"cpp", "main.cc", "", "solution.cc"},
		{"go", "main.go", "x/solve/alice.go y/solve/bob.go", "solve/solution.go"},
	} {
		text := smallest + "-- include/" + tt.language + "/" + tt.include + " --\n"
		for name := range strings.FieldsSeq(tt.submissions) {
			text += "-- submissions/accepted/" + name + " --\n"
		}
		p, err := Read(pack(text))
		if err != nil {
			t.Fatal(err)
		}
		stored, err := p.Stored(Run{Time: time.Second}, func(language string) (string, error) { return language, nil })
		if err != nil {
			t.Fatal(err)
		}
		include := stored.Include[tt.language]
		if include.Commands == nil || include.Entrypoint != "" || include.SourceName != tt.want {
			t.Errorf("%s: got %+v, want the source name %q beside commands", tt.submissions, include, tt.want)
		}
		spec, err := stored.Expand(job.Spec{Runtime: tt.language, Source: "1"})
		if err == nil && tt.want != "" {
			err = spec.CheckSource(tt.include)
		}
		if err != nil {
			t.Errorf("%s: %v", tt.submissions, err)
		}
	}
}
