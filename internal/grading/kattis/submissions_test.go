package kattis

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/job"
)

func TestSubmissions(t *testing.T) {
	t.Parallel()
	p, err := Read(pack(smallest + `
-- problem.yaml --
problem_format_version: 2025-09
-- submissions/submissions.yaml --
accepted: {use_for_time_limit: false}
"wrong_answer/{a,b}*.py":
  language: python2
  secret/1: {permitted: [WA], required: [WA]}
"*/slow.py": {use_for_time_limit: upper}
-- submissions/accepted/x.py --
print({{n}})
-- submissions/accepted/dir/main.py --
-- submissions/accepted/dir/util.py --
-- submissions/time_limit_exceeded/slow.py --
-- submissions/wrong_answer/a1.py --
-- submissions/wrong_answer/c.py --
-- submissions/mine/a.c --
// @EXPECTED_RESULTS@: WRONG-ANSWER, RUN-ERROR
-- submissions/mine/b.c --
`))
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, s := range p.Submissions {
		got += s.Path + " " + s.Language + " " + strings.Join(namesOf(s.Files), ",")
		for _, e := range s.Expect {
			got += fmt.Sprintf(" | %s %s %s %s %v low=%t up=%t", e.Source, join(e.Whole), join(e.Permitted), join(e.Required), e.Tests, e.Lower, e.Upper)
		}
		got += "\n"
	}
	want := `accepted/dir python3 main.py,util.py | accepted  accepted  [] low=false up=false
accepted/x.py python3 x.py | accepted  accepted  [] low=false up=false
mine/a.c c a.c | @EXPECTED_RESULTS@ wrong_answer, run_time_error, out_of_memory   [] low=false up=false
mine/b.c c b.c
time_limit_exceeded/slow.py python3 slow.py | */slow.py    [] low=false up=true | time_limit_exceeded/  accepted, timed_out timed_out [] low=false up=true
wrong_answer/a1.py python2 a1.py | wrong_answer/  accepted, wrong_answer wrong_answer [] low=true up=false | wrong_answer/{a,b}*.py    [] low=false up=false | wrong_answer/{a,b}*.py, secret/1  wrong_answer wrong_answer [secret/1] low=true up=false
wrong_answer/c.py python3 c.py | wrong_answer/  accepted, wrong_answer wrong_answer [] low=true up=false
`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestExpectations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		version, folder string
		verdicts        []job.Verdict // of sample/1, secret/1
		want            string        // "" for as expected
	}{
		{V2025, "accepted", []job.Verdict{job.Accepted, job.Accepted}, ""},
		{V2025, "accepted", []job.Verdict{job.Accepted, job.WrongAnswer}, "is wrong_answer on secret/1; accepted/ permits accepted"},
		{V2025, "wrong_answer", []job.Verdict{job.Accepted, job.WrongAnswer}, ""},
		{V2025, "wrong_answer", []job.Verdict{job.TestTimedOut, job.WrongAnswer}, "is timed_out on sample/1"},
		{V2025, "wrong_answer", []job.Verdict{job.Accepted, job.Accepted}, "comes to wrong_answer on no test"},
		{V2025, "run_time_error", []job.Verdict{job.Accepted, job.TestOutOfMemory}, ""},
		{V2025, "brute_force", []job.Verdict{job.RunTimeError, job.TestTimedOut}, ""},
		{V2025, "brute_force", []job.Verdict{job.WrongAnswer, job.TestTimedOut}, "is wrong_answer on sample/1"},
		{V2025, "rejected", []job.Verdict{job.Accepted, job.Accepted}, "comes to run_time_error"},
		{Legacy, "wrong_answer", []job.Verdict{job.WrongAnswer, job.TestTimedOut}, ""},
		{Legacy, "wrong_answer", []job.Verdict{job.TestTimedOut, job.WrongAnswer}, "is timed_out; wrong_answer/ expects wrong_answer"},
		{Legacy, "partially_accepted", []job.Verdict{job.Accepted, job.Accepted}, "has the largest score, 2"},
		{Legacy, "accepted", []job.Verdict{job.Accepted, job.JudgeError}, "is judge_error"},
	}
	for _, tt := range tests {
		p, err := Read(with("-- problem.yaml --\nproblem_format_version: "+tt.version+"\n-- submissions/"+tt.folder+"/a.py --\n", "sample/1", "secret/1"))
		if err != nil {
			t.Fatal(err)
		}
		j, err := p.Judgement()
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range tt.verdicts {
			j.Set(i, v, nil)
		}
		w := j.Whole()
		if tt.version == V2025 { // every test is looked at
			for i, v := range tt.verdicts {
				w.Tests[i] = grading.Scored{Verdict: v}
			}
		}
		err = p.Submissions[0].Expect[0].Check(p, w)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%s %s, %v: got %v, want %q", tt.version, tt.folder, tt.verdicts, err, tt.want)
		}
	}
}

// TestReadProgram: a program's files have names that no package has; those that a job can't have, and what is no file, are said.
func TestReadProgram(t *testing.T) {
	t.Parallel()
	files := pack(`
-- main.py --
-- größe.py --
-- my data.csv --
-- src/übung.py --
-- .DS_Store --
-- .git/config --
-- a\b.py --
-- bin/tool.py --
-- net/P.csproj --
-- net/Program.cs --
-- net/bin/Debug/P.dll --
-- net/lib/obj/Shape.cs --
-- net/obj/P.GlobalUsings.g.cs --
`)
	files["pipe"] = &fstest.MapFile{Mode: fs.ModeNamedPipe}
	all, skipped, err := ReadProgram(files)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"bin/tool.py", "größe.py", "main.py", "my data.csv", "net/P.csproj", "net/Program.cs", "net/lib/obj/Shape.cs", "src/übung.py"}, namesOf(all)); d != "" {
		t.Error(d)
	}
	want := []string{
		`the name "a\\b.py" has a backslash`, `"net/bin" is what a build of the project has made`, `"net/obj" is what a build of the project has made`, `"pipe" is no file`,
	}
	slices.Sort(skipped)
	slices.Sort(want)
	if d := cmp.Diff(want, skipped); d != "" {
		t.Error(d)
	}
	if _, _, err := ReadProgram(fstest.MapFS{}); err == nil || err.Error() != "has no files" {
		t.Errorf("got %v", err)
	}
	large := fstest.MapFS{}
	for name, mb := range map[string]int{"a.py": 6, "b 1.png": 7, "c.py": 6} {
		large[name] = &fstest.MapFile{Data: make([]byte, mb<<20)}
	}
	if _, _, err := ReadProgram(large); err == nil || !strings.HasSuffix(err.Error(), "its largest file is b 1.png") {
		t.Errorf("got %v", err)
	}
}

func TestEntrypoint(t *testing.T) {
	t.Parallel()
	tests := []struct {
		files    []string
		language string
		want     string
	}{
		{[]string{"b.py", "a.py"}, "python3", "a.py"},
		{[]string{"a.py", "main.py"}, "python3", "main.py"},
		{[]string{"a.py", "main.py", "__main__.py"}, "python3", "__main__.py"},
		{[]string{"data.txt", "z.js"}, "javascript", "z.js"},
		{[]string{"A.java", "Main.java"}, "java", "Main.java"},
		{[]string{"x.h", "y.cc"}, "cpp", "y.cc"},
		{[]string{"x.c", "x.h", "a.py", "b.c"}, "c", "b.c"},
		{[]string{"solution (1).py", "solution.py"}, "python3", "solution.py"},
		{[]string{"sum(2).py", "sum.py"}, "python3", "sum.py"},
		{[]string{"sum (1).py"}, "python3", "sum (1).py"},
		{[]string{"f (1).py", "sum.py"}, "python3", "f (1).py"}, // a copy of nothing that is there
		{[]string{"Aufgabe 1.py", "utils.py"}, "python3", "Aufgabe 1.py"},
		{[]string{"eine größe.py", "größe.py"}, "python3", "eine größe.py"},
		{[]string{"README"}, "", "README"},
	}
	for _, tt := range tests {
		if got := LanguageOf(tt.files); got != tt.language {
			t.Errorf("%v: got language %q, want %q", tt.files, got, tt.language)
		}
		if got := entrypointOf(tt.language, tt.files); got != tt.want {
			t.Errorf("%v: got entrypoint %q, want %q", tt.files, got, tt.want)
		}
	}
}
