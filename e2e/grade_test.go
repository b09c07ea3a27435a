package e2e

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestGrade: a submission goes over HTTP with tests, two of them uploaded, and its verdict comes by webhook.
// Neither what hidden tests read nor any answer is in a message or a log, nor in Redis as an event.
func TestGrade(t *testing.T) {
	t.Parallel()
	g := start(t, options{workerEnv: []string{"GLOVEBOX_SIGNING_KEY=" + attest.NewSeed()}})
	numbers := strings.Repeat("1000003\n", 20_000)
	in, err := producer.UploadFile(t.Context(), g.client, "in", bytes.NewReader([]byte(numbers)))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := producer.UploadFile(t.Context(), g.client, "answer", strings.NewReader("20000060000\n"))
	if err != nil {
		t.Fatal(err)
	}
	points := 40.0
	spec := job.Spec{
		Runtime: "c", Source: `#include <stdio.h>
int main(void) { long n, sum = 0; while (scanf("%ld", &n) == 1) sum += n; printf("%ld\n", sum); }`,
		Tests: []job.Test{
			{Name: "sample/1", Group: "sample", Stdin: "1 2", Answer: "3"},
			{Name: "secret/1", Group: "secret", StdinUpload: in.Upload, AnswerUpload: answer.Upload, Points: &points, Hidden: true},
			{Name: "secret/2", Group: "secret", Stdin: "7770001 1", Answer: "7770009", Points: &points, Hidden: true, Hint: "too small"},
		},
		Groups:   []job.Group{{Name: "sample", AcceptScore: new(float64)}, {Name: "secret", RequirePass: []string{"sample"}}},
		Callback: &job.Callback{URL: g.hook.url}, Limits: job.Limits{WallMS: 60_000, CPUMS: 60_000, CompileWallMS: 60_000},
	}
	if _, err := g.client.Submit(t.Context(), job.Spec{Runtime: "c", Source: "x", Tests: []job.Test{{Name: "1", StdinUpload: strings.Repeat("0", 64)}}}); err == nil || !strings.Contains(err.Error(), "tests[0].stdin_upload") {
		t.Errorf("an upload that is not there: got %v", err)
	}
	id := g.submit(spec)
	got := g.wait(id)
	hooked := g.hook.messages(t, 1, patience)[0].Result
	keys, err := g.client.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]job.Result{"GET": got, "the webhook": hooked} {
		if r.Status != job.Succeeded || r.Verdict != job.WrongAnswer || r.Score == nil || *r.Score != 40 || *r.MaxScore != 80 || len(r.Tests) != 3 || len(r.Groups) != 2 {
			t.Fatalf("%s: got %+v, error %+v", name, r, r.Error)
		}
		if v := []job.Verdict{r.Tests[0].Verdict, r.Tests[1].Verdict, r.Tests[2].Verdict}; v[0] != job.Accepted || v[1] != job.Accepted || v[2] != job.WrongAnswer {
			t.Errorf("%s: got %v", name, v)
		}
		if r.Tests[0].Stdout != "3\n" || r.Tests[2].Feedback != "too small" || r.Tests[2].Stdout != "" || r.Tests[2].Difference != nil || r.Compile == nil {
			t.Errorf("%s: got %+v", name, r.Tests)
		}
		v, err := attest.Verify(r, keys)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := attest.InputHash(spec); err != nil || v.Statement.Predicate.InputHash != want {
			t.Errorf("%s: the input hash is %s, want %s, %v", name, v.Statement.Predicate.InputHash, want, err)
		}
		r.Tests[2].Verdict = job.Accepted
		if _, err := attest.Verify(r, keys); err == nil {
			t.Errorf("%s: another verdict verifies", name)
		}
	}
	for name, log := range map[string]string{"the worker": g.worker.Output(), "the api": g.api.Output()} {
		if strings.Contains(log, "7770001") || strings.Contains(log, "7770009") {
			t.Errorf("%s logs a hidden test", name)
		}
	}
}

// TestGradeForks: on a worker with warm sandboxes, one interpreter makes the processes of a submission's tests, whatever its file is
// called. It is not so where something of the job's own could make the interpreter execute what it says, nor where all is to be fresh.
func TestGradeForks(t *testing.T) {
	t.Parallel()
	g := start(t, options{workerEnv: oneOfEach(t, 2)})
	const source = "import os\nprint(os.getppid() != 1)"
	named := []job.File{{Name: "solution.py", Content: source}}
	const imports = "import os, sys # not numpy, whose module is there all the same\nprint(os.getppid() != 1 and 'numpy' in sys.modules)"
	for name, tt := range map[string]struct {
		spec   job.Spec
		tests  int
		forked bool
	}{
		"its own name":        {job.Spec{Source: source}, 3, true},
		"another name":        {job.Spec{Files: named, Entrypoint: "solution.py"}, 3, true},
		"in a directory":      {job.Spec{Files: []job.File{{Name: "a/b.py", Content: source}}, Entrypoint: "a/b.py", Args: []string{"x"}}, 3, true},
		"modules":             {job.Spec{Source: imports}, 3, true},
		"modules of a file":   {job.Spec{Files: []job.File{{Name: "m.py", Content: imports}}}, 3, true},
		"two tests":           {job.Spec{Source: source}, 2, false},
		"fresh":               {job.Spec{Source: source, Fresh: true}, 3, false},
		"variables":           {job.Spec{Source: source, Env: map[string]string{"A": "b"}}, 3, false},
		"commands of its own": {job.Spec{Files: named, Commands: &job.Commands{Run: "exec python3 solution.py"}}, 3, false},
	} {
		spec := tt.spec
		spec.Runtime, spec.Limits = "python", job.Limits{WallMS: 60_000, CPUMS: 60_000}
		want := map[bool]string{true: "True\n", false: "False\n"}[tt.forked]
		for range tt.tests {
			spec.Tests = append(spec.Tests, job.Test{Name: strconv.Itoa(len(spec.Tests)), Answer: want})
		}
		if r := g.wait(g.submit(spec)); r.Verdict != job.Accepted {
			t.Errorf("%s: got %s, %+v, want each test to print %q", name, r.Verdict, r.Tests, want)
		}
	}
}
