package worker_test

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

func TestJobs(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	for _, c := range []struct {
		name string
		spec job.Spec
		want func(job.Result) string
	}{
		{
			"hello",
			job.Spec{Runtime: "python", Source: "print('hello')", Metadata: map[string]string{"k": "v"}},
			func(r job.Result) string {
				return expect(r.Status == job.Succeeded && *r.ExitCode == 0 && r.Stdout == "hello\n" && r.Stderr == "" &&
					r.Runtime.Name == "python" && r.Runtime.ImageDigest != "" && r.Attempt == 1 && r.Metadata["k"] == "v" &&
					r.Usage.WallMS > 0 && r.Timing.StartupMS > 0 && r.Timing.FinishedAt != nil)
			},
		},
		{
			"an alias, arguments, environment, standard input and files",
			job.Spec{
				Runtime: "py", Entrypoint: "app/run.py", Args: []string{"a b", "--c"}, Env: map[string]string{"GREETING": "hi"}, Stdin: "line\n",
				Files: []job.File{{Name: "app/run.py", Content: "import sys,os\nprint(sys.argv[1:], os.environ['GREETING'], input(), open('data.txt').read())"}, {Name: "data.txt", ContentBase64: "ZGF0YQ=="}},
			},
			func(r job.Result) string { return expect(r.Stdout == "['a b', '--c'] hi line data\n") },
		},
		{
			"exit code",
			job.Spec{Runtime: "bash", Source: "echo oops >&2; exit 3"},
			func(r job.Result) string {
				return expect(r.Status == job.Failed && *r.ExitCode == 3 && r.Stderr == "oops\n" && r.Error == nil)
			},
		},
		{
			"signal",
			job.Spec{Runtime: "bash", Source: "kill -SEGV $$"},
			func(r job.Result) string {
				return expect(r.Status == job.Failed && r.Signal == "SIGSEGV" && *r.ExitCode == 139)
			},
		},
		{
			"time-out",
			job.Spec{Runtime: "bash", Source: "echo begun; sleep 60", Limits: job.Limits{WallMS: 20_000}},
			func(r job.Result) string {
				return expect(r.Status == job.TimedOut && *r.ExitCode == 124 && r.Stdout == "begun\n" && r.Stderr == "Execution timed out\n")
			},
		},
		{
			"too much output",
			job.Spec{Runtime: "bash", Source: "yes", Limits: job.Limits{OutputKB: 100}},
			func(r job.Result) string {
				return expect(r.Status == job.OutputLimitExceeded && len(r.Stdout) == job.InlineOutput && r.StdoutURL == "stdout")
			},
		},
		{
			"output that is no text",
			job.Spec{Runtime: "bash", Source: `printf 'a\377b'`},
			func(r job.Result) string { return expect(r.Stdout == "a\uFFFDb" && r.StdoutURL == "stdout") },
		},
		{
			"a chart and a file",
			job.Spec{Runtime: "python", Source: "import matplotlib.pyplot as plt\nplt.plot([1,2])\nplt.show()\nopen('out/x.csv','w').write('a,b') if __import__('os').makedirs('out') is None else 0", Limits: job.Limits{WallMS: 60_000, MemoryMB: 512}},
			func(r job.Result) string {
				return expect(r.Status == job.Succeeded && len(r.Artifacts) == 2 &&
					r.Artifacts[0].Name == "chart-1.png" && r.Artifacts[0].Kind == job.KindChart && r.Artifacts[0].MediaType == "image/png" &&
					strings.Contains(string(r.Artifacts[0].Chart), `"series":[{"type":"line","label":"","x":[0,1],"y":[1,2]}]`) && r.Artifacts[1].Chart == nil &&
					r.Artifacts[1].Name == "out/x.csv" && r.Artifacts[1].Kind == job.KindFile && r.Artifacts[1].Size == 3)
			},
		},
		{
			"node",
			job.Spec{Runtime: "node", Source: "console.log(require('lodash').sum([1,2]))"},
			func(r job.Result) string { return expect(r.Stdout == "3\n") },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.result(g.submit(c.spec))
			if problem := c.want(r); problem != "" {
				b, _ := json.MarshalIndent(r, "", "  ")
				t.Errorf("%s: %.4000s", problem, b)
			}
		})
	}
}

func expect(ok bool) string {
	if ok {
		return ""
	}
	return "not the result that was expected"
}

func TestOutputBeyondTheResultIsWhole(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	id := g.submit(job.Spec{Runtime: "bash", Source: "seq 1 100000"})
	r := g.result(id)
	if r.Status != job.Succeeded || r.StdoutURL != "stdout" {
		t.Fatalf("got %s, stdout_url %q", r.Status, r.StdoutURL)
	}
	body, _, err := g.objects.Get(t.Context(), fmt.Sprintf("tenants/default/jobs/%s/1/stdout", id))
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	whole, err := io.ReadAll(body)
	if err != nil || !strings.HasSuffix(string(whole), "\n100000\n") || !strings.HasPrefix(string(whole), r.Stdout) {
		t.Errorf("got %d bytes, %v", len(whole), err)
	}
}

// What a tenant is said to keep is what is in its part of the bucket.
func TestBytesStored(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	r := g.result(g.submit(job.Spec{Runtime: "bash", Source: "seq 1 100000; seq 1 10 > a.csv; mkdir b; head -c 300000 /dev/zero > b/c"}))
	if r.Status != job.Succeeded || r.StdoutURL == "" || len(r.Artifacts) != 2 {
		t.Fatalf("got %s, stdout_url %q, artifacts %+v", r.Status, r.StdoutURL, r.Artifacts)
	}
	want := int64(0)
	err := filepath.WalkDir(filepath.Join(g.s3.Dir, "glovebox/tenants/default"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			want += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := g.records.Redis().Get(t.Context(), "gb:{default}:stored").Int64(); err != nil || got != want {
		t.Errorf("got %d bytes, %v; the bucket has %d", got, err, want)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	soon(t, func() time.Duration {
		id := g.submit(job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 100_000}})
		g.state(id, job.Running)
		time.Sleep(300 * time.Millisecond) // somewhere in its start or run
		began := time.Now()
		if _, err := g.records.Cancel(t.Context(), id, nil); err != nil {
			t.Fatal(err)
		}
		r := g.result(id)
		if r.Status != job.Canceled || r.ExitCode != nil {
			t.Errorf("got %+v", r)
		}
		return time.Since(began)
	})
}

// soon fails the test if each of five cancels takes as long as if the worker was not told: it looks after 10 s.
func soon(t *testing.T, cancel func() time.Duration) {
	t.Helper()
	const most = 8 * time.Second
	if took := gbtest.Best(5, most, cancel); took > most {
		t.Errorf("a cancel took %s", took)
	}
}

// A job that runs at its deadline ends as one that waits then: canceled, and with the reason.
func TestDeadline(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	deadline := time.Now().Add(15 * time.Second)
	id := g.submit(job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 100_000}, Deadline: deadline})
	g.state(id, job.Running)
	r := g.result(id)
	if r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeDeadlineExceeded || r.ExitCode != nil || r.Timing.Deadline == nil {
		t.Errorf("got %+v, error %+v", r, r.Error)
	}
	if late := r.Timing.FinishedAt.Sub(deadline); late < -time.Millisecond || late > gbtest.AtOnce {
		t.Errorf("it ended %s after its deadline", late)
	}
	// One that is taken too late doesn't run.
	id = g.submit(job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 100_000}, Deadline: time.Now()})
	if r := g.result(id); r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeDeadlineExceeded {
		t.Errorf("begun after its deadline: got %+v, error %+v", r, r.Error)
	}
}

func TestDrainHandsBackAtNoCost(t *testing.T) {
	t.Parallel()
	g := start(t, func(c *worker.Config) { c.Grace = 25 * time.Second }) // the quick one may be slow to start
	quick := g.submit(job.Spec{Runtime: "bash", Source: "sleep 0.5; echo done"})
	slow := g.submit(job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 100_000}})
	g.state(quick, job.Running)
	g.state(slow, job.Running)
	time.Sleep(400 * time.Millisecond)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	if r := g.result(quick); r.Stdout != "done\n" {
		t.Errorf("a job that could finish within the grace: got %+v", r)
	}
	j, err := g.records.Get(t.Context(), slow)
	if err != nil || j.State != job.Queued || j.Attempts != 0 || j.Epoch != 2 {
		t.Errorf("got state %s attempts %d epoch %d %v, want queued 0 2", j.State, j.Attempts, j.Epoch, err)
	}
}

func TestStoreComesBack(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	g.s3.Kill()
	id := g.submit(job.Spec{Runtime: "bash", Source: "echo hello > file"})
	g.state(id, job.Running)
	time.Sleep(2 * time.Second)
	g.s3.Restart()
	r := g.result(id)
	if r.Status != job.Succeeded || len(r.Artifacts) != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestRedisRestartsWhileAJobRuns(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	id := g.submit(job.Spec{Runtime: "bash", Source: "sleep 1; echo survived"})
	g.state(id, job.Running)
	g.redis.Kill()
	time.Sleep(2 * time.Second)
	g.redis.Restart()
	if r := g.result(id); r.Stdout != "survived\n" || r.Attempt != 1 {
		t.Errorf("got %+v", r)
	}
}
