package job_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

// TestProblemTakesBackWhatItPutIn: a submission that was expanded, and from which the problem is taken out again, is what was sent.
func TestProblemTakesBackWhatItPutIn(t *testing.T) {
	t.Parallel()
	p := job.Problem{
		Limits:  job.Limits{CPUMS: 1000, WallMS: 3000, CPUs: 1},
		Tests:   []job.Test{{Name: "1", StdinUpload: "b", AnswerUpload: "a"}, {Name: "2", StdinUpload: "b"}},
		Checker: &job.Checker{Kind: job.CheckKattis, Program: &job.CheckerProgram{Files: []job.File{{Name: "check.py", Upload: "c"}}}},
		Groups:  []job.Group{{Name: "", Score: "min"}},
		Include: map[string]job.Include{
			"python":           {Files: []job.File{{Name: "main.py", Content: "import solution"}}, SourceName: "solution.py", Entrypoint: "main.py"},
			"c":                {Files: []job.File{{Name: "grader.c", Upload: "d"}}, Commands: &job.Commands{Run: "/tmp/main"}},
			job.DefaultInclude: {Files: []job.File{{Name: "README", Content: "read me"}}},
		},
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, p.Uploads()); diff != "" {
		t.Errorf("uploads: %s", diff)
	}
	const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	for name, test := range map[string]struct {
		sent  job.Spec
		files []string
		entry string
	}{
		"source":           {job.Spec{Runtime: "python", Source: "1", Args: []string{"-v"}, Env: map[string]string{"A": "b"}}, []string{"solution.py", "main.py"}, "main.py"},
		"files":            {job.Spec{Runtime: "python", Files: []job.File{{Name: "solution.py", ContentBase64: "AA=="}, {Name: "more.py", Content: "2"}}}, []string{"solution.py", "more.py", "main.py"}, "main.py"},
		"commands":         {job.Spec{Runtime: "c", Source: "1"}, []string{"grader.c"}, ""},
		"another language": {job.Spec{Runtime: "go", Source: "1", Entrypoint: "a.go"}, []string{"README"}, "a.go"},
		"its own commands": {job.Spec{Runtime: "go", Source: "1", Commands: &job.Commands{Run: "go run"}}, []string{"README"}, ""},
		"its own limits":   {job.Spec{Runtime: "go", Source: "1", Limits: job.Limits{CPUMS: 2000, CPUs: 2}}, []string{"README"}, ""},
	} {
		sent := test.sent
		sent.Problem = digest
		whole, err := p.Expand(sent)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var files []string
		for _, f := range whole.Files {
			files = append(files, f.Name)
		}
		if diff := cmp.Diff(test.files, files); diff != "" || whole.Entrypoint != test.entry || whole.Problem != digest || len(whole.Tests) != 2 || whole.Limits.WallMS != 3000 {
			t.Errorf("%s: got %+v: %s", name, whole, diff)
		}
		if diff := cmp.Diff(test.sent, p.TakeBack(whole.Submission()), cmp.Transformer("empty", func(files []job.File) []job.File {
			return append([]job.File{}, files...)
		})); diff != "" {
			t.Errorf("%s: taken back it is another: %s", name, diff)
		}
	}
	// The only file is started where the problem says nothing of that, though it is not the only one any more.
	lone := job.Spec{Runtime: "go", Files: []job.File{{Name: "a.go", Content: "1"}}}
	whole, err := p.Expand(lone)
	if err != nil || whole.Entrypoint != "a.go" {
		t.Errorf("got %+v, %v, want a.go started", whole, err)
	}
	if diff := cmp.Diff(lone, p.TakeBack(whole.Submission())); diff != "" {
		t.Errorf("taken back it is another: %s", diff)
	}
	// What a submission calls as the problem's own files are called is not run.
	whole, err = p.Expand(job.Spec{Runtime: "python", Files: []job.File{{Name: "main.py", Content: "cheat()"}, {Name: "solution.py", Content: "1"}}})
	if err != nil || len(whole.Files) != 2 || whole.Files[1] != p.Include["python"].Files[0] {
		t.Errorf("got %+v, %v", whole.Files, err)
	}
}

// TestProblemNamesSource: the entrypoint of a single program only names it. It never stands in the place of the problem's own files, nor is it
// started before them.
func TestProblemNamesSource(t *testing.T) {
	t.Parallel()
	driver := job.File{Name: "main.py", Content: "import solution"}
	p := job.Problem{Include: map[string]job.Include{
		"named":    {Files: []job.File{driver}, SourceName: "solution.py", Entrypoint: "main.py"},
		"python":   {Files: []job.File{driver}, Entrypoint: "main.py"},
		"own":      {Files: []job.File{{Name: "in.txt"}}, Entrypoint: "main.py"}, // that the submission has to have
		"commands": {Files: []job.File{{Name: "grader.cpp"}}, Commands: &job.Commands{Run: "/tmp/main"}},
		"helper":   {Files: []job.File{{Name: "helper.py"}}},
	}}
	one := func(name string) []job.File { return []job.File{{Name: name, ContentBase64: "6Q=="}} }
	two := append(one("solution.py"), job.File{Name: "util.py"})
	for name, test := range map[string]struct {
		sub    job.Spec
		source string // what source is called, or what is there of a submission of files
		starts string
		wrong  string // the field
	}{
		"source that the problem names": {sub: job.Spec{Runtime: "named", Source: "1", Entrypoint: "mine.py"}, source: "solution.py", starts: "main.py"},
		"called as the driver":          {sub: job.Spec{Runtime: "named", Source: "1", Entrypoint: "main.py"}, source: "solution.py", starts: "main.py"},
		"named as another file":         {sub: job.Spec{Runtime: "named", Source: "1", Files: one("util.py"), Entrypoint: "util.py"}, wrong: "entrypoint"},
		"beside the driver":             {sub: job.Spec{Runtime: "python", Source: "1", Entrypoint: "mine.py"}, source: "mine.py", starts: "main.py"},
		"in place of the driver":        {sub: job.Spec{Runtime: "python", Source: "1", Entrypoint: "main.py"}, wrong: "entrypoint"},
		"below the driver":              {sub: job.Spec{Runtime: "python", Source: "1", Entrypoint: "main.py/x"}, wrong: "entrypoint"},
		"no name beside the driver":     {sub: job.Spec{Runtime: "python", Source: "1"}, wrong: "entrypoint"},
		"what the problem starts":       {sub: job.Spec{Runtime: "own", Source: "1", Entrypoint: "mine.py"}, source: "main.py", starts: "main.py"},
		"compiled by the problem":       {sub: job.Spec{Runtime: "commands", Source: "1", Entrypoint: "sum.cpp"}, source: "sum.cpp", starts: "sum.cpp"},
		"called as the grader":          {sub: job.Spec{Runtime: "commands", Source: "1", Entrypoint: "grader.cpp"}},
		"beside a helper":               {sub: job.Spec{Runtime: "helper", Source: "1", Entrypoint: "mine.py"}, source: "mine.py", starts: "mine.py"},
		"no include":                    {sub: job.Spec{Runtime: "java", Source: "1", Entrypoint: "Sum.java"}, source: "Sum.java", starts: "Sum.java"},
		"the only file":                 {sub: job.Spec{Runtime: "python", Files: one("mine.py"), Entrypoint: "mine.py"}, source: "mine.py", starts: "main.py"},
		"the only file, a driver":       {sub: job.Spec{Runtime: "python", Files: one("main.py"), Entrypoint: "main.py"}, starts: "main.py"},
		"one of two files":              {sub: job.Spec{Runtime: "python", Files: two, Entrypoint: "solution.py"}, wrong: "entrypoint"},
		"none of one":                   {sub: job.Spec{Runtime: "python", Files: one("mine.py"), Entrypoint: "other.py"}, wrong: "entrypoint"},
		"commands of its own":           {sub: job.Spec{Runtime: "commands", Source: "1", Commands: &job.Commands{Run: "true"}}, wrong: "commands"},
	} {
		got, err := p.Expand(test.sub)
		var invalid job.Invalid
		if errors.As(err, &invalid); test.wrong != "" {
			if len(invalid) == 0 || invalid[0].Field != test.wrong {
				t.Errorf("%s: got %+v, %v, want what is wrong with %s", name, got, err, test.wrong)
			}
			continue
		}
		if err != nil || got.Entrypoint != test.starts {
			t.Errorf("%s: got %q started, %v, want %q", name, got.Entrypoint, err, test.starts)
			continue
		}
		source := ""
		if got.Source != "" {
			source = got.Entrypoint
		}
		include := p.Include[test.sub.Runtime]
		for _, f := range got.Files {
			own := slices.Contains(include.Files, f)
			if !own {
				source = f.Name
			}
			if !own && slices.ContainsFunc(include.Files, func(g job.File) bool { return g.Name == f.Name }) {
				t.Errorf("%s: %s of the problem is another", name, f.Name)
			}
		}
		if source != test.source || len(got.Files) < len(include.Files) || got.Commands != include.Commands {
			t.Errorf("%s: got %+v, want %q beside the problem's files", name, got, test.source)
		}
	}
}
