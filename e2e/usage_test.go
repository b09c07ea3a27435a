package e2e

import (
	"crypto/rand"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// TestUsage: results of real sandboxes have a cost, the usage is their sum, and a budget that it passes refuses jobs.
func TestUsage(t *testing.T) {
	t.Parallel()
	admin := rand.Text()
	g := start(t, options{
		apiEnv:    []string{"GLOVEBOX_ADMIN_TOKEN=" + admin, "GLOVEBOX_PRICES=run=200,cpu_second=14000,gib_second=4500"},
		workerEnv: []string{"GLOVEBOX_PRICES=run=200,cpu_second=14000,gib_second=4500"},
	})
	prices := job.Prices{Run: 200, CPUSecond: 14_000, GiBSecond: 4_500}
	var want job.UsageCounts
	nano := int64(0)
	add := func(r job.Result, memoryMB int64) {
		t.Helper()
		if r.Cost == nil || r.Cost.Nano != prices.Cost(r.Usage, memoryMB) {
			t.Fatalf("got %+v of %+v", r.Cost, r.Usage)
		}
		want.Jobs++
		want.CPUMS += r.Usage.CPUMS
		want.MemoryMiBMS += memoryMB * r.Usage.WallMS
		nano += r.Cost.Nano
	}
	limits := job.Limits{MemoryMB: 192, WallMS: 60_000}
	for _, source := range []string{"echo hello", "exit 3"} {
		add(g.wait(g.submit(job.Spec{Runtime: "bash", Source: source, Limits: limits})), 192)
	}
	x, err := g.client.StartSession(t.Context(), job.SessionSettings{Runtime: "python", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	add(g.executedIn(x.ID, "sum(range(10**6))"), 192)
	endless := g.submit(job.Spec{Runtime: "bash", Source: "echo on; sleep 1000", Limits: limits, Stream: true})
	g.saysOn(t, endless)
	if _, err := g.client.Cancel(t.Context(), endless); err != nil {
		t.Fatal(err)
	}
	deleted := g.executeIn(x.ID, "print('on', flush=True)\nwhile True: pass")
	g.saysOn(t, deleted)
	if _, err := g.client.EndSession(t.Context(), x.ID); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{endless, deleted} {
		r := g.wait(id)
		if r.Status != job.Canceled || r.Usage.WallMS == 0 {
			t.Errorf("got %s, %+v, want it canceled, and for how long it ran", r.Status, r.Usage)
		}
		add(r, 192)
	}
	want.Cost = job.NewCost(nano)
	var got job.UsageReport
	gbtest.Eventually(t, "the usage is read", func() bool {
		got, err = g.client.Usage(t.Context(), time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly), "")
		return err == nil
	})
	if got.Total != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if csv := g.command("usage", "--csv"); !strings.Contains(csv, want.Cost.Amount) && len(got.Days) == 1 {
		t.Errorf("got %s, want %s", csv, want.Cost.Amount)
	}
	if said := g.command("usage"); !strings.Contains(said, "total") || strings.Contains(said, "budget") {
		t.Errorf("got %s", said)
	}
	operator := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary(t, "glovebox"), append([]string{"tenant"}, args...)...)
		cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_ADMIN_TOKEN="+admin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	operator("create", "default", "--budget", "0.0000005", "--budget-warn", "50")
	if said := operator("show", "default"); !strings.Contains(said, "0.000000500 a month, warned of at 0.000000250") {
		t.Errorf("got %s", said)
	}
	gbtest.Eventually(t, "jobs are refused", func() bool {
		_, err = g.client.Submit(t.Context(), job.Spec{Runtime: "bash", Source: "echo"})
		return job.CodeOf(err) == job.CodeBudgetExceeded
	})
	if said := g.command("usage"); !strings.Contains(said, "of the budget of 0.000000500 for "+job.MonthOf(time.Now())+" are spent") {
		t.Errorf("got %s", said)
	}
	if said := g.command("usage", "--cloudevents"); strings.TrimSpace(said) != "[]" && !strings.Contains(said, `"specversion": "1.0"`) { // today isn't over
		t.Errorf("got %s", said)
	}
}

// saysOn waits until a job that is streamed, or a piece of code, has said "on".
func (g *glovebox) saysOn(t *testing.T, id string) {
	t.Helper()
	for e, err := range g.client.Watch(t.Context(), id, "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(e.Data), "on") {
			return
		}
	}
	t.Fatalf("%s has ended, and not said it", id)
}
