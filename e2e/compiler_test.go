package e2e

import (
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// TestWaitingCompiler: a job in Java, whatever its file is called and with variables of its own, is compiled by a compiler that
// waited for it, on a worker with its defaults; so is a submission with tests.
func TestWaitingCompiler(t *testing.T) {
	t.Parallel()
	metrics := gbtest.Addr(t)
	g := start(t, options{workerEnv: append(oneOfEach(t, 2), "GLOVEBOX_METRICS_ADDR="+metrics)})
	const source = `public class Answer { public static void main(String[] a) { System.out.println(System.getenv("WHO") + " " + a.length); } }`
	spec := job.Spec{
		Runtime: "java", Files: []job.File{{Name: "Answer.java", Content: source}}, Entrypoint: "Answer.java", Args: []string{"x"},
		Env: map[string]string{"WHO": "me"}, Limits: job.Limits{WallMS: 60_000, CPUMS: 60_000, CompileWallMS: 60_000},
	}
	tested := spec
	tested.Args, tested.Tests = nil, []job.Test{{Name: "1", Answer: "me 0\n"}, {Name: "2", Args: []string{"a"}, Answer: "me 1\n"}}
	waited := func() bool {
		const started = `glovebox_sandbox_startup_seconds_count{runtime="java",start=`
		return scrape(t, metrics, started+`"preloaded"}`) != "" || scrape(t, metrics, started+`"restored"}`) != ""
	}
	awaitCompiler := func() {
		t.Helper()
		if !within(patience, func() bool { return scrape(t, metrics, `glovebox_worker_preloaded_sandboxes{runtime="java"}`) == "1" }) {
			t.Fatal("no compiler waits")
		}
	}
	for !waited() {
		awaitCompiler()
		if r := g.wait(g.submit(spec)); r.Status != job.Succeeded || r.Stdout != "me 1\n" {
			t.Fatalf("got %+v", r)
		}
	}
	awaitCompiler()
	if r := g.wait(g.submit(tested)); r.Verdict != job.Accepted {
		t.Errorf("got %s, %+v", r.Verdict, r.Tests)
	}
}
