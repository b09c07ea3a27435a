package e2e

import (
	"crypto/rand"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestPlacement: of two workers one is kept for the exams of a school, which the operator has tied to it. Jobs run where their labels are, and
// nowhere else, whatever another tenant names; those of a pool without workers wait, say so, and hold up nobody.
func TestPlacement(t *testing.T) {
	t.Parallel()
	admin := rand.Text()
	g := start(t, options{noWorker: true, apiEnv: []string{"GLOVEBOX_ADMIN_TOKEN=" + admin}})
	pool := []string{"GLOVEBOX_LABELS=pool=exams,zone=a", "GLOVEBOX_LABELS_ONLY=pool"}
	exams := g.startWorker(pool...)
	anybodys := g.startWorker("GLOVEBOX_LABELS=zone=b")
	gbtest.Eventually(t, "the second worker has said what it is", func() bool { return workerLine.MatchString(anybodys.Output()) })
	operator, err := producer.New(g.url, admin)
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	if _, err := operator.CreateTenant(t.Context(), "school", job.Terms{Placement: job.Labels{"pool": "exams"}}); err != nil {
		t.Fatal(err)
	}
	token, err := operator.AddToken(t.Context(), "school", producer.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	school, err := producer.New(g.url, token.Secret)
	if err != nil {
		t.Fatal(err)
	}
	defer school.Close()

	idOf := func(p *gbtest.Process) string {
		t.Helper()
		line := workerLine.FindStringSubmatch(p.Output())
		if line == nil {
			t.Fatalf("a worker says not what it is called: %s", p.LastWords())
		}
		return line[1]
	}
	onExams := idOf(exams)
	spec := func(placement job.Labels) job.Spec {
		return job.Spec{Runtime: "bash", Source: "echo hello", Placement: placement, Limits: job.Limits{WallMS: 60_000, CPUMS: 60_000}}
	}
	var theirs, ours []string
	for range 6 { // more than the pool has room for at once
		j, err := school.Submit(t.Context(), spec(nil))
		if err != nil {
			t.Fatal(err)
		}
		theirs = append(theirs, j.ID)
		ours = append(ours, g.submit(spec(nil)), g.submit(spec(job.Labels{"zone": "b"})))
	}
	for _, id := range ours {
		if r := g.wait(id); r.Stdout != "hello\n" || r.Worker == onExams {
			t.Errorf("a job for anybody's workers: got %s on %s, %+v", r.Status, r.Worker, r.Error)
		}
	}
	for _, id := range theirs {
		j, err := school.Wait(t.Context(), id)
		if err != nil || j.Result.Stdout != "hello\n" || j.Result.Worker != onExams {
			t.Errorf("a job of the school: got %+v, %v, want it on %s", j.Result, err, onExams)
		}
	}
	for asked, want := range map[string]string{"pool=exams": "keeps for other tenants", "pool=exams,zone=a": "keeps for other tenants", "zone=a": "no worker has had"} {
		labels, err := job.ParseLabels(asked, job.MaxPlacement)
		if err != nil {
			t.Fatal(err)
		}
		var invalid job.Invalid
		if j, err := g.client.Submit(t.Context(), spec(labels)); !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s asked for by another tenant: got %+v, %v", asked, j, err)
		}
	}

	x, err := g.client.StartSession(t.Context(), job.SessionSettings{Runtime: "bash", Placement: job.Labels{"zone": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if x.Placement.String() != "zone=b" {
		t.Errorf("a session: got %+v", x)
	}
	executed, err := g.client.ExecuteInSession(t.Context(), x.ID, job.SessionExecution{Code: "echo hello"})
	if err != nil {
		t.Fatal(err)
	}
	if r := g.wait(executed.ID); r.Stdout != "hello\n" || r.Worker == onExams {
		t.Errorf("an execution: got %+v", r)
	}

	exams.Signal(syscall.SIGTERM)
	<-exams.Done()
	late, err := school.Submit(t.Context(), spec(nil))
	if err != nil {
		t.Fatal(err)
	}
	gbtest.Eventually(t, "the job says what it waits for", func() bool {
		j, err := school.Get(t.Context(), late.ID)
		if err != nil {
			t.Fatal(err)
		}
		return j.Waits == "no worker that takes jobs has the labels pool=exams"
	})
	if r := g.wait(g.submit(spec(nil))); r.Stdout != "hello\n" {
		t.Errorf("a job behind it: got %+v", r)
	}
	again := g.startWorker(pool...)
	j, err := school.Wait(t.Context(), late.ID)
	if err != nil || j.Result.Worker != idOf(again) || j.Result.Attempt != 1 {
		t.Errorf("once a worker has its labels: got %+v, %v", j.Result, err)
	}
}
