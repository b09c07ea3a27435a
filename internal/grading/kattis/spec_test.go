package kattis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

func TestSpec(t *testing.T) {
	t.Parallel()
	p, err := Read(pack(`
-- problem.yaml --
name: Sum
limits: {memory: 512, output: 1}
constants: {helper: twice}
-- data/sample/1.in --
1 2
-- data/sample/1.ans --
3
-- data/secret/1.in --
4 5
-- data/secret/1.ans --
9
-- include/python3/main.py --
from solution import sum
def {{helper}}(): {{other}}
-- include/c/driver.c --
int main(void) {}
-- include/default/README --
`))
	if err != nil {
		t.Fatal(err)
	}
	solution := []job.File{{Name: "solution.py", Content: "def sum(): pass"}, {Name: "main.py", Content: "print('mine')"}}
	spec, err := p.Spec(Program{Runtime: "python", Language: "python3", Files: solution}, Run{Time: 2 * time.Second, Uploads: map[string]string{"data/secret/1.in": strings.Repeat("a", 64)}})
	if err != nil {
		t.Fatal(err)
	}
	want := job.Spec{
		SpecVersion: 5, Runtime: "python", Entrypoint: "main.py",
		Files:  []job.File{{Name: "solution.py", Content: "def sum(): pass"}, {Name: "main.py", Content: "from solution import sum\ndef twice(): {{other}}\n"}},
		Limits: job.Limits{CPUMS: 2000, WallMS: 5000, CompileWallMS: 60_000, MemoryMB: 512, StackMB: 128, OutputKB: 1024}, Checker: &job.Checker{Kind: "default"},
		Tests: []job.Test{
			{Name: "sample/1", Group: "sample", Stdin: "1 2\n", Answer: "3\n"},
			{Name: "secret/1", Group: "secret", StdinUpload: strings.Repeat("a", 64), Answer: "9\n", Hidden: true},
		},
	}
	if d := cmp.Diff(want, spec); d != "" {
		t.Error(d)
	}
	if err := spec.Check([]string{"python"}, nil, job.DefaultMaximums); err != nil {
		t.Errorf("what is made of a package is no job: %v", err)
	}

	// The driver is started, whatever the submission calls its own files.
	for _, name := range []string{"Main.py", "__main__.py"} {
		spec, err := p.Spec(Program{Runtime: "python", Language: "python3", Files: []job.File{{Name: name}}}, Run{Time: time.Second})
		if err != nil || spec.Entrypoint != "main.py" {
			t.Errorf("%s: got %q, %v, want main.py", name, spec.Entrypoint, err)
		}
	}

	all, err := p.Spec(Program{Runtime: "python", Language: "python3", Files: solution}, Run{Time: time.Second, All: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := all.Groups; len(got) != 3 || slices.ContainsFunc(got, func(g job.Group) bool { return g.OnReject != "continue" }) {
		t.Errorf("not every test is run: %+v", got)
	}

	for _, tt := range []struct {
		program Program
		want    string
	}{
		{Program{Language: "c", Files: []job.File{{Name: "a b.c"}}}, "the name \"a b.c\": want letters"},
		{Program{Language: "java", Files: []job.File{{Name: "a.java", Content: strings.Repeat("a", 128<<10+1)}}}, "the submission has 131073 bytes; the package allows 131072"},
		{
			Program{Language: "python3", Files: []job.File{{Name: "a.py", Content: "1"}, {Name: "b 1.png", Content: strings.Repeat("b", 128<<10)}, {Name: "c.py", Content: "2"}}},
			"the submission has 131074 bytes; the package allows 131072 (limits.code); its largest file is b 1.png",
		},
		{Program{Language: "java", Files: []job.File{{Name: "a.java"}}, Entrypoint: "b"}, "the entrypoint b is none of the files"},
		{Program{Language: "java", Files: []job.File{{Name: "../a.java"}}}, "the name \"../a.java\" is not a plain path"},
	} {
		if _, err := p.Spec(tt.program, Run{Time: time.Second}); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.program.Files[0].Name, err, tt.want)
		}
	}
}

// TestTogether: sources in a language whose compiler doesn't find them by itself are compiled together, those of include/ too;
// headers and those in other languages are not.
func TestTogether(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, include, language string
		files                   []string
		want                    string // the compile command; "": the runtime's own
	}{
		{"one source", "", "c", []string{"a.c", "a.h"}, ""},
		{"a function and its grader", "-- include/c/grader.c --\n-- include/c/f.h --\n", "c", []string{"f.c"}, "gcc -O2 -o /tmp/main f.c grader.c -lm"},
		{"the grader of another language", "-- include/cpp/grader.cpp --\n", "c", []string{"f.c"}, ""},
		{"a grader over one's own", "-- include/cpp/grader.cpp --\n", "cpp", []string{"grader.cpp"}, ""},
		{"several endings and folders", "", "cpp", []string{"b.cc", "lib/a.cpp", "c.c"}, "g++ -O2 -o /tmp/main b.cc lib/a.cpp -lm"},
		{"Java", "-- include/java/Main.java --\n", "java", []string{"A.java"}, ""},
		{"data with a name that no package has", "", "c", []string{"a.c", "b.c", "my data.csv"}, "gcc -O2 -o /tmp/main a.c b.c -lm"},
		{"Java's main elsewhere, which its runtime finds", "", "java", []string{"Helper.java", "Solution.java"}, ""},
		{"Go", "", "go", []string{"util.go", "main.go", "main_test.go", "lib/lib.go"}, "go build -o /tmp/main main.go util.go"},
		{"Go with a package whose source has a name that no package has", "", "go", []string{"util.go", "main.go", "lib/größe.go"}, "go build -o /tmp/main main.go util.go"},
		{"Go with a package", "", "go", []string{"main.go", "lib/lib.go"}, ""},
		{"C#", "", "csharp", []string{"Main.cs", "Helper.cs"}, "mcs -nologo -debug -r:System.Core,System.Numerics,Microsoft.CSharp -out:/tmp/main.exe Helper.cs Main.cs"},
		{"D and its grader", "-- include/d/grader.d --\n", "d", []string{"f.d"}, "gdc -O2 -g -o /tmp/main f.d grader.d"},
		{"a name that no package has", "", "c", []string{"it's.c"}, ""},
	} {
		p, err := Read(pack(smallest + tt.include))
		if err != nil {
			t.Fatal(err)
		}
		program := Program{Runtime: "c", Language: tt.language}
		for _, f := range tt.files {
			program.Files = append(program.Files, job.File{Name: f})
		}
		spec, err := p.Spec(program, Run{Time: time.Second})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := ""
		if spec.Commands != nil {
			got = spec.Commands.Compile
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestTogetherIn: in Go the sources beside the file that is started are compiled, also where the package says which that is.
func TestTogetherIn(t *testing.T) {
	t.Parallel()
	p, err := Read(pack(smallest))
	if err != nil {
		t.Fatal(err)
	}
	files := []job.File{{Name: "algo/algo.go"}, {Name: "algo/more.go"}, {Name: "run/help.go"}, {Name: "run/start.go"}, {Name: "start.go"}}
	for entrypoint, want := range map[string]string{
		"start.go":     "",
		"run/start.go": "go build -o /tmp/main run/help.go run/start.go",
		"":             "go build -o /tmp/main algo/algo.go algo/more.go",
	} {
		spec, err := p.Spec(Program{Runtime: "go", Language: "go", Files: files, Entrypoint: entrypoint}, Run{Time: time.Second})
		got := ""
		if spec.Commands != nil {
			got = spec.Commands.Compile
		}
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", entrypoint, got, err, want)
		}
	}
}

// TestTestFlags: the default checker has its arguments from problem.yaml, and each test has its own after those where
// they differ. Only then a worker has to know the newest version.
func TestTestFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       string // the checker's, those of each test, and the version
	}{
		{"none", "", "[] 1[] 2[] 5"},
		{"the same", "-- data/testdata.yaml --\noutput_validator_flags: case_sensitive\n", "[float_tolerance 1e-3 case_sensitive] 1[] 2[] 5"},
		{"of a folder", "-- data/secret/b/testdata.yaml --\noutput_validator_flags: float_tolerance 1\n", "[float_tolerance 1e-3] 1[] 2[float_tolerance 1] 9"},
		{"of a test", "-- data/testdata.yaml --\noutput_validator_flags: case_sensitive\n-- data/secret/b/2.yaml --\noutput_validator_args: []\n", "[float_tolerance 1e-3] 1[case_sensitive] 2[] 9"},
	} {
		flags := "-- problem.yaml --\nvalidator_flags: float_tolerance 1e-3\n"
		if tt.name == "none" {
			flags = ""
		}
		p, err := Read(with(flags+tt.text, "secret/a/1", "secret/b/2"))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		spec, err := p.Spec(Program{Runtime: "c", Language: "c", Files: []job.File{{Name: "a.c"}}}, Run{Time: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(spec.Checker.Args, " 1", spec.Tests[0].CheckerArgs, " 2", spec.Tests[1].CheckerArgs, " ", spec.SpecVersion)
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if err := spec.Check([]string{"c"}, nil, job.DefaultMaximums); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestSubmission: a program for a stored problem keeps the names of its files, and says nothing of what the problem says itself.
func TestSubmission(t *testing.T) {
	t.Parallel()
	latin := job.File{Name: "latin.py", ContentBase64: "6Q=="}
	sum, util, umlaut := job.File{Name: "sum.cpp", Content: "1"}, job.File{Name: "util.cpp", Content: "2"}, job.File{Name: "größe.cpp", Content: "3"}
	for _, tt := range []struct {
		name    string
		program Program
		starts  bool
		want    job.Spec
	}{
		{"text", Program{Language: "java", Files: []job.File{{Name: "Sum.java", Content: "1"}}}, false, job.Spec{Source: "1", Entrypoint: "Sum.java"}},
		{"bytes", Program{Language: "python3", Files: []job.File{latin}}, false, job.Spec{Files: []job.File{latin}, Entrypoint: "latin.py"}},
		{"bytes, and a driver", Program{Language: "python3", Files: []job.File{latin}}, true, job.Spec{Files: []job.File{latin}}},
		{"folder", Program{Language: "cpp", Files: []job.File{sum, util}}, false, job.Spec{
			Files: []job.File{sum, util}, Entrypoint: "sum.cpp", Commands: &job.Commands{Compile: "g++ -O2 -o /tmp/main sum.cpp util.cpp -lm", Run: `/tmp/main "$@"`},
		}},
		{"folder, and a grader", Program{Language: "cpp", Files: []job.File{sum, util}}, true, job.Spec{Files: []job.File{sum, util}}},
		{"a name that no package has, and a grader, which is compiled with any", Program{Language: "cpp", Files: []job.File{umlaut, util}}, true, job.Spec{Files: []job.File{umlaut, util}}},
	} {
		got, err := tt.program.Submission(tt.starts)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, %s", tt.name, err, diff)
		}
	}
}
