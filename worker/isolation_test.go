package worker_test

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
	"github.com/glovebox-run/glovebox/worker/sandbox/process"
)

// byProcess makes a worker isolate by processes.
func byProcess(t *testing.T) func(*worker.Config) {
	t.Helper()
	return func(c *worker.Config) {
		s, err := process.Open(t.Context(), process.Config{Agent: agentPath(t), Log: c.Log})
		if err != nil {
			t.Fatal(err)
		}
		c.Sandboxes, c.Isolation, c.Runtimes = s, job.Process, s.Runtimes(t.Context(), only(t, "bash"))
	}
}

// TestNoJobRunsInLessThanItAccepts: of two workers only one runs in gVisor. A job that says nothing runs there and nowhere else, whatever is
// idle; one that accepts less runs on either.
func TestNoJobRunsInLessThanItAccepts(t *testing.T) {
	t.Parallel()
	signer, err := attest.NewSigner(attest.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	in := byProcess(t)
	less := start(t, func(c *worker.Config) { in(c); c.Signer = signer })
	less.sweeps()
	bash := job.Spec{Runtime: "bash", Source: "uname -r"}
	accepts := bash
	accepts.Isolation = job.Process

	t.Log("a job that accepts it runs in a process, and is attested as that")
	r := less.result(less.submit(accepts))
	if r.Status != job.Succeeded || r.Worker != less.id || r.Runtime.Isolation != job.Process || strings.Contains(r.Stdout, "gvisor") || r.LimitsEnforced != "soft" {
		t.Fatalf("got %+v", r)
	}
	if _, err := attest.Verify(r, []attest.Key{signer.Key()}); err != nil {
		t.Error(err)
	}
	r.Runtime.Isolation = ""
	if _, err := attest.Verify(r, []attest.Key{signer.Key()}); err == nil {
		t.Error("it verifies as one of gVisor")
	}

	t.Log("one that says nothing waits for gVisor, at no cost of attempts, and so does one that says gvisor")
	said := bash
	said.Isolation = job.GVisor
	ids := []string{less.submit(bash), less.submit(said)}
	less.says("job waits: no worker offers its runtime or image")
	t.Log("and a record that does not say what its spec says is found out")
	lies := less.submit(bash)
	if err := less.records.Redis().HSet(t.Context(), "gb:{default}:job:"+lies, "isolation", "process").Err(); err != nil {
		t.Fatal(err)
	}
	less.says("accepts no less than gvisor")
	if _, err := less.records.Cancel(t.Context(), lies, nil); err != nil {
		t.Fatal(err)
	}

	more := less.another(func(c *worker.Config) { c.Runtimes = only(t, "bash") })
	for _, id := range ids {
		if r := less.result(id); r.Status != job.Succeeded || r.Worker != more.id || r.Attempt != 1 || r.Runtime.Isolation != "" || !strings.Contains(r.Stdout, "gvisor") {
			t.Errorf("got %+v", r)
		}
	}
	if err := less.stop(); err != nil {
		t.Fatal(err)
	}
	t.Log("what accepts less may have more")
	if r := more.result(more.submit(accepts)); r.Status != job.Succeeded || r.Worker != more.id || r.Runtime.Isolation != "" {
		t.Errorf("got %+v", r)
	}
}
