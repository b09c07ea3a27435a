package job_test

import (
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
	// What a submission calls as the problem's own files are called is not run.
	whole, err := p.Expand(job.Spec{Runtime: "python", Files: []job.File{{Name: "main.py", Content: "cheat()"}, {Name: "solution.py", Content: "1"}}})
	if err != nil || len(whole.Files) != 2 || whole.Files[1] != p.Include["python"].Files[0] {
		t.Errorf("got %+v, %v", whole.Files, err)
	}
}
